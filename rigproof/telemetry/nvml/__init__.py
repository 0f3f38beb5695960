"""NVML as rigproof reads it: identity, samples, counters, foreign memory, Xid events. Never writes a setting.

`session` opens it. `library` is the only module that imports pynvml; what it cannot read is None, what it
does not understand is None and noted once as an event (`Nvml.problems`), and a GPU that is lost raises
GpuLost. Importing this package imports no pynvml.
"""
