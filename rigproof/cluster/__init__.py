"""Ray: start or join a cluster, put agents and workers on it, run workloads, take everything down again.

Importing this package imports no Ray; its modules do.
"""
