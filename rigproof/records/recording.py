"""The Recording: everything one run measured, as data that can be judged again anywhere."""

from collections.abc import Iterable, Mapping, Sized
from copy import copy
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Protocol, TypeVar, cast

from rigproof.records.fields import table_name
from rigproof.records.identity import GpuIdentity, NodeIdentity, RunInfo, WorkerIdentity
from rigproof.records.measurements import (
    BootReading,
    Event,
    ForeignMemory,
    GpuCounters,
    MemoryReading,
    Round,
    Stage,
)
from rigproof.records.processes import GpuProcess, ProcessWatch
from rigproof.records.rows import Rows, TableError
from rigproof.records.samples import GpuSample, HostSample, PcieErrors


class StageRecord(Protocol):
    """A record that stages write often, held as columns: its fields are numbers, texts and booleans."""

    @property
    def t_s(self) -> float: ...
    @property
    def stage(self) -> str: ...
    @property
    def worker(self) -> str: ...
    @property
    def subject(self) -> str: ...


@dataclass(frozen=True, slots=True)
class RecordedPlan:
    """The plan of the run (`profiles.planning`) in plain data: each worker's task, each stage's length.

    If read from a file, its content is not validated yet.
    """

    plan: dict[str, Any]


RareRecord = (
    RecordedPlan
    | NodeIdentity
    | GpuIdentity
    | WorkerIdentity
    | GpuCounters
    | BootReading
    | ForeignMemory
    | GpuProcess
    | ProcessWatch
    | Stage
    | Event
)
Record = RareRecord | StageRecord | PcieErrors
Sample = GpuSample | HostSample
_LISTS: dict[type, str] = {
    Event: "events",
    GpuCounters: "counters",
    BootReading: "boots",
    WorkerIdentity: "workers",
    GpuProcess: "processes",
}
_BY_SUBJECT: dict[type, str] = {
    NodeIdentity: "nodes",
    GpuIdentity: "gpus",
    ForeignMemory: "foreign_memory",
    ProcessWatch: "process_watches",
}
# Tables of which an attempt at a stage has its own part: of its rounds and of what the stage itself records.
_OF_ALL_ATTEMPTS = frozenset(map(table_name, (GpuSample, HostSample, MemoryReading, PcieErrors)))
_Kept = TypeVar("_Kept")


class RecordingError(Exception):
    """A run's folder that cannot be read; the message names file, place, fault and way out."""


@dataclass(slots=True, eq=False)
class Recording:
    """What was measured. Grows by `add` during the run; criteria only read it.

    Bulk data (rounds, readings, samples, what a stage records) is in `tables`, as columns, by the name of its
    type; `of` returns it as records.
    A Stage is recorded when it begins and again when it ends, a ProcessWatch repeatedly; the later record
    replaces the earlier one. A Stage of the same name with another start is another attempt: `stages` has
    the last one, `earlier_attempts` those before in the same lap, `earlier_laps` those of the laps before.
    """

    run: RunInfo
    plan: RecordedPlan | None = None  # None if the run was cut short before it was planned
    nodes: dict[str, NodeIdentity] = field(default_factory=dict)
    gpus: dict[str, GpuIdentity] = field(default_factory=dict)
    workers: list[WorkerIdentity] = field(default_factory=list)
    stages: dict[str, Stage] = field(default_factory=dict)
    earlier_attempts: dict[str, tuple[Stage, ...]] = field(default_factory=dict)  # of stages measured again
    earlier_laps: list[Stage] = field(default_factory=list)
    counters: list[GpuCounters] = field(default_factory=list)
    boots: list[BootReading] = field(default_factory=list)
    foreign_memory: dict[str, ForeignMemory] = field(default_factory=dict)
    processes: list[GpuProcess] = field(default_factory=list)
    process_watches: dict[str, ProcessWatch] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    tables: dict[str, Rows[Any]] = field(default_factory=dict)

    def add(self, record: Record | Sample) -> None:
        """Add one record."""
        kind = type(record)
        if kind in _LISTS:
            getattr(self, _LISTS[kind]).append(record)
        elif kind in _BY_SUBJECT:
            getattr(self, _BY_SUBJECT[kind])[cast("Sample", record).subject] = record
        elif isinstance(record, RecordedPlan):
            self.plan = record
        elif isinstance(record, Stage):
            before = self.stages.get(record.name)
            if before is not None and before.lap != record.lap:
                self.earlier_laps.append(before)
            elif before is not None and before.start_s != record.start_s:
                earlier = self.earlier_attempts.get(record.name, ())
                self.earlier_attempts[record.name] = (*earlier, before)
            self.stages[record.name] = record
        else:
            self.of(kind).append(record)

    def extend(self, records: Iterable[Record | Sample]) -> None:
        """Add several records."""
        for record in records:
            self.add(record)

    def of(self, kind: type[_Kept]) -> Rows[_Kept]:
        """All records of a type that is held as columns.

        Raises RecordingError if the table of that name came from a file and holds something else.
        """
        name = table_name(cast("type", kind))
        rows = self.tables.get(name)
        if rows is None:
            rows = self.tables.setdefault(name, Rows(kind))
        elif rows.record is None:
            try:
                rows = self.tables[name] = rows.typed(kind)
            except TableError as error:
                restore = "restore its file, or read it with the version of rigproof that wrote it"
                raise RecordingError(f"{name} of this recording: {error}; {restore}") from None
        return rows

    def put(self, kind: type[_Kept], records: Iterable[_Kept]) -> None:
        """Replace all records of that type by these."""
        rows = records if isinstance(records, Rows) else Rows.of_records(kind, records)
        self.tables[table_name(cast("type", kind))] = rows

    def __eq__(self, other: object) -> bool:
        """Whether all content is equal; an empty table counts as none."""
        if not isinstance(other, Recording):
            return False
        tables, other_tables = (
            {name: rows for name, rows in either.tables.items() if len(rows)} for either in (self, other)
        )
        names = (name for name in self.__slots__ if name != "tables")
        return tables == other_tables and all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]

    def __copy__(self) -> "Recording":
        """A copy to which records can be added independently."""
        fields: Mapping[str, Any] = {name: copy(getattr(self, name)) for name in self.__slots__}
        copied = Recording(**fields)
        copied.tables = {name: copy(rows) for name, rows in self.tables.items()}
        return copied

    @property
    def rounds(self) -> Rows[Round]:
        """The rounds of work of all stages."""
        return self.of(Round)

    @rounds.setter
    def rounds(self, records: Iterable[Round]) -> None:
        self.put(Round, records)

    @property
    def memory(self) -> Rows[MemoryReading]:
        """The readings of all workers' allocators."""
        return self.of(MemoryReading)

    @memory.setter
    def memory(self, records: Iterable[MemoryReading]) -> None:
        self.put(MemoryReading, records)

    @property
    def gpu_samples(self) -> Rows[GpuSample]:
        """The samples of all GPUs."""
        return self.of(GpuSample)

    @gpu_samples.setter
    def gpu_samples(self, records: Iterable[GpuSample]) -> None:
        self.put(GpuSample, records)

    @property
    def host_samples(self) -> Rows[HostSample]:
        """The samples of all hosts."""
        return self.of(HostSample)

    @host_samples.setter
    def host_samples(self, records: Iterable[HostSample]) -> None:
        self.put(HostSample, records)

    def count(self) -> int:
        """The number of records so far; changes with every record that can change a verdict."""
        lists: tuple[Sized, ...] = (self.events, self.counters, self.boots, self.workers, self.processes)
        by_name: tuple[Sized, ...] = (self.stages, self.nodes, self.gpus, *self.earlier_attempts.values())
        return sum(map(len, (*lists, self.earlier_laps, *by_name, *self.tables.values())))

    @property
    def attempts(self) -> list[Stage]:
        """Every attempt at every stage, each stage's in their order."""
        of_stages = ((*self.earlier_attempts.get(name, ()), last) for name, last in self.stages.items())
        return [*self.earlier_laps, *(one for each in of_stages for one in each)]

    def of_attempt(self, number: int | None) -> "Recording":
        """What was recorded with one attempt at each stage, from 0 on; None: the last. Itself if that is all.

        Of a stage with fewer attempts it is the last one. Rounds and what stages record belong to an attempt
        from its beginning to that of the next. Samples, readings and events stay, whichever attempt they are
        of: nothing that went wrong in any is forgotten.
        """
        if not self.earlier_attempts:
            return self
        stages, own = dict(self.stages), {}
        for name, earlier in self.earlier_attempts.items():
            every = (*earlier, self.stages[name])
            place = len(earlier) if number is None else min(number, len(earlier))
            begins_s = (-inf, *(one.start_s for one in every[1:]), inf)
            stages[name], own[name] = every[place], (begins_s[place], begins_s[place + 1])
        tables = {
            name: rows if name in _OF_ALL_ATTEMPTS else rows.between(-inf, inf, own)
            for name, rows in self.tables.items()
        }
        earlier_attempts = self.earlier_attempts if number is None else {}
        return replace(self, stages=stages, earlier_attempts=earlier_attempts, tables=tables)

    def since_the_beginning_of(self, stage: str) -> "Recording":
        """The same, of that stage only what its last attempt in the last lap has recorded."""
        begun_s = self.stages[stage].start_s
        events = [one for one in self.events if one.stage != stage or not one.t_s < begun_s]
        own = {stage: (begun_s, inf)}
        tables = {name: rows.between(-inf, inf, own) for name, rows in self.tables.items()}
        return replace(self, events=events, tables=tables)

    def is_last(self, record: StageRecord | Event) -> bool:
        """Whether a record belongs to the last attempt at its stage in its lap, or to no stage."""
        if record.stage is None or record.stage not in self.earlier_attempts:
            return True
        return not record.t_s < self.stages[record.stage].start_s

    def last_s(self) -> float | None:
        """Run time of the last record; None if there is none."""
        ends = [rows.last_s() for rows in (self.rounds, self.gpu_samples, self.host_samples)]
        ends += [event.t_s for event in self.events[-1:]]
        return max((end_s for end_s in ends if end_s is not None), default=None)
