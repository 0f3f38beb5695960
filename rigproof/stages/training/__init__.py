"""The training stage: precisions compared, the largest batch searched for, batch sizes swept."""
