"""A Python object that replaces libnvidia-ml.so, so that the real pynvml reads a SimulatedDriver.

pynvml looks its functions up on `pynvml.nvmlLib` and calls them with ctypes arguments. Everything above
that (structs, field values, error classes) is the real module. Besides `telemetry.nvml.library` this is
the only module that imports pynvml: to install the library and to remove it.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pynvml

from rigproof.host.nvidia import KernelDriver

# Importing these registers their functions.
from rigproof.simulation.nvml import device as nvml_device  # noqa: F401
from rigproof.simulation.nvml import links as nvml_links  # noqa: F401
from rigproof.simulation.nvml import memory as nvml_memory  # noqa: F401
from rigproof.simulation.nvml import system as nvml_system  # noqa: F401
from rigproof.simulation.nvml.abi import gpu_of
from rigproof.simulation.nvml.model import ON_DEVICE, ON_DRIVER, SimulatedDriver, check_function_name
from rigproof.telemetry.nvml.protocol import SUCCESS, Code

ERROR_TEXT = "nvmlErrorString"  # the only function that returns no code


class Function:
    """One C function: counts its calls, applies faults, then answers."""

    def __init__(self, driver: SimulatedDriver, name: str, lock: threading.Lock) -> None:
        self.restype: Any = None  # pynvml sets it, as on a ctypes function
        self._driver = driver
        self._name = name
        self._lock = lock
        self._of_driver = ON_DRIVER.get(name)
        self._of_device = ON_DEVICE.get(name)

    def __call__(self, *args: Any) -> Any:
        """Answer as NVML would: a code, or the text of nvmlErrorString."""
        driver, name = self._driver, self._name
        if name == ERROR_TEXT:
            return f"simulated NVML error {args[0]}".encode()
        with self._lock:
            driver.calls[name] = driver.calls.get(name, 0) + 1
        gpu = gpu_of(driver, args[0]) if self._of_device is not None else None
        if driver.faults:
            code = self._fault(None if gpu is None else gpu.uuid)
            if code != SUCCESS:
                return code
        if driver.started <= 0 and name != "nvmlInitWithFlags":
            return Code.UNINITIALIZED
        if self._of_driver is not None:
            return self._of_driver(driver, *args)
        if gpu is None or self._of_device is None:
            return Code.INVALID_ARGUMENT
        return Code.GPU_IS_LOST if gpu.lost else self._of_device(driver, gpu, *args[1:])

    def _fault(self, uuid: str | None) -> int:
        """The code of the first fault that acts here and has one; blocks if the fault hangs."""
        for fault in tuple(self._driver.faults):
            if fault.function != self._name or fault.field_id is not None or fault.uuid not in (None, uuid):
                continue
            with self._lock:
                tripped = fault.trips()
            if tripped and fault.hang is not None:
                fault.hang.wait()
            if tripped and fault.code != SUCCESS:
                return fault.code
        return SUCCESS


class SimulatedLibrary:
    """The object set as `pynvml.nvmlLib`. A function that the driver lacks is a missing attribute."""

    def __init__(self, driver: SimulatedDriver) -> None:
        for name in driver.missing_functions:
            check_function_name(name)
        self._driver = driver
        self._lock = threading.Lock()

    def kernel_driver(self) -> KernelDriver:
        """What the kernel under this library says, in place of this machine's."""
        return self._driver.kernel

    def __getattr__(self, name: str) -> Function:
        known = name in ON_DRIVER or name in ON_DEVICE or name == ERROR_TEXT
        if not known or name in self._driver.missing_functions:
            raise AttributeError(f"the simulated libnvidia-ml has no {name}")
        return Function(self._driver, name, self._lock)


# pynvml's own state: the library, the functions looked up in it, how often it was initialised.
STATE = ("nvmlLib", "_nvmlGetFunctionPointer_cache", "_nvmlLib_refcount")


class Switch:
    """One driver that pynvml reads while `active`; the previous one is restored afterwards.

    pynvml's state for that driver is kept in between, so that several can take turns in one process.

    Raises:
        ValueError: for a missing function that does not exist.
    """

    def __init__(self, driver: SimulatedDriver) -> None:
        self._own: dict[str, Any] = dict(zip(STATE, (SimulatedLibrary(driver), {}, 0), strict=True))

    @contextmanager
    def active(self) -> Iterator[None]:
        """Let pynvml read this driver."""
        before = _exchange(self._own)
        try:
            yield
        finally:
            self._own = _exchange(before)


@contextmanager
def installed(driver: SimulatedDriver) -> Iterator[SimulatedDriver]:
    """Let pynvml read `driver`; the previous one is restored afterwards.

    Raises:
        ValueError: for a missing function that does not exist.
    """
    with Switch(driver).active():
        yield driver


def _exchange(state: dict[str, Any]) -> dict[str, Any]:
    """Set pynvml's state; returns the previous one."""
    before = {name: getattr(pynvml, name) for name in STATE}
    for name, value in state.items():
        setattr(pynvml, name, value)
    return before
