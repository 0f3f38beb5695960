"""What a sensor of several devices read in the whole run, so that a rule is computed for all at once."""

from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property
from itertools import accumulate
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.readings import Floats, Readings

FEWEST = 10  # readings that a rule needs; few enough for a rig that is sampled once a second
Numbers = npt.NDArray[np.intp]


class SensorTable:
    """The readings of some devices, one device after the other: `times_s` and `values`, (n,).

    A device is given by its place among `devices`.
    """

    def __init__(self, readings: Mapping[str, Readings]) -> None:
        self.devices = tuple(readings)
        self.times_s: Floats = np.concatenate([one.times_s for one in readings.values()])
        self.values: Floats = np.concatenate([one.values for one in readings.values()])
        sizes = [len(one) for one in readings.values()]
        self._starts: Numbers = np.asarray([0, *accumulate(sizes)], np.intp)
        self._device_of: Numbers = np.repeat(np.arange(len(sizes)), sizes)

    def places(self, devices: npt.NDArray[Any], times_s: Floats, side: Literal["left", "right"]) -> Numbers:
        """Where each of these moments is among the readings of its device, as np.searchsorted finds it."""
        places: Numbers = np.searchsorted(self._moments, devices + 1j * times_s, side)
        return places

    @cached_property
    def _moments(self) -> npt.NDArray[np.complex128]:
        """Device and time; complex numbers are ordered by their real part, and then by the imaginary one."""
        moments: npt.NDArray[np.complex128] = self._device_of + 1j * self.times_s
        return moments

    def repeated(self, shortest_s: float) -> dict[str, list[tuple[int, int]]]:
        """The values that a device read at least three times in a row and for so long, by its subject.

        Of each the first and the last place among its own readings.
        """
        first, last = self._runs
        long = (last - first >= 2) & (self.times_s[last] - self.times_s[first] >= shortest_s)
        devices = self._device_of[first[long]]
        places = (one[long] - self._starts[devices] for one in (first, last))
        found: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for device, begin, end in zip(devices.tolist(), *(one.tolist() for one in places), strict=True):
            found[self.devices[device]].append((begin, end))
        return found

    def still(self, shortest_s: float) -> set[str]:
        """The devices, by subject, that may have had one value for so long.

        It may have come right after the reading before it, and stayed until the one after it.
        """
        first, last = self._runs
        devices = self._device_of[first]
        before = np.maximum(first - 1, self._starts[devices])
        after = np.minimum(last + 1, self._starts[devices + 1] - 1)
        long = self.times_s[after] - self.times_s[before] >= shortest_s
        return self.with_any(first[long])

    def with_any(self, chosen: npt.NDArray[Any]) -> set[str]:
        """The devices, by subject, that have one of these readings: places among all, or a mask."""
        return {self.devices[one] for one in self._device_of[chosen].tolist()}

    @cached_property
    def ranges(self) -> tuple[Floats, Floats]:
        """The lowest and the highest value of each device; infinity and minus infinity if there is none."""
        (some,) = np.diff(self._starts).nonzero()
        lowest, highest = np.full(len(self.devices), np.inf), np.full(len(self.devices), -np.inf)
        lowest[some] = np.minimum.reduceat(self.values, self._starts[some])
        highest[some] = np.maximum.reduceat(self.values, self._starts[some])
        return lowest, highest

    @cached_property
    def _runs(self) -> tuple[Numbers, Numbers]:
        """The places of the first and the last reading of each stretch of one value of one device."""
        begins = np.ones(len(self.values) + 1, np.bool_)
        begins[1:-1] = (self.values[1:] != self.values[:-1]) | (self._device_of[1:] != self._device_of[:-1])
        (edges,) = begins.nonzero()
        return edges[:-1], edges[1:] - 1


def sensor_table(device: DeviceEvidence, field: str) -> SensorTable:
    """The readings of the device and of those judged with it."""

    def made() -> SensorTable:
        return SensorTable({one.subject: finite_readings(one, field) for one in device.block.devices})

    return device.block.kept(("sensor", field), made)


def finite_readings(device: DeviceEvidence, field: str) -> Readings:
    """All readings of the run; none if one of them is infinite."""
    try:
        return device.samples.readings(field)
    except NotMeasured:  # a criterion that needs this sensor reports it
        return Readings.of_pairs(())
