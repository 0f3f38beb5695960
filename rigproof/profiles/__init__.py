"""What a rig promises: SKU and rig profiles in TOML, checked, merged, and turned into a plan."""
