"""One host as this process may use it: CPU, RAM, temperatures, addresses.

psutil gives the sensors and addresses. CPU shares are this module's own: psutil's are host-wide, whatever
the cgroup's quota, and its first call returns 0.0, since it has no earlier reading.
"""

import os
import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from rigproof.host import cgroup, proc
from rigproof.records.samples import CpuTimes, HostSample

# Drivers of sensors that sit in the CPU package.
CPU_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "cpu-thermal")
TEMPERATURE_HELD_S = 1.0  # reading one file per core takes milliseconds
SHORTEST_S = 0.02  # two ticks of the kernel's counters: a share of less says nothing
AT_ONCE_S, TRIES = 0.005, 5  # counters and clock are of one moment; if the thread waited in between, again
HIGHEST_CREDIBLE_C = 150.0  # silicon does not survive this: a sensor that reports it is broken


@dataclass(frozen=True, slots=True)
class _Reading:
    """Counters at one moment: of the CPUs, of each cgroup's quota, of waits in the host and the cgroup."""

    times: CpuTimes
    cores: Mapping[int, proc.CoreTimes]
    throttled_s: Sequence[float | None]
    pressure_s: Sequence[float | None]

    def passed_s(self, before: "_Reading") -> float:
        """Seconds between an earlier reading and this one."""
        return self.times.clock_s - before.times.clock_s

    def capacity_s(self, before: "_Reading") -> float:
        """CPU seconds that could be used between an earlier reading and this one."""
        return self.passed_s(before) * self.times.capacity_cpus


class HostReader:
    """Reads the host; one instance per reader, since shares are computed between its own readings.

    With a CPU quota on the cgroup, CPU figures are the cgroup's, in shares of the quota (or of the CPUs
    that this process may run on, if those are fewer). Without a quota they are the host's, over the CPUs
    that this process may run on.
    """

    def __init__(
        self,
        proc_root: str | Path = proc.PROC,
        cgroup_root: str | Path = cgroup.CGROUP,
        clock: Callable[[], float] = time.monotonic,
        affinity: Callable[[], set[int]] = lambda: os.sched_getaffinity(0),
        sensors: Callable[[], Mapping[str, Sequence[Any]]] = psutil.sensors_temperatures,
    ) -> None:
        self._proc_root = Path(proc_root)
        self._clock = clock
        self._affinity = affinity
        self._sensors = sensors
        self._quota = cgroup.cpu_quota(self._proc_root, Path(cgroup_root))
        self._memory_limit = cgroup.memory_limit(self._proc_root, Path(cgroup_root))
        self._groups = cgroup.cpu_groups(self._proc_root, Path(cgroup_root))
        self._before = self._read()
        self._temperature: tuple[float, float | None] | None = None  # time, °C

    def usable_cpus(self) -> float:
        """CPUs that this process can use: its quota, or the CPUs it may run on, whichever is less."""
        allowed = float(len(self._affinity()))
        return allowed if self._quota is None else min(self._quota.cpus, allowed)

    def ram_gib(self) -> float:
        """RAM that this process can use: the cgroup's limit if it is less than the host's RAM."""
        total_mib = proc.memory(self._proc_root).total_mib
        limit = self._memory_limit
        return (total_mib if limit is None else min(total_mib, limit.limit_mib)) / 1024

    def cpu_model(self) -> str:
        return proc.cpu_name(self._proc_root)

    def cpu_times(self) -> CpuTimes:
        """CPU seconds used by all processes that share the CPUs or the quota of this process."""
        return self._read_cpu()[0]

    def sample(
        self,
        subject: str,
        t_s: float,
        lateness_s: float,
        wakeup_delays_ms: tuple[float, ...] | None,
        *,
        own_percent: float | None = None,
        own_waited_percent: float | None = None,
    ) -> HostSample:
        """Take a sample; its CPU shares are since the previous one (or since the reader's creation).

        What this run's processes use and wait for is passed on, as `CpuUsers` counts it.

        Under a quota `cpu_percent` can exceed 100 for one short sample and fall below in the next, since
        quota periods (100 ms) and samples do not begin together: averages over windows are correct.
        A sample right after the one before has no shares, and the next one has those since then: on a host
        without a free CPU a reading comes whenever its thread gets its turn.
        """
        memory = cgroup.usable_memory(self._memory_limit, self._proc_root)
        before, now = self._before, self._read()
        if now.passed_s(before) < SHORTEST_S:
            now = before
        self._before = now
        return HostSample(
            t_s=t_s,
            subject=subject,
            cpu_percent=_share_percent(before.times, now.times),
            core_percent=_core_percent(before.cores, now.cores),
            load_1m=proc.load_1m(self._proc_root),
            ram_used_mib=memory.used_mib,
            ram_available_mib=memory.available_mib,
            swap_used_mib=memory.swap_used_mib,
            cpu_temperature_c=self._temperature_c(),
            wakeup_delays_ms=wakeup_delays_ms,
            lateness_s=lateness_s,
            stolen_percent=_stolen_percent(before.cores, now.cores, self._affinity()),
            throttled_percent=_growth_percent(before.throttled_s, now.throttled_s, now.capacity_s(before)),
            crowded_percent=self._crowded_percent(before, now),
            pressure_percent=_growth_percent(before.pressure_s, now.pressure_s, now.passed_s(before)),
            own_percent=own_percent,
            own_waited_percent=own_waited_percent,
        )

    def _read(self) -> "_Reading":
        """Counters at one moment, as far as the CPU is to be had for reading them."""
        for _ in range(TRIES):
            begun_s, spent_s = self._clock(), time.thread_time()
            reading = self._read_now()
            if self._clock() - begun_s - (time.thread_time() - spent_s) < AT_ONCE_S:
                break
        return reading

    def _read_now(self) -> "_Reading":
        times, cores = self._read_cpu()
        pressures = [self._proc_root / proc.PRESSURE, *(group / "cpu.pressure" for group in self._groups[:1])]
        return _Reading(
            times,
            cores,
            [cgroup.throttled_s(group) for group in self._groups],
            [proc.pressure_s(file) for file in pressures],
        )

    def _crowded_percent(self, before: "_Reading", now: "_Reading") -> float | None:
        """Share of the quota that others outside this process's cgroup leave it too little of; 0 without one.

        Without one they share the CPUs that `cpu_percent` counts.
        """
        if self._quota is None:
            return 0.0
        allowed, wanted_s = self._affinity(), now.capacity_s(before)
        pairs = [
            (before.cores[cpu], now.cores[cpu]) for cpu in allowed & before.cores.keys() & now.cores.keys()
        ]
        busy_s = sum(b.busy_s - b.stolen_s - a.busy_s + a.stolen_s for a, b in pairs)
        others_s = max(0.0, busy_s - (now.times.busy_s - before.times.busy_s))
        free_s = now.passed_s(before) * len(allowed) - others_s
        return 100 * min(1.0, max(0.0, wanted_s - free_s) / wanted_s) if pairs and wanted_s > 0 else None

    def _read_cpu(self) -> tuple[CpuTimes, dict[int, proc.CoreTimes]]:
        cores = proc.core_times(self._proc_root)
        allowed = self._affinity()
        clock_s = self._clock()
        capacity = self.usable_cpus()
        if self._quota is not None:
            return CpuTimes(clock_s, self._quota.busy_s(), capacity), cores
        busy_s = sum(times.busy_s for number, times in cores.items() if number in allowed)
        return CpuTimes(clock_s, busy_s, capacity), cores

    def _temperature_c(self) -> float | None:
        """The hottest CPU package sensor, read once a second and kept in between."""
        now_s = self._clock()
        if self._temperature is None or now_s - self._temperature[0] >= TEMPERATURE_HELD_S:
            self._temperature = (now_s, hottest_cpu_c(self._sensors()))
        return self._temperature[1]


def hottest_cpu_c(sensors: Mapping[str, Sequence[Any]]) -> float | None:
    """The highest credible reading of the CPU package's sensors, as psutil lists them; else None."""
    readings = [entry.current for name in CPU_SENSORS for entry in sensors.get(name, ())]
    return max((c for c in readings if c is not None and 0 < c < HIGHEST_CREDIBLE_C), default=None)


def _share_percent(before: CpuTimes, after: CpuTimes) -> float | None:
    available_s = (after.clock_s - before.clock_s) * after.capacity_cpus
    return 100 * max(0.0, after.busy_s - before.busy_s) / available_s if available_s > 0 else None


def _growth_percent(
    before: Sequence[float | None], now: Sequence[float | None], whole_s: float
) -> float | None:
    """The largest growth of any counter, as a share of `whole_s`; None if no counter is kept here."""
    grown_s = [b - a for a, b in zip(before, now, strict=True) if a is not None and b is not None]
    return 100 * max(0.0, *grown_s) / whole_s if grown_s and whole_s > 0 else None


def _stolen_percent(
    before: Mapping[int, proc.CoreTimes], after: Mapping[int, proc.CoreTimes], allowed: Collection[int]
) -> float | None:
    """Share of the time of these CPUs that a hypervisor took. A counter that steps back counts as none."""
    pairs = [(before[cpu], after[cpu]) for cpu in allowed if cpu in before and cpu in after]
    total_s = sum(now.busy_s - then.busy_s + now.idle_s - then.idle_s for then, now in pairs)
    stolen_s = sum(now.stolen_s - then.stolen_s for then, now in pairs)
    return 100 * min(1.0, max(0.0, stolen_s) / total_s) if total_s > 0 else None


def _core_percent(
    before: Mapping[int, proc.CoreTimes], after: Mapping[int, proc.CoreTimes]
) -> tuple[float, ...] | None:
    """Each CPU's use in %, by number; None if CPUs came or went, or no time passed for one of them."""
    if before.keys() != after.keys():
        return None
    shares = [proc.busy_percent(before[number], after[number]) for number in sorted(after)]
    measured = tuple(share for share in shares if share is not None)
    return measured if measured and len(measured) == len(shares) else None


def host_addresses() -> frozenset[str]:
    """Every IPv4 and IPv6 address of this host's interfaces, loopback included, without zones."""
    return frozenset(
        address.address.partition("%")[0]
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family in (socket.AF_INET, socket.AF_INET6)
    )
