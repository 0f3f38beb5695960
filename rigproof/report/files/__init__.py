"""The folder of a run, and the files in it that need no page of their own."""
