"""The files of a run, and the terminal output before and after it."""
