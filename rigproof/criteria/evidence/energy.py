"""A GPU's power against its energy counter, computed for many devices at once."""

import numpy as np

from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.loads import measured_stretches
from rigproof.criteria.evidence.readings import Floats, Readings
from rigproof.criteria.evidence.sensor_tables import FEWEST, SensorTable, finite_readings, sensor_table
from rigproof.profiles.kinds.stages import DUTIES

SHARE, BLOCK_S = 0.10, 10.0  # by how much they may differ over so long; see rule 3 in sensors.py
ADJACENT_S = 1e-6  # apart: stretches that are one, except for rounding
NOTHING = Readings.of_pairs(())


def mean_by_energy(device: DeviceEvidence, from_s: float, to_s: float) -> float:
    """The mean power in a span, W; NaN if the counter was not read there, or has never counted.

    NotMeasured if one of its readings is infinite.
    """
    _require_finite(device)
    place = device.block.devices.index(device)
    return float(_means_by_energy(device, *np.asarray([[place], [from_s], [to_s]]))[0])


def against_energy(device: DeviceEvidence, field: str) -> tuple[float, float, float] | None:
    """The first block in which that power differs from the one by energy: when it begins, and both powers, W.

    The blocks cover each stretch of measured work completely. None if no block differs. NotMeasured if a
    reading of the counter is infinite.
    """
    _require_finite(device)
    return device.block.kept(("against energy", field), lambda: _apart(device, field)).get(device.subject)


def _require_finite(device: DeviceEvidence) -> None:
    device.samples.readings("energy_j")


def _apart(device: DeviceEvidence, field: str) -> dict[str, tuple[float, float, float]]:
    """The same for all devices that are judged together, by subject."""
    devices, from_s, to_s = device.block.kept("energy blocks", lambda: _blocks(device))
    by_energy_w = device.block.kept("by energy", lambda: _means_by_energy(device, devices, from_s, to_s))
    power = sensor_table(device, field)
    first, end = power.places(devices, from_s, "left"), power.places(devices, to_s, "right")
    (enough,) = ((end - first >= FEWEST) & ~np.isnan(by_energy_w)).nonzero()
    devices, from_s, by_energy_w = devices[enough], from_s[enough], by_energy_w[enough]
    first, last = first[enough], end[enough] - 1
    drawn_j = (power.times_s[1:] - power.times_s[:-1]) * (power.values[1:] + power.values[:-1]) / 2
    # From each first place to its last one; the sums in between, to the next first place, are left out.
    sums_j = np.add.reduceat(np.append(drawn_j, 0.0), np.column_stack((first, last)).ravel())[::2]
    power_w = _means(sums_j, power.times_s[last] - power.times_s[first])
    (apart,) = (np.abs(power_w - by_energy_w) > SHARE * by_energy_w).nonzero()
    found: dict[str, tuple[float, float, float]] = {}
    for place in apart.tolist():
        both_w = float(power_w[place]), float(by_energy_w[place])
        found.setdefault(power.devices[int(devices[place])], (float(from_s[place]), *both_w))
    return found


def _blocks(device: DeviceEvidence) -> tuple[Floats, Floats, Floats]:
    """The device of each block, by its place among those judged together, and when it begins and ends."""
    judged = [stage in device.evidence.stages_with(*DUTIES) for _, stage in device.stage_rounds.numbers]
    groups, from_s, to_s = measured_stretches(device)
    counted = np.asarray(judged)[groups]
    groups, from_s, to_s = groups[counted], from_s[counted], to_s[counted]
    devices = (groups // (len(judged) // len(device.block.devices))).astype(np.float64)
    apart = np.ones(len(groups) + 1, np.bool_)
    apart[1:-1] = (devices[1:] != devices[:-1]) | (from_s[1:] - to_s[:-1] > ADJACENT_S)
    devices, from_s, to_s = devices[apart[:-1]], from_s[apart[:-1]], to_s[apart[1:]]
    numbers = np.maximum(0, (to_s - from_s) / BLOCK_S).astype(np.intp)
    width_s = (to_s - from_s) / np.maximum(1, numbers)
    devices, from_s, width_s = (np.repeat(one, numbers) for one in (devices, from_s, width_s))
    from_s += width_s * (np.arange(numbers.sum()) - np.repeat(np.cumsum(numbers) - numbers, numbers))
    return devices, from_s, from_s + width_s


def _means_by_energy(device: DeviceEvidence, devices: Floats, from_s: Floats, to_s: Floats) -> Floats:
    """The mean power of these devices, each in a span, W; NaN if not read there, or if it never counted."""

    def counted() -> SensorTable:
        read = {one.subject: finite_readings(one, "energy_j") for one in device.block.devices}
        return SensorTable({of: one if one.highest > one.lowest else NOTHING for of, one in read.items()})

    energy = device.block.kept("energy", counted)
    first, last = energy.places(devices, from_s, "left"), energy.places(devices, to_s, "right") - 1
    means_w = np.full(len(devices), np.nan)
    (known,) = (last > first).nonzero()
    first, last = first[known], last[known]
    drawn_j, length_s = (
        energy.values[last] - energy.values[first],
        energy.times_s[last] - energy.times_s[first],
    )
    means_w[known] = _means(drawn_j, length_s)
    return means_w


def _means(energy_j: Floats, length_s: Floats) -> Floats:
    """W; NaN where no time passed."""
    means_w = np.full(len(length_s), np.nan)
    np.divide(energy_j, length_s, out=means_w, where=length_s > 0)
    return means_w
