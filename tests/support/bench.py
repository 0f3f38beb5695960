"""A bench to break one thing in a healthy rig's Recording, and to judge what is left."""

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rigproof.criteria.evidence.evidence import Evidence
from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.judge import judge
from rigproof.judging.lap import judge_lap
from rigproof.profiles.errors import ProfileError
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.plan import Plan, recorded
from rigproof.profiles.planning.planning import make_plan
from rigproof.records.champions import Champions
from rigproof.records.columns import column_of, floats_of
from rigproof.records.fields import LABELS, kinds_of
from rigproof.records.measurements import Event, MemoryReading, Round
from rigproof.records.processes import GpuProcess
from rigproof.records.rows import Rows
from rigproof.records.samples import PcieErrors
from rigproof.records.verdict import Outcome, Verdict
from rigproof.stages.feeding.stage import RewardBatch
from support.recordings import END_S, healthy_recording
from support.rig_profile import LIMITS, loaded_rig, stage_changes


class Bench:
    """A Recording and its rig, with ways to change them and to judge."""

    def __init__(self, changes: dict[str, Any] | None = None) -> None:
        self.planned_by: LoadedRig | None = None  # None: the profile that it is judged by
        self._loaded = loaded_rig(changes)
        self.recording = healthy_recording(self._loaded.dump())
        self.champions: Champions | None = None  # None: those that were recorded

    def verdict(self, criterion: str, subject: str) -> Verdict:
        evidence = Evidence(self.recording, self.loaded, self.champions, self.planned_by)
        return judge(CATALOGUE[criterion], subject, evidence)

    def said(self, criterion: str, subject: str) -> tuple[Outcome, str]:
        """A verdict's outcome, and its detail."""
        verdict = self.verdict(criterion, subject)
        return verdict.outcome, verdict.detail

    def verdicts(self) -> list[Verdict]:
        return judge_lap(Evidence(self.recording, self.loaded, self.champions, self.planned_by))

    @property
    def loaded(self) -> LoadedRig:
        """The profile that the run was planned by, or else the one that it is judged by."""
        return self._loaded

    @loaded.setter
    def loaded(self, loaded: LoadedRig) -> None:
        self._loaded = loaded
        if self.planned_by is None:
            with contextlib.suppress(ProfileError):  # it plans nothing, which is what the test is about
                self.recording.plan = recorded(make_plan(loaded, "standard"))

    def plan(self) -> Plan:
        """What the profile plans."""
        return make_plan(self.loaded, "standard")

    def rig(self, **changes: Any) -> None:
        """Replace top-level keys of the profile."""
        self.loaded = loaded_rig(changes)

    def judged_by(self, **changes: Any) -> None:
        """Judge by a profile with other top-level keys than the run's, as `rigproof judge --hwprofile`."""
        self.planned_by, self.loaded = self.loaded, loaded_rig(changes)

    def limits(self, **changes: Any) -> None:
        self.loaded = loaded_rig({"limits": LIMITS | changes})

    def settings(self, stage: str, **changes: Any) -> None:
        """Replace settings of a stage."""
        self.loaded = loaded_rig(stage_changes(stage, **changes))

    def gpu(self, subject: str, **fields: Any) -> None:
        self.recording.gpus[subject] = replace(self.recording.gpus[subject], **fields)

    def node(self, name: str, **fields: Any) -> None:
        self.recording.nodes[name] = replace(self.recording.nodes[name], **fields)

    def stage(self, name: str, **fields: Any) -> None:
        self.recording.stages[name] = replace(self.recording.stages[name], **fields)

    def only(self, *stages: str) -> None:
        """Forget everything that other stages left, but for the samples taken meanwhile."""
        recording = self.recording
        recording.run = replace(recording.run, stages=stages)
        recording.stages = {name: stage for name, stage in recording.stages.items() if name in stages}
        recording.events = [one for one in recording.events if one.stage in (None, *stages)]
        for kind in (Round, MemoryReading, RewardBatch):
            recording.put(kind, [one for one in recording.of(kind) if one.stage in stages])  # type: ignore[type-var, attr-defined]

    def event(
        self,
        kind: str,
        subject: str,
        message: str = "",
        t_s: float = 40.0,
        worker: str | None = None,
        stage: str | None = "sustained",
        **data: Any,
    ) -> None:
        self.recording.add(Event(t_s, kind, subject, message, stage, worker, data))

    def stranger(
        self,
        from_s: float,
        *,
        subject: str = "pc1/gpu0",
        pid: int = 5263,
        gone_s: float | None = None,
        used_mib: Sequence[float | None] = (520,),
        sm_percent: Sequence[float | None] = (0,),
        **fields: Any,
    ) -> None:
        """A process of somebody else: seen at `from_s`, and a second later for each further figure."""
        known = {"user": "ml", "name": "python3", "parents": (900, 1)} | fields
        for number in range(max(len(used_mib), len(sm_percent))):
            mib, percent = (
                used_mib[min(number, len(used_mib) - 1)],
                sm_percent[min(number, len(sm_percent) - 1)],
            )
            self.recording.add(
                GpuProcess(from_s + number, subject, pid, used_mib=mib, sm_percent=percent, **known)
            )
        if gone_s is not None:
            self.recording.add(GpuProcess(gone_s, subject, pid, gone=True))

    def watched(self, subject: str, **fields: Any) -> None:
        """Change how well a GPU's processes were watched."""
        was = self.recording.process_watches[subject]
        self.recording.process_watches[subject] = replace(was, **fields)

    def lose(self, worker: str, kind: str, message: str, t_s: float) -> None:
        """A worker is lost in the sustained stage and not replaced: it does nothing from then on."""
        self.event(kind, worker.partition("#")[0], message, t_s, worker)
        for name in ("rounds", "memory"):
            kept = [one for one in getattr(self.recording, name) if one.worker != worker or one.t_s <= t_s]
            setattr(self.recording, name, kept)
        self.stage("sustained", status="partial")

    def samples(self, subject: str, from_s: float = 0.0, to_s: float = END_S, **fields: Any) -> None:
        """Give the GPU samples of a stretch other values; a callable gets the sample."""
        self.recording.gpu_samples = _changed(self.recording.gpu_samples, subject, from_s, to_s, fields)

    def sampled_late(self, node: str, from_s: float, to_s: float, every: int = 3) -> None:
        """Of a host's samples in that time one of `every` came."""
        samples = self.recording.host_samples
        grouped, order = samples.as_they_came()
        columns = {name: column.taken(order) for name, column in grouped.items()}
        times_s = floats_of(columns["t_s"])
        own = np.array([subject == node for subject in columns["subject"].plain(slice(None))], bool)
        own &= (from_s <= times_s) & (times_s <= to_s)
        late = own & ((own.cumsum() - 1) % every != 0)
        (kept,) = (~late).nonzero()
        self.recording.host_samples = Rows(
            samples.record, {name: column.taken(kept) for name, column in columns.items()}
        )

    def host(self, node: str, from_s: float = 0.0, to_s: float = END_S, **fields: Any) -> None:
        self.recording.host_samples = _changed(self.recording.host_samples, node, from_s, to_s, fields)

    def rounds(
        self, subject: str, stage: str, from_s: float = 0.0, to_s: float = END_S, **fields: Any
    ) -> None:
        self.recording.rounds = _changed(self.recording.rounds, subject, from_s, to_s, fields, stage)

    def rewards(self, subject: str, from_s: float = 0.0, to_s: float = END_S, **fields: Any) -> None:
        kept = self.recording.of(RewardBatch)
        self.recording.put(RewardBatch, _changed(kept, subject, from_s, to_s, fields))

    def slow(self, subject: str, share: float, stage: str = "sustained", from_s: float = 0.0) -> None:
        """This share of the work in the same time."""
        self.rounds(subject, stage, from_s, work=lambda one: one.work * share)

    def reading(self, place: int, **fields: Any) -> None:
        """Change one reading of the allocators, by its place among all."""
        readings = list(self.recording.memory)
        readings[place] = replace(readings[place], **fields)
        self.recording.memory = readings

    def round(self, place: int, **fields: Any) -> Round:
        """Change one round, by its place among all."""
        rounds = list(self.recording.rounds)
        rounds[place] = replace(rounds[place], **fields)
        self.recording.rounds = rounds
        return rounds[place]

    def counters(self, subject: str, moment: str, **fields: Any) -> None:
        self.recording.counters = [
            replace(one, **fields) if (one.subject, one.moment) == (subject, moment) else one
            for one in self.recording.counters
        ]

    def boot(self, node: str, moment: str, **fields: Any) -> None:
        self.recording.boots = [
            replace(one, **fields) if (one.subject, one.moment) == (node, moment) else one
            for one in self.recording.boots
        ]

    def silence(self, subject: str, from_s: float) -> None:
        """Nothing is read from this GPU any more: neither samples nor counters after the load."""
        self.recording.gpu_samples = [
            one for one in self.recording.gpu_samples if one.subject != subject or one.t_s < from_s
        ]
        self.recording.counters = [
            one for one in self.recording.counters if one.subject != subject or one.t_s < from_s
        ]

        read = [one for one in self.recording.of(PcieErrors) if one.subject != subject or one.t_s < from_s]
        self.recording.put(PcieErrors, read)

    def pcie(self, subject: str, from_s: float = 0.0, to_s: float = END_S, **fields: Any) -> None:
        """Give a GPU's PCIe errors other values; a callable gets the record."""
        read = self.recording.of(PcieErrors)
        self.recording.put(PcieErrors, _changed(read, subject, from_s, to_s, fields))

    def drop(self, kind: str, subject: str) -> None:
        """Remove every record of one kind about the subject."""
        kept = [one for one in getattr(self.recording, kind) if one.subject != subject]
        setattr(self.recording, kind, kept)


def _changed(
    rows: Rows[Any],
    subject: str,
    from_s: float,
    to_s: float,
    fields: dict[str, Any],
    stage: str | None = None,
) -> Rows[Any]:
    """The rows with other values in those of one subject, which come last then.

    What is no field of the record is a label; None takes one away. Records are only made for a callable.
    """
    assert rows.record is not None
    columns = dict(rows.only([subject]).columns)
    moments = floats_of(columns["t_s"])
    inside = (from_s <= moments) & (moments <= to_s)
    if stage:
        inside &= np.array([one == stage for one in columns["stage"].plain(slice(None))], bool)
    places = inside.nonzero()[0].tolist()
    made = rows.of(subject) if any(map(callable, fields.values())) else []
    kinds = {kind.name: kind for kind in kinds_of(rows.record)}
    for name, value in fields.items():
        column = name if name in kinds else LABELS
        every = columns[column].plain(slice(None))
        for place in places:
            new = value(made[place]) if callable(value) else value
            every[place] = new if name in kinds else _relabelled(every[place], name, new)
        columns[column] = column_of(every, kinds[column])
    others, order = rows.only(one for one in rows.subjects() if one != subject).as_they_came()
    return Rows(rows.record, {name: one.taken(order).joined(columns[name]) for name, one in others.items()})


def _relabelled(labels: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    others = {label: held for label, held in labels.items() if label != name}
    return others if value is None else others | {name: value}
