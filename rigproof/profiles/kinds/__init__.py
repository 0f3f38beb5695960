"""What the stages declare of themselves: their duties, settings and figures; and the tables made of these."""
