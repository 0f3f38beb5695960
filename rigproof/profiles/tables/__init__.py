"""The content of SKU and rig files: one pydantic table for each TOML table."""
