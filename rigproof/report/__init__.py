"""The files of a run, and what a terminal shows at its end."""
