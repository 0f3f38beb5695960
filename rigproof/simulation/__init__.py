"""Simulated silicon. The one fake of the project: tests and `--simulate` share it.

`nvml_model` is the state of a simulated driver and its GPUs; `nvml_library` answers the real pynvml
from it, by the functions of `nvml_system`, `nvml_device` and `nvml_memory`.
"""
