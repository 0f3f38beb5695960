"""Checks that belong to no single stage, one file each."""
