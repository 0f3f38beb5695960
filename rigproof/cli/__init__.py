"""The command line `rigproof`."""
