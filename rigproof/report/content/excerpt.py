"""What a page shows of a rig that is too large to be shown whole: some devices, and the range of all."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rigproof.records.recording import Recording
from rigproof.records.rows import Rows
from rigproof.records.verdict import Outcome
from rigproof.report.content.verdict_json import RunResult

DEVICES_MAX = 32  # that are all shown one by one; of more only
DEVICES_SHOWN = 16  # since each takes its time in every chart
TROUBLED = (Outcome.FAIL, Outcome.WARN, Outcome.NOT_MEASURED)
BUCKETS = 300
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A run's result with `devices` and their nodes alone, and how many devices there are."""

    result: RunResult
    devices: tuple[str, ...]
    total: int

    @property
    def note(self) -> str:
        """Says what is left out; empty where nothing is."""
        left = self.total - len(self.devices)
        if not left:
            return ""
        return (
            f"{len(self.devices)} of {self.total:,} devices, those that failed first. The other {left:,} are "
            "in verdict.json and in the recording."
        )


def excerpt_of(result: RunResult, most: int = DEVICES_MAX, shown: int = DEVICES_SHOWN) -> Excerpt:
    """The result itself where it has no more devices than `most`; else `shown` of them, failed ones first."""
    devices = [device.subject for device in result.facts.devices]
    if len(devices) <= most:
        return Excerpt(result, tuple(devices), len(devices))
    promised = set(devices)
    order = {outcome: place for place, outcome in enumerate(TROUBLED)}
    troubled = [one for one in result.verdicts if one.outcome in order]
    first = [one.subject for one in sorted(troubled, key=lambda one: order[one.outcome])]
    chosen = [one for one in dict.fromkeys(first) if one in promised]
    kept = set(list(dict.fromkeys([*chosen, *devices]))[: min(most, shown)])
    nodes = tuple(
        replace(node, devices=tuple(one for one in node.devices if one.subject in kept))
        for node in result.facts.nodes
        if any(one.subject in kept for one in node.devices)
    )
    names = kept | {node.name for node in nodes}
    facts = replace(result.facts, nodes=nodes)
    smaller = replace(result, recording=_recording_of(result.recording, names), facts=facts)
    return Excerpt(smaller, tuple(one for one in devices if one in kept), len(devices))


def _recording_of(recording: Recording, subjects: set[str]) -> Recording:
    """What was recorded of these subjects and of the rig."""
    return Recording(
        run=recording.run,
        plan=recording.plan,
        nodes={name: one for name, one in recording.nodes.items() if name in subjects},
        gpus={name: one for name, one in recording.gpus.items() if name in subjects},
        workers=_some(recording.workers, subjects),
        stages=recording.stages,
        first_attempts=recording.first_attempts,
        counters=_some(recording.counters, subjects),
        boots=_some(recording.boots, subjects),
        foreign_memory={name: one for name, one in recording.foreign_memory.items() if name in subjects},
        processes=_some(recording.processes, subjects),
        process_watches={name: one for name, one in recording.process_watches.items() if name in subjects},
        events=_some(recording.events, subjects | {"rig"}),
        tables={name: rows.only(sorted(subjects)) for name, rows in recording.tables.items()},
    )


def _some(records: Iterable[Any], subjects: set[str]) -> list[Any]:
    return [one for one in records if one.subject in subjects]


class Ranges:
    """The lowest, mean and highest of many series over time, in BUCKETS pieces of it."""

    def __init__(self, records: Rows[Any]) -> None:
        self._records = records
        times = records.column("t_s")
        begin_s, end_s = (times.min(), times.max()) if len(times) else (0.0, 0.0)
        width_s = max((end_s - begin_s) / BUCKETS, 1.0)
        places = ((times - begin_s) / width_s).astype(np.int32)
        self._order = np.argsort(places, kind="stable")
        places = places[self._order]
        self._starts = np.flatnonzero(np.diff(places, prepend=-1))
        self.times_s = begin_s + (places[self._starts] + 0.5) * width_s

    def of(self, values: Floats) -> dict[str, Floats]:
        """By name; NaN where nothing was read. `values` as the records stand."""
        if not len(values) or np.isnan(values).all():
            return {}
        ordered = values[self._order]
        lowest, highest = (one.reduceat(ordered, self._starts) for one in (np.fmin, np.fmax))
        known = np.isfinite(ordered)
        number = np.add.reduceat(known, self._starts, dtype=np.int64)
        ordered[~known] = 0.0
        total = np.add.reduceat(ordered, self._starts)
        mean = np.where(number > 0, total / np.maximum(number, 1), np.nan)
        return {"lowest": lowest, "mean": mean, "highest": highest}

    def of_field(self, name: str) -> dict[str, Floats]:
        """Of one field of the records."""
        return self.of(self._records.column(name))
