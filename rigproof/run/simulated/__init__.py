"""A simulated rig instead of a real one: simulated silicon under the real driver, agents and workers."""
