"""What a terminal shows before, during and after a run."""
