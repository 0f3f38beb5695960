"""Loads the plugin, so that `pytest -m hardware` works from a checkout that is not installed."""

pytest_plugins = ["rigproof.plugin"]
