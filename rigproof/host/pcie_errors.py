"""The PCIe errors that the kernel counts for a device and its upstream port, from sysfs. Needs no root.

Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats: `aer_dev_fatal`, `aer_dev_nonfatal` and
`aer_dev_correctable` list the kinds of errors, and their sum as `TOTAL_ERR_…`. Reading them touches no
hardware. They are absent if the kernel is built without AER, if the firmware keeps error handling to itself,
and for most devices of virtual machines.
"""

import re
from dataclasses import dataclass
from pathlib import Path

SYSFS = Path("/sys/bus/pci/devices")
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


@dataclass(frozen=True, slots=True)
class ErrorCounts:
    """Since boot; None if the kernel does not count them."""

    fatal: int | None = None
    nonfatal: int | None = None
    correctable: int | None = None


@dataclass(frozen=True, slots=True)
class LinkErrors:
    """The counts of both ends of a link. `port` is the upstream port's address; None if there is none."""

    device: ErrorCounts = ErrorCounts()
    port: str | None = None
    upstream: ErrorCounts = ErrorCounts()


def link_errors(bus_id: str, devices: Path = SYSFS) -> LinkErrors:
    """The counts of the device at that address, as NVML writes it (`00000000:1B:00.0`), and of its port.

    The port is the directory above the device's own: sysfs is laid out as the buses are.
    """
    device = devices / sysfs_address(bus_id)
    parent = device.resolve().parent
    if not ADDRESS.fullmatch(parent.name):
        return LinkErrors(_counts(device))
    return LinkErrors(_counts(device), parent.name, _counts(parent))


def sysfs_address(bus_id: str) -> str:
    """NVML's eight digits of a domain as sysfs has them: four, or more where they do not suffice."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{domain.lstrip('0'):0>4}:{rest}"


def _counts(folder: Path) -> ErrorCounts:
    return ErrorCounts(*(_total(folder / f"aer_dev_{kind}") for kind in ("fatal", "nonfatal", "correctable")))


def _total(path: Path) -> int | None:
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError):  # not counted here, or the device has gone
        return None
    for line in lines:
        name, _, number = line.rpartition(" ")
        if name.startswith("TOTAL_ERR_") and number.isdecimal():
            return int(number)
    return None
