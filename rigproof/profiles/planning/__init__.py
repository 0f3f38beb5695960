"""From a rig to its plan: which worker does what, where, for how long, in how much memory."""
