"""What a recording means, worked out once: windows, rounds, readings, and whether to believe them."""
