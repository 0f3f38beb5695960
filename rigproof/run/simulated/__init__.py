"""A simulated rig in the place of a real one: simulated silicon under the real driver, agents and workers."""
