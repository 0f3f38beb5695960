"""Work that may find too little memory on the device."""

from collections.abc import Callable

from rigproof.devices.device import Device
from rigproof.devices.reporting import Reporter


def failed_allocation(device: Device, work: Callable[[], object]) -> str:
    """Do the work. Returns the device's message if memory did not suffice; empty if it did.

    The error is not raised, because its traceback would keep the memory that was allocated.
    """
    try:
        work()
    except (RuntimeError, MemoryError) as error:
        if not device.is_out_of_memory(error):
            raise
        return str(error) or type(error).__name__
    return ""


def within_memory(
    device: Device, reporter: Reporter, needed_mib: float, what: str, work: Callable[[], object]
) -> None:
    """Do work that needs all of its memory at once, then free what is cached.

    A failed allocation is reported as an event, then raised as MemoryError with `what` was to be allocated.
    """
    failure = failed_allocation(device, work)
    device.empty_cache()
    if failure:
        reporter.out_of_memory(failure, needed_mib, recovered=False)
        raise MemoryError(f"{what}: {failure}")
