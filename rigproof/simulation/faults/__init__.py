"""Faults by name: what a fault is, how one is written on the command line, and when it acts.

Each stands beside the check that it proves, or in its stage's folder (`rigproof.judging.catalogue.FAULTS`).
"""
