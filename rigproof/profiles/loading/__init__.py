"""From TOML files to a merged and checked rig that knows where each value came from."""
