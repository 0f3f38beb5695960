"""Values as the monitor prints them. An unknown value is a dash, never zero. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence

from rigproof.criteria.evidence.counters import NAMES
from rigproof.monitor.snapshot import RunDevice
from rigproof.records.samples import GpuSample

NONE = "-"
MIB_PER_GIB = 1024
BAR = 10  # characters


def number(value: float | None, digits: int = 0) -> str:
    """A number without a unit."""
    return NONE if value is None else f"{value:.{digits}f}"


def percent(value: float | None) -> str:
    """`47%`."""
    return NONE if value is None else f"{value:.0f}%"


def bar(value: float | None, whole: float | None) -> str:
    """A value's share of the whole as a bar; empty if it is not known."""
    if value is None or not whole:
        return ""
    full = round(min(max(value / whole, 0.0), 1.0) * BAR)
    return "█" * full + "░" * (BAR - full)


def pair(value: float | None, limit: float | None, digits: int = 0) -> str:
    """A value and its limit or maximum: `71/80`."""
    if value is None and limit is None:
        return NONE
    return f"{number(value, digits)}/{number(limit, digits)}"


def gib(used_mib: float | None, total_mib: float | None) -> str:
    """Memory in GiB, with one decimal below 100 GiB."""
    whole = max(used_mib or 0, total_mib or 0) >= 100 * MIB_PER_GIB
    used, total = (None if mib is None else mib / MIB_PER_GIB for mib in (used_mib, total_mib))
    return pair(used, total, 0 if whole else 1)


def span(band: tuple[float, float]) -> str:
    """`70-85`."""
    return f"{band[0]:g}-{band[1]:g}"


def link(gpu: GpuSample) -> str:
    """The PCIe link: `4x16` means generation 4, 16 lanes."""
    if gpu.pcie_generation is None and gpu.pcie_width is None:
        return NONE
    return f"{number(gpu.pcie_generation)}x{number(gpu.pcie_width)}"


def reasons(mask: int | None) -> str:
    """The names of clock-event reasons."""
    if mask is None:
        return NONE
    return ", ".join(reason_names(mask)) or "none"


def reason_names(mask: int) -> list[str]:
    """The names of the bits that are set; unnamed bits as one number."""
    rest = mask & ~sum(NAMES)
    names = [name for bit, name in NAMES.items() if mask & bit]
    return [*names, hex(rest)] if rest else names


def rate_unit(devices: Iterable[RunDevice]) -> str:
    """The title of the column of rates: the unit of the first device's, or `rate` if none is known."""
    return next((device.rate.unit for device in devices if device.rate is not None), "rate")


def rate(device: RunDevice | None, unit: str = "") -> str:
    """The rate in the last seconds with its unit; without it if that is `unit`."""
    if device is None or device.rate is None:
        return NONE
    value = number(device.rate.value, 2 if device.rate.value < 10 else 1)
    return value if device.rate.unit == unit else f"{value} {device.rate.unit}"


def workers(device: RunDevice) -> str:
    """`2 working, 1 died`."""
    counted = Counter(worker.state for worker in device.workers)
    return ", ".join(f"{times} {state}" for state, times in counted.items()) or NONE


def printable(text: str) -> str:
    """One line without terminal control codes."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def aligned(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Cells padded to the width of their column: the first column aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        [
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in rows
    ]
