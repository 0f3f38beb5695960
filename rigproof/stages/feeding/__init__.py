"""The feeding stage: steps of generation on the device; a pool on the CPU computes their rewards."""
