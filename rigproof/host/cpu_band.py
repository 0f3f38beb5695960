"""How much the load threads should work, so that the whole host stays at its target. Pure decisions."""

import math
from dataclasses import dataclass

TRIM_GAIN = 0.1  # of the error, per step
TRIM_LIMIT_SHARE = 0.05  # of the capacity: from the middle of a band of 15 points it does not leave the band
SATURATED_SHARE = 1.0  # a thread cannot use more than one CPU
ROUNDING = 1e-6  # 100 × 0.07 is 7.000000000000001


@dataclass(frozen=True, slots=True)
class HostLoad:
    """Threads that together bring the whole host to `target_percent`, and so hold it in its band.

    Primary and secondary threads do the same work, and the controller gives each the same share. The
    primary ones, 70 % of the CPUs, can bring an idle host to the low end of its band; the secondary ones,
    15 %, from there to its high end, and no further.
    """

    primary_threads: int
    secondary_threads: int
    target_percent: float

    @property
    def threads(self) -> int:
        return self.primary_threads + self.secondary_threads


def thread_plan(cpus: float, primary_share: float, secondary_share: float) -> tuple[int, int]:
    """How many primary and how many secondary threads a host of so many CPUs gets.

    The number of primary threads and the number of all threads are rounded up; at least one is primary. With
    shares of 0.70 and 0.15 these are 56 and 12 threads on 80 CPUs.
    """
    primary = max(1, math.ceil(cpus * primary_share - ROUNDING))
    return primary, max(0, math.ceil(cpus * (primary_share + secondary_share) - ROUNDING) - primary)


@dataclass(frozen=True, slots=True)
class Usage:
    """Mean CPUs in use between two readings. `busy_cpus` counts all processes, ourselves included."""

    busy_cpus: float
    own_cpus: float  # of these, used by the load threads
    capacity_cpus: float

    @property
    def foreign_cpus(self) -> float:
        """CPUs in use by all other processes, rigproof's own workers and agents included."""
        return max(0.0, self.busy_cpus - self.own_cpus)


@dataclass(frozen=True, slots=True)
class LoadDecision:
    """How much each thread works in the next step.

    `trim_cpus` is the controller's present correction. `short_cpus` is how far all threads together fall
    short of the target, in CPUs.
    """

    share: float  # of one CPU, per thread, 0 to 1
    trim_cpus: float
    short_cpus: float


class Controller:
    """Subtracts the measured foreign load from the target, and trims what error remains.

        share = (target − foreign load + trim) / threads

    The foreign load is measured and subtracted immediately, so that two steps after a change, which may
    fall into the middle of a step, the host is at its target again. The trim integrates the error and
    compensates for it within about a second; in the long run it removes the threads' losses
    (slots that begin late, clock ticks). It is limited to 5 % of the capacity, and does not change
    while the threads are at their limits or have not worked yet, so that it cannot wind up.
    """

    def __init__(self, threads: int, target_percent: float) -> None:
        self._threads = threads
        self._target_share = target_percent / 100
        self._share = 0.0
        self.trim_cpus = 0.0

    def step(self, usage: Usage) -> LoadDecision:
        """Decide after one reading. More foreign load never raises the share."""
        target_cpus = self._target_share * usage.capacity_cpus
        wanted_cpus = target_cpus - usage.foreign_cpus
        gave, self._share = self._share > 0, 0.0
        if wanted_cpus <= 0:
            return LoadDecision(0.0, self.trim_cpus, 0.0)
        if gave and wanted_cpus < self._threads * SATURATED_SHARE:
            limit_cpus = TRIM_LIMIT_SHARE * usage.capacity_cpus
            trim_cpus = self.trim_cpus + TRIM_GAIN * (target_cpus - usage.busy_cpus)
            self.trim_cpus = min(limit_cpus, max(-limit_cpus, trim_cpus))
        wanted_cpus = max(0.0, wanted_cpus + self.trim_cpus)
        self._share = min(SATURATED_SHARE, wanted_cpus / self._threads)
        short_cpus = max(0.0, wanted_cpus - self._share * self._threads)
        return LoadDecision(self._share, self.trim_cpus, short_cpus)
