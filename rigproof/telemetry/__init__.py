"""What is read while the hardware works: NVML, the host, and how soon the host wakes a sleeper."""
