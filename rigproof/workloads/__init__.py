"""What loads the hardware: GEMMs on a device, CPU threads that hold a host in its band.

Importing this package imports no torch; `specs` and `cpu_load` never do.
"""
