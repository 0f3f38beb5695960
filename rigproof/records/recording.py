"""The Recording: everything one run measured, as data that can be judged again anywhere."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rigproof.records.identity import GpuIdentity, NodeIdentity, RunInfo, WorkerIdentity
from rigproof.records.measurements import (
    BootReading,
    Event,
    ForeignMemory,
    GpuCounters,
    MemoryReading,
    RewardBatch,
    Round,
    Stage,
)
from rigproof.records.processes import GpuProcess, ProcessWatch
from rigproof.records.rows import Rows
from rigproof.records.samples import GpuSample, HostSample

Record = (
    NodeIdentity
    | GpuIdentity
    | WorkerIdentity
    | Round
    | MemoryReading
    | RewardBatch
    | GpuCounters
    | BootReading
    | ForeignMemory
    | GpuProcess
    | ProcessWatch
    | Stage
    | Event
)
Sample = GpuSample | HostSample
_LISTS: dict[type, str] = {
    GpuSample: "gpu_samples",
    HostSample: "host_samples",
    Round: "rounds",
    Event: "events",
    MemoryReading: "memory",
    RewardBatch: "rewards",
    GpuCounters: "counters",
    BootReading: "boots",
    WorkerIdentity: "workers",
    GpuProcess: "processes",
}


@dataclass(slots=True)
class Recording:
    """What was measured. Grows by `add` while the run goes on; criteria only read it.

    Where it was read from files, what there is much of is held as Rows, which are read like lists.
    A Stage is recorded when it begins and again when it ends, a ProcessWatch again and again; the later
    record replaces the earlier. A Stage of the same name that begins anew is another attempt: `stages` has
    the last, `first_attempts` the one before.
    """

    run: RunInfo
    nodes: dict[str, NodeIdentity] = field(default_factory=dict)
    gpus: dict[str, GpuIdentity] = field(default_factory=dict)
    workers: list[WorkerIdentity] = field(default_factory=list)
    stages: dict[str, Stage] = field(default_factory=dict)
    first_attempts: dict[str, Stage] = field(default_factory=dict)  # of stages that were measured once more
    rounds: list[Round] | Rows[Round] = field(default_factory=list)
    memory: list[MemoryReading] | Rows[MemoryReading] = field(default_factory=list)
    rewards: list[RewardBatch] | Rows[RewardBatch] = field(default_factory=list)
    counters: list[GpuCounters] = field(default_factory=list)
    boots: list[BootReading] = field(default_factory=list)
    foreign_memory: dict[str, ForeignMemory] = field(default_factory=dict)
    processes: list[GpuProcess] = field(default_factory=list)
    process_watches: dict[str, ProcessWatch] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    gpu_samples: list[GpuSample] | Rows[GpuSample] = field(default_factory=list)
    host_samples: list[HostSample] | Rows[HostSample] = field(default_factory=list)

    def add(self, record: Record | Sample) -> None:
        """Put one record where it belongs."""
        match record:
            case NodeIdentity():
                self.nodes[record.subject] = record
            case GpuIdentity():
                self.gpus[record.subject] = record
            case ForeignMemory():
                self.foreign_memory[record.subject] = record
            case ProcessWatch():
                self.process_watches[record.subject] = record
            case Stage():
                before = self.stages.get(record.name)
                if before is not None and before.start_s != record.start_s:
                    self.first_attempts.setdefault(record.name, before)
                self.stages[record.name] = record
            case _:
                getattr(self, _LISTS[type(record)]).append(record)

    def extend(self, records: Iterable[Record | Sample]) -> None:
        """Add many."""
        for record in records:
            self.add(record)

    def count(self) -> int:
        """How much was recorded so far; changes with every record that can change a verdict."""
        lists: tuple[Sequence[object], ...] = (
            self.rounds,
            self.events,
            self.gpu_samples,
            self.host_samples,
            self.counters,
            self.boots,
            self.memory,
            self.rewards,
            self.workers,
            self.processes,
        )
        tables = (self.stages, self.first_attempts, self.nodes, self.gpus)
        return sum(len(one) for one in lists) + sum(len(one) for one in tables)

    @property
    def attempts(self) -> list[Stage]:
        """Every stage as often as it was begun, its first attempt before the last one."""
        pairs = ((self.first_attempts.get(name), last) for name, last in self.stages.items())
        return [stage for pair in pairs for stage in pair if stage is not None]

    def is_last(self, record: Round | RewardBatch | MemoryReading | Event) -> bool:
        """Whether a record of a stage is none of an attempt that was repeated."""
        if record.stage not in self.first_attempts:
            return True
        return not record.t_s < self.stages[record.stage].start_s

    def last_s(self) -> float | None:
        """Run time of the last thing recorded; None where nothing was."""
        timed: tuple[Sequence[Round | Event | HostSample | GpuSample], ...] = (
            self.rounds,
            self.events,
            self.gpu_samples,
            self.host_samples,
        )
        ends = (one.last_s() if isinstance(one, Rows) else one[-1].t_s for one in timed if len(one))
        return max((end_s for end_s in ends if end_s is not None), default=None)
