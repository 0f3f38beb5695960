"""The part of a large rig that a page shows: some devices, and the range of all."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rigproof.records.recording import Recording
from rigproof.records.rows import Rows
from rigproof.records.verdict import Outcome
from rigproof.report.content.result import RunResult

DEVICES_MAX = 32  # up to this many devices are all shown; of more
DEVICES_SHOWN = 16  # only this many, since each takes time in every chart
TROUBLED = (Outcome.FAIL, Outcome.WARN, Outcome.NOT_MEASURED)
BUCKETS = 300
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A run's result reduced to `devices` and their nodes; `total` is the number of all devices."""

    result: RunResult
    devices: tuple[str, ...]
    total: int

    @property
    def note(self) -> str:
        """A sentence about what is left out; empty if nothing is."""
        left = self.total - len(self.devices)
        if not left:
            return ""
        return (
            f"{len(self.devices)} of {self.total:,} devices, failed ones first. The other {left:,} are "
            "in verdict.json and in the recording."
        )


def excerpt_of(result: RunResult, most: int = DEVICES_MAX) -> Excerpt:
    """The whole result if it has at most `most` devices; else DEVICES_SHOWN of them, failed ones first."""
    devices = [device.subject for device in result.facts.devices]
    if len(devices) <= most:
        return Excerpt(result, tuple(devices), len(devices))
    promised = set(devices)
    order = {outcome: place for place, outcome in enumerate(TROUBLED)}
    troubled = [verdict for verdict in result.verdicts if verdict.outcome in order]
    troubled.sort(key=lambda verdict: order[verdict.outcome])
    subjects = dict.fromkeys(verdict.subject for verdict in troubled)
    troubled_devices = [subject for subject in subjects if subject in promised]
    chosen = set(list(dict.fromkeys([*troubled_devices, *devices]))[: min(most, DEVICES_SHOWN)])
    nodes = tuple(
        replace(node, devices=tuple(device for device in node.devices if device.subject in chosen))
        for node in result.facts.nodes
        if any(device.subject in chosen for device in node.devices)
    )
    names = chosen | {node.name for node in nodes}
    facts = replace(result.facts, nodes=nodes)
    smaller = replace(result, recording=_recording_of(result.recording, names), facts=facts)
    return Excerpt(smaller, tuple(subject for subject in devices if subject in chosen), len(devices))


def _recording_of(recording: Recording, subjects: set[str]) -> Recording:
    """The records of these subjects and of the rig."""
    return Recording(
        run=recording.run,
        plan=recording.plan,
        nodes={name: node for name, node in recording.nodes.items() if name in subjects},
        gpus={name: gpu for name, gpu in recording.gpus.items() if name in subjects},
        workers=_some(recording.workers, subjects),
        stages=recording.stages,
        earlier_attempts=recording.earlier_attempts,
        earlier_laps=recording.earlier_laps,
        counters=_some(recording.counters, subjects),
        boots=_some(recording.boots, subjects),
        foreign_memory={name: held for name, held in recording.foreign_memory.items() if name in subjects},
        processes=_some(recording.processes, subjects),
        process_watches={
            name: watch for name, watch in recording.process_watches.items() if name in subjects
        },
        events=_some(recording.events, subjects | {"rig"}),
        tables={name: rows.only(sorted(subjects)) for name, rows in recording.tables.items()},
    )


def _some(records: Iterable[Any], subjects: set[str]) -> list[Any]:
    return [record for record in records if record.subject in subjects]


class Ranges:
    """The lowest, mean and highest value of many series over time, which is divided into BUCKETS."""

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
        """The three series by name; NaN where nothing was read. `values` are in the records' order."""
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
        """The lowest, mean and highest value of a field of the records."""
        return self.of(self._records.column(name))
