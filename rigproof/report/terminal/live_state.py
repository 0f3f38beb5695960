"""The current state of a running Recording, read from its end, so that its length does not matter."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from rigproof.profiles.planning.plan import Plan
from rigproof.records.measurements import RECENT_S, Rate, Round, rate_of
from rigproof.records.recording import Recording
from rigproof.records.rows import Rows
from rigproof.records.samples import GpuSample, HostSample

STALE_S = 10.0  # anything older is not the current state
DEATHS = frozenset({"worker_died", "worker_hung"})
Timed = TypeVar("Timed", Round, GpuSample, HostSample)


@dataclass(frozen=True, slots=True)
class DeviceNow:
    """A device's latest values; None if there is no recent one."""

    subject: str
    rate: Rate | None
    sample: GpuSample | None
    alive: int
    planned: int


@dataclass(frozen=True, slots=True)
class HostNow:
    """A host's latest values; `wakeup_p99_ms` is over the last RECENT_S seconds."""

    subject: str
    cpu_percent: float | None
    wakeup_p99_ms: float | None


@dataclass(frozen=True, slots=True)
class StageNow:
    """The running stage and its progress."""

    name: str
    elapsed_s: float
    expected_s: float

    @property
    def share(self) -> float:
        """Progress, 0 to 1."""
        return min(max(self.elapsed_s / self.expected_s, 0.0), 1.0) if self.expected_s > 0 else 0.0


@dataclass(frozen=True, slots=True)
class RunNow:
    """The whole run at one moment; `stage` is None between stages."""

    now_s: float
    stage: StageNow | None
    devices: tuple[DeviceNow, ...]
    hosts: tuple[HostNow, ...]
    troubles: int  # events that a good run does not have


def state_of(recording: Recording, plan: Plan, now_s: float, quiet: frozenset[str]) -> RunNow:
    """The run's state at `now_s`. `quiet`: kinds of events that a good run has too."""
    subjects = tuple(dict.fromkeys(worker.subject for worker in plan.workers))
    rounds = _recent(recording.rounds, now_s)
    samples = _recent(recording.gpu_samples, now_s)
    alive = _alive(recording)
    devices = tuple(
        DeviceNow(
            subject,
            rate_of([one for one in rounds if one.subject == subject]),
            next((one for one in samples if one.subject == subject), None),
            sum(worker in alive for worker in _planned(plan, subject)),
            len(_planned(plan, subject)),
        )
        for subject in subjects
    )
    nodes = tuple(dict.fromkeys(worker.node for worker in plan.workers))
    host_samples = _recent(recording.host_samples, now_s)
    hosts = tuple(_host(node, [one for one in host_samples if one.subject == node]) for node in nodes)
    troubles = sum(event.kind not in quiet for event in recording.events)
    return RunNow(now_s, _stage(recording, plan, now_s), devices, hosts, troubles)


def _recent(records: Rows[Timed], now_s: float) -> list[Timed]:
    """Records of the last STALE_S seconds, newest first: agents report in turns, so they are not in order."""
    return sorted(records.since(now_s - STALE_S), key=lambda record: record.t_s, reverse=True)


def _planned(plan: Plan, subject: str) -> list[str]:
    return [worker.worker for worker in plan.workers_of(subject)]


def _alive(recording: Recording) -> set[str]:
    """Workers that have started and not ended since."""
    started: dict[str, float] = {}
    for worker in tuple(recording.workers):
        started[worker.worker] = max(worker.t_s, started.get(worker.worker, worker.t_s))
    ends = [event for event in tuple(recording.events) if event.kind in DEATHS and event.worker is not None]
    return {
        name
        for name, t_s in started.items()
        if not any(one.worker == name and one.t_s >= t_s for one in ends)
    }


def _host(node: str, samples: Sequence[HostSample]) -> HostNow:
    """A host's values from its `samples`, newest first."""
    percent = next((one.cpu_percent for one in samples if one.cpu_percent is not None), None)
    fresh = [one for one in samples if one.t_s > samples[0].t_s - RECENT_S]
    delays = sorted(delay for one in fresh for delay in one.wakeup_delays_ms or ())
    return HostNow(node, percent, delays[min(int(len(delays) * 0.99), len(delays) - 1)] if delays else None)


def _stage(recording: Recording, plan: Plan, now_s: float) -> StageNow | None:
    stages = reversed(tuple(recording.stages.values()))
    running = next((stage for stage in stages if stage.status == "running"), None)
    if running is None:
        return None
    expected_s = next((one.expected_s for one in plan.stages if one.name == running.name), 0.0)
    begin_s = running.start_s if running.loaded_from_s is None else running.loaded_from_s
    name = running.name if plan.laps == 1 else f"{running.name} (lap {running.lap} of {plan.laps})"
    return StageNow(name, max(now_s - begin_s, 0.0), expected_s)
