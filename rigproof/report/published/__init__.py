"""A report that can be shown to anybody: `--share`."""
