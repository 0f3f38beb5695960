"""A small transformer and its training step, for the stages that train: its size, its layers, its steps."""
