"""What a rig promises: SKU and rig profiles in TOML, which are checked, merged, and turned into a plan."""
