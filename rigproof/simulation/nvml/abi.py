"""How pynvml passes arguments to NVML's C functions.

Arguments are `byref` objects (written through `_obj`), ctypes scalars, buffers and handles. A function
returns an NVML code.
"""

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any

from rigproof.simulation.nvml.model import Answer, SimulatedDriver, SimulatedGpu
from rigproof.telemetry.nvml.protocol import SUCCESS, Code

MIB = 2**20
FIRST_HANDLE = 0x1000  # handles are opaque, and not null


def answers(table: dict[str, Answer], *names: str) -> Callable[[Answer], Answer]:
    """Register the function below as the answer to these C functions."""

    def register(function: Answer) -> Answer:
        for name in names:
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


def write_struct(reference: Any, **fields: Any) -> int:
    """Write a struct's fields; NOT_SUPPORTED if the first one is None (no such sensor)."""
    if next(iter(fields.values())) is None:
        return Code.NOT_SUPPORTED
    for name, value in fields.items():
        setattr(target(reference), name, value)
    return SUCCESS


def write_bus(reference: Any, bus_id: str) -> int:
    """Write a bus id, such as `00000000:01:00.0`, into the struct of a PCI device."""
    info = target(reference)
    domain, bus, device = bus_id.partition(".")[0].split(":")
    info.domain, info.bus, info.device = int(domain, 16), int(bus, 16), int(device, 16)
    info.busId = bus_id.encode()
    return SUCCESS


def write_list(found: Sequence[Any], count: Any, room: Any, put: Callable[[int, Any], object]) -> int:
    """Write the number of items, and put each in its place in the caller's array, if that has `room`."""
    size = 0 if room is None else target(count).value
    write(count, len(found))
    if len(found) > size:
        return Code.INSUFFICIENT_SIZE
    for place, one in enumerate(found):
        put(place, one)
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
