"""Faults by name: what there is, how they are written on the command line, and when each acts."""
