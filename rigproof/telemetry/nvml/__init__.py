"""NVML as rigproof reads it: identity, samples, counters, foreign memory, Xid events. Never writes a setting.

`session` opens it. `library` is the only module that imports pynvml; a value that it cannot read is None, an
error that it does not know gives None and is noted once as an event (`Nvml.problems`), and a lost GPU raises
GpuLost. Importing this package imports no pynvml.
"""
