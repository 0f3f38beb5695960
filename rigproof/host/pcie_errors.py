"""The PCIe errors that the kernel counts for a device and its upstream port, from sysfs. Needs no root.

Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats: `aer_dev_fatal`, `aer_dev_nonfatal` and
`aer_dev_correctable` list the kinds of errors, and their sum as `TOTAL_ERR_…`. Reading them touches no
hardware. They are absent if the kernel is built without AER, if the firmware keeps error handling to itself,
and for most devices of virtual machines.
"""

import re
from pathlib import Path

from rigproof.records.samples import PcieErrors

SYSFS = Path("/sys/bus/pci/devices")
KINDS = ("fatal", "nonfatal", "correctable")
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def pcie_errors(t_s: float, subject: str, bus_id: str, devices: Path = SYSFS) -> PcieErrors:
    """The counts of the device at that address, as NVML writes it (`00000000:1B:00.0`), and of its port.

    The port is the directory above the device's own: sysfs is laid out as the buses are.
    """
    device = devices / sysfs_address(bus_id)
    port = device.resolve().parent
    if not ADDRESS.fullmatch(port.name):
        return PcieErrors(t_s, subject, *_counts(device))
    return PcieErrors(t_s, subject, *_counts(device), port.name, *_counts(port))


def sysfs_address(bus_id: str) -> str:
    """NVML's eight digits of a domain as sysfs has them: four, or more where they do not suffice."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{domain.lstrip('0'):0>4}:{rest}"


def _counts(folder: Path) -> tuple[int | None, int | None, int | None]:
    fatal, nonfatal, correctable = (_total(folder / f"aer_dev_{kind}") for kind in KINDS)
    return fatal, nonfatal, correctable


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
