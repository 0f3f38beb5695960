"""The feeding stage: steps of generation on the device, their rewards computed by a pool on the CPU."""
