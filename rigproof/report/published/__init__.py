"""A report that can be published: `--hw-share`."""
