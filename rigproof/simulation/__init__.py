"""Simulated silicon. The one fake of the project: tests and `--simulate` share it.

`nvml.model` is the state of a simulated driver and its GPUs; `nvml.library` answers the real pynvml from it.
`silicon` is what a card does with its work.
"""
