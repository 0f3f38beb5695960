"""What stands in SKU and rig files: one pydantic table for each TOML table."""
