"""Documents generated from the tables: key lists, JSON schemas, and a rig as TOML."""
