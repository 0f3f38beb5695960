"""How pynvml passes arguments to NVML's C functions, and where the simulated ones are registered.

Arguments are `byref` objects (written through `_obj`), ctypes scalars, buffers and handles. A function
returns an NVML code. Those in ON_DRIVER get the driver before their arguments; those in ON_DEVICE get the
driver, and the GPU instead of its handle.
"""

import ctypes
import sys
from collections.abc import Callable
from typing import Any

from rigproof.simulation.nvml.model import SimulatedDriver, SimulatedGpu, check_function_name
from rigproof.telemetry.nvml.protocol import SUCCESS, Code

MIB = 2**20
FIRST_HANDLE = 0x1000  # handles are opaque, and not null

Answer = Callable[..., int]
ON_DRIVER: dict[str, Answer] = {}
ON_DEVICE: dict[str, Answer] = {}


def answers(table: dict[str, Answer], *names: str) -> Callable[[Answer], Answer]:
    """Register the function below as the answer to these C functions."""

    def register(function: Answer) -> Answer:
        for name in names:
            check_function_name(name)
            table[name] = function
        return function

    return register


def gpu_of(driver: SimulatedDriver, handle: Any) -> SimulatedGpu | None:
    """The GPU of a handle, None for a handle that was never given out."""
    index = address(handle) - FIRST_HANDLE
    return driver.gpus[index] if 0 <= index < len(driver.gpus) else None


def address(pointer: Any) -> int:
    """Where a ctypes pointer points to; 0 for a null one."""
    return int.from_bytes(pointer, sys.byteorder)  # its own bytes; `cast` takes twenty times as long


def target(reference: Any) -> Any:
    """The object that a `byref` refers to."""
    return reference._obj  # noqa: SLF001 - ctypes has no public name for it


def write(reference: Any, value: float | None) -> int:
    """Write a number; None (no such sensor) returns NOT_SUPPORTED."""
    if value is None:
        return Code.NOT_SUPPORTED
    target(reference).value = int(value)
    return SUCCESS


def write_pointer(pointer: Any, value: int) -> None:
    """Set a ctypes pointer to that address."""
    ctypes.c_void_p.from_buffer(pointer).value = value


def write_text(buffer: Any, value: str | None) -> int:
    """Write into a string buffer, its size checked as NVML does."""
    if value is None:
        return Code.NOT_SUPPORTED
    data = value.encode()
    if len(data) >= len(buffer):
        return Code.INSUFFICIENT_SIZE
    buffer.value = data
    return SUCCESS


def milli(value: float | None) -> int | None:
    """Watts or joules in NVML's thousandths."""
    return None if value is None else round(value * 1000)
