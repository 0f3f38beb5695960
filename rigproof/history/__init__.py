"""pytest-benchmark's storage, keyed by rig and GPU: only good measurements enter it."""
