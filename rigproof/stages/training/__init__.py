"""The training stage: compares precisions, searches for the largest batch, sweeps batch sizes."""
