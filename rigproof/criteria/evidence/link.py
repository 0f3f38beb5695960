"""A device's PCIe link: its nominal rate, the best that it can be, and what it was under load."""

from operator import attrgetter

import numpy as np

from rigproof.criteria.criterion import Limit, NotApplicable, NotMeasured
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.series import Floats
from rigproof.criteria.evidence.windows import Window
from rigproof.profiles.tables.base import LimitKey
from rigproof.profiles.tables.limits import LIMITS

PCIE_GENERATION = LIMITS.key(lambda limits: limits.pcie_generation)
PCIE_WIDTH = LIMITS.key(lambda limits: limits.pcie_width)
STATED: dict[str, LimitKey[float | None]] = {"pcie_generation": PCIE_GENERATION, "pcie_width": PCIE_WIDTH}

GENERATIONS, LANES = range(1, 11), range(1, 33)  # PCIe knows no other values
FIELDS = {"pcie_generation": GENERATIONS, "pcie_width": LANES}


def transfers_per_s(generation: int) -> float:
    """10^9 transfers a second of each lane; a transfer is a bit.

    PCI Express Base Specification: 2.5 GT/s doubled by each generation, but 8 GT/s in Gen3.
    """
    return 2.5 * generation if generation <= 2 else 8.0 * (1 << (generation - 3))


def link_gbps(generation: int, width: int) -> float:
    """Nominal rate one way, in 10^9 bytes/s: GT/s less the line code, 8b/10b up to Gen2, then 128b/130b."""
    code = 8 / 10 if generation <= 2 else 128 / 130
    return transfers_per_s(generation) * code / 8 * width


def replays_allowed(bit_error_rate: float, generation: int, width: int) -> float:
    """Replays a minute of a link each lane of which may get that share of its bits wrong, as DCGM counts."""
    return bit_error_rate * 60e9 * transfers_per_s(generation) * width


def link_name(generation: int, width: int) -> str:
    """`Gen5 x16`."""
    return f"Gen{generation} x{width}"


def best_link(device: DeviceEvidence, name: str) -> Limit:
    """The best that `pcie_generation` or `pcie_width` can be.

    It is what NVML reports for card and slot together, or less if the rig states so. NotMeasured or
    NotApplicable if neither is known.
    """
    of_card = link_at_most(device, name)
    stated = device.optional_limit(STATED[name])
    known = [] if of_card is None else [Limit(of_card, "NVML's best link of card and slot")]
    known += [] if stated is None else [stated]
    if not known:
        missing = f"NVML does not report the link's best {name.removeprefix('pcie_')}"
        if not device.lacks_sensor(name):
            raise NotMeasured(missing)
        raise NotApplicable(
            missing if device.device.sku is None else f"{device.sku_file} says that it has none"
        )
    return min(known, key=attrgetter("value"))


def link_at_most(device: DeviceEvidence, name: str) -> int | None:
    """The most that `pcie_generation` or `pcie_width` can be, which NVML reports for card and slot.

    None if the SKU file says that it tells nothing: data reaches a GH200 by NVLink-C2C, and NVML reports a
    PCIe link of one lane.
    """
    most: int | None = None if device.lacks_sensor(name) else getattr(device.identity, f"{name}_max")
    return most if most in FIELDS[name] else None


def link_under_load(device: DeviceEvidence, stage: str) -> tuple[int, int] | None:
    """Generation and width of the link while it carries data in a stage; None if one was never read.

    The highest of what it read in that stage and of what at least half of the readings of another stage's
    load reached: the stage may be shorter than two readings, the first of which may be from before it, when
    the link was resting. Not more than the rig states (`limits.pcie_generation`, `limits.pcie_width`).
    """
    found = []
    for name, possible in FIELDS.items():
        if device.lacks_sensor(name):
            return None
        read = [*_read(device, device.evidence.whole_window(stage), name)]
        for other in device.evidence.stages:
            try:
                values = _read(device, device.evidence.loaded_window(other), name)
            except NotMeasured:  # it did not run, or was aborted
                continue
            if other != stage and len(values):
                read.append(float(np.sort(values)[len(values) // 2]))
        read = [one for one in read if one in possible]
        if not read:
            return None
        stated = device.optional_limit(STATED[name])
        found.append(int(max(read) if stated is None else min(max(read), stated.value)))
    return found[0], found[1]


def link_in(device: DeviceEvidence, stage: str) -> tuple[int, int] | None:
    """The best generation and width that it read in a stage; None if one was not read there."""
    window = device.evidence.whole_window(stage)
    found = {name: _read(device, window, name) for name in FIELDS}
    best = [int(read.max()) for name, read in found.items() if len(read) and int(read.max()) in FIELDS[name]]
    return (best[0], best[1]) if len(best) == len(FIELDS) else None


def _read(device: DeviceEvidence, window: Window, name: str) -> Floats:
    return device.recorded(name, window).values
