"""What all outputs of a run have in common: its facts, its verdicts in order, its tables."""
