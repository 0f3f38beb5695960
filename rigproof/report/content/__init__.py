"""What all outputs of a run share: its facts, its verdicts in order, its tables."""
