"""The sharing stage: the same products by one process, then by several that share the device."""
