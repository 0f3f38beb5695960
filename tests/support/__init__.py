"""What several folders of tests build upon; importable as `support` (see `pythonpath` in pyproject.toml)."""
