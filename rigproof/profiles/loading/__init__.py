"""From TOML files to a merged and checked rig with the source of each value."""
