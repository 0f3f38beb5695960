"""Pure functions from a Recording and limits to Verdicts; one file for each family."""
