"""The CPU load of a host in a process of its own: `python -m …actors.host_load THREADS PERCENT`.

It has its own interpreter lock, so that sampling is not disturbed. It is one process however many CPUs the
host has: its threads compute outside the interpreter lock, and dozens of processes have frozen a
desktop. It yields to everything else (nice 19; Ray runs the GPUs' feeders at 15), so that
neither they nor the user wait for it: it takes what is left up to the target. It prints one line of JSON a
second and ends when its stdin is closed, which also happens when its parent dies.
"""

import os
import sys
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from rigproof.host.child import Child, Message
from rigproof.host.cpu_band import HostLoad
from rigproof.host.cpu_load import CpuLoad, LoadReading
from rigproof.host.parent import Orders, tell
from rigproof.telemetry.host import HostReader

MODULE = "rigproof.cluster.actors.host_load"
REPORT_S = 1.0
NICE = 19  # the lowest priority


class HostLoadProcess(Child):
    """Runs the load from its creation until `stop`; `seconds` holds own and foreign use of each second."""

    def __init__(self, load: HostLoad) -> None:
        self.load = load
        self.seconds: list[dict[str, float]] = []
        self.error: str | None = None
        super().__init__(MODULE, str(load.threads), str(load.target_percent), hear=self._take)

    def report(self) -> dict[str, Any]:
        """The CPU use that the load caused, as an event's data: means, None before the first second.

        `share` is of a CPU, per thread; `own_percent` and `foreign_percent` of the host, by the load and by
        all else, this run's other processes and a hypervisor included; `short_cpus` how far the threads fell
        short.
        """

        def mean(name: str) -> float | None:
            return fmean(second[name] for second in self.seconds) if self.seconds else None

        return {
            "threads": self.load.threads,
            "primary_threads": self.load.primary_threads,
            "secondary_threads": self.load.secondary_threads,
            "target_percent": self.load.target_percent,
            **{name: mean(name) for name in ("share", "own_percent", "foreign_percent", "short_cpus")},
            "error": self.error,
        }

    def _take(self, report: Message) -> None:
        self.error = report.pop("error", None) or self.error
        if report:
            self.seconds.append(report)


def main(threads: int, target_percent: float) -> None:
    """Hold the load until stdin is closed."""
    os.nice(NICE)
    orders = Orders()
    load = CpuLoad(threads, target_percent, HostReader().cpu_times)
    load.start()
    reported_s = 0.0
    try:
        while not orders.closed.wait(REPORT_S):
            latest = [reading for reading in load.readings() if reading.clock_s > reported_s]
            reported_s = latest[-1].clock_s if latest else reported_s
            tell(**means(latest), error=load.error)
    finally:
        load.stop()


def means(readings: Sequence[LoadReading]) -> dict[str, float]:
    """Mean CPU use of the load and of all else over these readings; empty if there are none."""
    if not readings:
        return {}
    capacity_cpus = fmean(one.usage.capacity_cpus for one in readings)
    busy_cpus = fmean(one.usage.busy_cpus for one in readings)
    own_cpus = fmean(one.usage.own_cpus for one in readings)
    return {
        "share": fmean(one.share for one in readings),
        "own_percent": 100 * own_cpus / capacity_cpus,
        "foreign_percent": 100 * max(0.0, busy_cpus - own_cpus) / capacity_cpus,
        "short_cpus": fmean(one.short_cpus for one in readings),
    }


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
