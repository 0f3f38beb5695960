"""One simulated card: its work, clock, power, heat, memory and readings over time."""
