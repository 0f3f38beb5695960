"""A GPU's power against its energy counter."""

import math

from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.loads import measured_stretches
from rigproof.criteria.evidence.readings import FEWEST
from rigproof.criteria.evidence.windows import Window

SHARE, BLOCK_S = 0.10, 10.0  # by how much they may differ over so long; see rule 3 in sensors.py
ADJACENT_S = 1e-6  # apart: stretches that are one, except for rounding


def mean_by_energy(device: DeviceEvidence, from_s: float, to_s: float) -> float:
    """The mean power in a span, W; NaN if the counter was not read there, or has never counted.

    NotMeasured if one of its readings is infinite.
    """
    counter = device.samples.readings("energy_j")
    own = counter.within(from_s, to_s)
    if len(own) < 2 or not counter.highest > counter.lowest or not own.times_s[-1] > own.times_s[0]:
        return math.nan
    return float((own.values[-1] - own.values[0]) / (own.times_s[-1] - own.times_s[0]))


def against_energy(device: DeviceEvidence, field: str) -> tuple[float, float, float] | None:
    """The first block in which that power differs from the one by energy: when it begins, and both powers, W.

    The blocks cover each stretch of measured work completely. None if no block differs. NotMeasured if a
    reading of the counter is infinite.
    """
    power = device.samples.readings(field)
    for block in device.kept("energy blocks", lambda: _blocks(device)):
        by_energy_w, own = mean_by_energy(device, block.from_s, block.to_s), power.within(*block[:2])
        length_s = own.times_s[-1] - own.times_s[0] if len(own) >= FEWEST else 0.0
        if length_s > 0:
            drawn_j = (own.times_s[1:] - own.times_s[:-1]) * (own.values[1:] + own.values[:-1]) / 2
            power_w = float(drawn_j.sum() / length_s)
            if abs(power_w - by_energy_w) > SHARE * by_energy_w:
                return block.from_s, power_w, by_energy_w
    return None


def _blocks(device: DeviceEvidence) -> list[Window]:
    """Equal parts of about BLOCK_S of each stretch of measured work, of several stages if they adjoin."""
    joined: list[Window] = []
    for one in measured_stretches(device):
        if joined and one.from_s - joined[-1].to_s <= ADJACENT_S:
            joined[-1] = Window(joined[-1].from_s, one.to_s)
        else:
            joined.append(one)
    return [block for one in joined for block in one.parts(int(one.length_s / BLOCK_S))]
