"""What the stages declare: their duties, settings and figures; and the tables made from these."""
