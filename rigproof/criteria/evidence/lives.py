"""The processes that were seen on a device: which are the run's own, and which are foreign.

A worker is recognized by its pid, its child processes by their parents. In a container the driver may report
the host's pids, which workers do not know: processes that appeared while our workers started then count as
ours, if as many appeared as were started. Otherwise they cannot be distinguished.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rigproof.criteria.criterion import NotApplicable
from rigproof.criteria.evidence.devices import LOSSES, DeviceEvidence
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.windows import Window
from rigproof.records.grouping import grouped
from rigproof.records.identity import WorkerIdentity
from rigproof.records.processes import GpuProcess

SEEN_S = 2.0  # after it started: the list is read every second, and the clocks of two hosts differ a little


@dataclass(frozen=True, slots=True)
class State:
    """A process as it was from `from_s` to `to_s`; infinity if it did not change any more."""

    from_s: float
    to_s: float
    process: GpuProcess


@dataclass(frozen=True, slots=True)
class Life:
    """A process on one device from when it was first seen until it was gone, if it ever was."""

    pid: int
    states: tuple[State, ...]

    @property
    def from_s(self) -> float:
        """When it was first seen."""
        return self.states[0].from_s

    @property
    def to_s(self) -> float:
        """When it was gone."""
        return self.states[-1].to_s

    def around(self, from_s: float, to_s: float) -> list[GpuProcess]:
        """Its states in that time."""
        return [one.process for one in self.states if one.from_s <= to_s and one.to_s >= from_s]

    @property
    def last(self) -> GpuProcess:
        """Its last state that was seen."""
        return self.states[-1].process


@dataclass(frozen=True, slots=True)
class Foreign:
    """The processes that are not ours. `named`: whether their pids lead to their users and programs."""

    lives: tuple[Life, ...]
    named: bool


def lives_of(records: Iterable[GpuProcess]) -> tuple[Life, ...]:
    """The lives in the records of one device, sorted by pid and time."""
    by_pid: dict[int, list[list[GpuProcess]]] = defaultdict(list)
    ended: set[int] = set()
    for one in sorted(records, key=lambda record: record.t_s):
        if one.pid not in by_pid or (one.pid in ended and not one.gone):
            ended.discard(one.pid)
            by_pid[one.pid].append([])
        by_pid[one.pid][-1].append(one)
        if one.gone:
            ended.add(one.pid)
    runs = [run for pid in sorted(by_pid) for run in by_pid[pid] if not run[0].gone]
    return tuple(_life(run) for run in runs)


def _life(run: Sequence[GpuProcess]) -> Life:
    here = [one for one in run if not one.gone]
    ends = [*(later.t_s for _, later in pairwise(here)), run[-1].t_s if run[-1].gone else math.inf]
    return Life(run[0].pid, tuple(State(one.t_s, to_s, one) for one, to_s in zip(here, ends, strict=True)))


def foreign_lives(device: DeviceEvidence, lives: Sequence[Life], begin_s: float) -> Foreign:
    """The lives of a device's processes that are not ours. Before `begin_s` no worker had been started.

    Raises NotApplicable if they cannot be distinguished.
    """
    evidence, node = device.evidence, device.device.node
    own = evidence.cached("worker pids", lambda: _worker_pids(evidence)).get(node, frozenset())
    if evidence.cached(("pids agree", node), lambda: _agree(evidence, node, own)):
        return Foreign(tuple(one for one in lives if not _is_own(one, own)), named=True)
    workers = evidence.workers_by_uuid.get(device.identity.uuid, [])
    return Foreign(_by_arrival(device, lives, workers, begin_s), named=False)


def _worker_pids(evidence: Evidence) -> dict[str, frozenset[int]]:
    """The process ids of our workers, by node."""
    found: dict[str, set[int]] = defaultdict(set)
    for one in evidence.recording.workers:
        found[one.node].add(one.pid)
    return {node: frozenset(pids) for node, pids in found.items()}


def _seen(evidence: Evidence) -> dict[str, list[GpuProcess]]:
    """The processes by node."""
    return grouped(evidence.recording.processes, lambda one: one.subject.partition("/")[0])


def _agree(evidence: Evidence, node: str, own: frozenset[int]) -> bool:
    """Whether the driver reports the pids that our workers have by themselves."""
    here = evidence.cached("processes by node", lambda: _seen(evidence)).get(node, ())
    return not own or any(one.belongs_to(own) for one in here)


def _is_own(life: Life, own: frozenset[int]) -> bool:
    """Whether any state belongs to our workers: a process may be seen before its worker is known."""
    return any(one.process.belongs_to(own) for one in life.states)


def _by_arrival(
    device: DeviceEvidence, lives: Sequence[Life], workers: Sequence[WorkerIdentity], begin_s: float
) -> tuple[Life, ...]:
    """The foreign ones if pids say nothing: a worker's process appears between its start and its report."""
    left = [one for one in lives if not _is_drawing(one)]
    first = [one for one in workers if one.generation == 0]
    starts = [(begin_s, max(one.t_s for one in first), len(first))] if first else []
    starts += [(_lost_s(device, one, begin_s), one.t_s, 1) for one in workers if one.generation > 0]
    for after_s, ready_s, number in starts:
        appeared = [one for one in left if after_s < one.from_s <= ready_s + SEEN_S]
        if len(appeared) != number:
            raise NotApplicable(
                f"the driver's pids are not those of our workers (a container?), and {len(appeared)} "
                f"processes appeared while {number} of ours started: they cannot be distinguished"
            )
        left = [one for one in left if one not in appeared]
    started = _started_by_workers(device, left)
    return tuple(one for one in lives if (one in left and one not in started) or _is_drawing(one))


def _is_drawing(life: Life) -> bool:
    return life.last.graphics


def _lost_s(device: DeviceEvidence, worker: WorkerIdentity, begin_s: float) -> float:
    """When the process that this one replaced was lost."""
    lost = [one.t_s for one in device.events(*LOSSES) if one.worker == worker.worker]
    return max((t_s for t_s in lost if t_s < worker.t_s), default=begin_s)


def _started_by_workers(device: DeviceEvidence, lives: Sequence[Life]) -> list[Life]:
    """The lives that began and ended within a stage in which workers start processes.

    Raises NotApplicable if more existed at once than workers start.
    """
    kinds = device.evidence.kinds
    found: list[Life] = []
    for name, stage in device.evidence.recording.stages.items():
        spawns = kinds[name].spawns if name in kinds else None
        if stage.end_s is None or spawns is None:
            continue
        most = spawns(device.device.stages[name])
        window = Window(stage.start_s, stage.end_s + SEEN_S)
        inside = [one for one in lives if window.from_s <= one.from_s and one.to_s <= window.to_s]
        if any(_at_once(inside, one.from_s) > most for one in inside):
            raise NotApplicable(
                f"the driver's pids are not those of our workers (a container?), and more than the {most} "
                f"processes of the {name} stage appeared: they cannot be distinguished"
            )
        found += inside
    return found


def _at_once(lives: Sequence[Life], t_s: float) -> int:
    return sum(one.from_s <= t_s < one.to_s for one in lives)
