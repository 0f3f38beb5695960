"""Faults by name: what a fault is, how it is written on the command line, and when it acts.

Each is defined beside the check that it proves, or in its stage's folder
(`rigproof.judging.catalogue.FAULTS`).
"""
