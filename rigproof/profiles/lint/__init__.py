"""What is wrong with a profile although it can be read."""
