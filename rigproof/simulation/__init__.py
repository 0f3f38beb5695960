"""Simulated silicon, the only fake hardware of the project: tests and `--hw-simulate` share it.

`nvml.model` is the state of a simulated driver and its GPUs; `nvml.library` answers the real pynvml from it.
`silicon` models how a card behaves under its work.
"""
