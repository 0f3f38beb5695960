"""Figures as the monitor prints them. An unknown figure is a dash, never zero. Pure."""

from collections import Counter
from collections.abc import Sequence

from rigproof.criteria.evidence.reasons import NAMES
from rigproof.monitor.snapshot import GpuNow, RunDevice

NONE = "-"
MIB_PER_GIB = 1024


def number(value: float | None, digits: int = 0) -> str:
    """A number without its unit."""
    return NONE if value is None else f"{value:.{digits}f}"


def pair(value: float | None, limit: float | None, digits: int = 0) -> str:
    """A value and its limit or maximum: `71/80`."""
    if value is None and limit is None:
        return NONE
    return f"{number(value, digits)}/{number(limit, digits)}"


def gib(used_mib: float | None, total_mib: float | None) -> str:
    """Memory in GiB, with a decimal under 100."""
    whole = max(used_mib or 0, total_mib or 0) >= 100 * MIB_PER_GIB
    used, total = (None if mib is None else mib / MIB_PER_GIB for mib in (used_mib, total_mib))
    return pair(used, total, 0 if whole else 1)


def span(band: tuple[float, float]) -> str:
    """`70-85`."""
    return f"{band[0]:g}-{band[1]:g}"


def link(gpu: GpuNow) -> str:
    """The PCIe link: `4x16` is generation 4, 16 lanes."""
    if gpu.pcie_generation is None and gpu.pcie_width is None:
        return NONE
    return f"{number(gpu.pcie_generation)}x{number(gpu.pcie_width)}"


def reasons(mask: int | None) -> str:
    """Clock-event reasons in words."""
    if mask is None:
        return NONE
    return ", ".join(reason_names(mask)) or "none"


def reason_names(mask: int) -> list[str]:
    """The set bits; those without a name as numbers."""
    rest = mask & ~sum(NAMES)
    names = [name for bit, name in NAMES.items() if mask & bit]
    return [*names, hex(rest)] if rest else names


def rate(device: RunDevice | None) -> str:
    """TFLOP/s in the last seconds."""
    tflops = None if device is None else device.rate_tflops
    return number(tflops, 2 if tflops is not None and tflops < 10 else 1)


def workers(device: RunDevice) -> str:
    """`2 working, 1 died`."""
    counted = Counter(worker.state for worker in device.workers)
    return ", ".join(f"{times} {state}" for state, times in counted.items()) or NONE


def printable(text: str) -> str:
    """One line without terminal control codes."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def aligned(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The same cells, each as wide as its column: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        [
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in rows
    ]
