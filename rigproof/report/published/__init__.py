"""A report that can be published: `--share`."""
