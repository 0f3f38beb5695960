"""Readings while the hardware works: NVML, the host, and the wake-up delay of a sleeping process."""
