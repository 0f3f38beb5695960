"""NVML's functions, answered from a simulated driver."""
