"""A Recording indexed on first use: its records by subject, and what was computed from them.

Everything is indexed in linear time: a soak has some 300,000 samples, five minutes of 16,384 GPUs have five
million.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable
from copy import copy
from functools import cached_property
from operator import attrgetter
from typing import Any, TypeVar

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.records.grouping import grouped
from rigproof.records.identity import WorkerIdentity
from rigproof.records.measurements import BootReading, GpuCounters, Round, Stage
from rigproof.records.recording import Recording, StageRecord
from rigproof.records.rows import Rows

Made = TypeVar("Made")
Own = TypeVar("Own", bound=StageRecord)


class IndexedRecording:
    """The records of a run by their subjects: of a repeated stage, of its last `attempt` or another.

    What was made for a subject is released after it was judged.
    """

    def __init__(self, recording: Recording, *, attempt: int | None = None) -> None:
        self._all_attempts = recording
        self.recording = recording.of_attempt(attempt)
        # The figures by which devices are compared, made on first use: by name and by device.
        self.shared_figures: dict[str, dict[str, Any]] = defaultdict(dict)
        self._cached: dict[Hashable, Any] = {}
        self._cached_for_subject: dict[Hashable, Any] = {}

    def samples(self, kind: type[Made], subject: str) -> Rows[Made]:
        """What was read of one device or node: the records of this type, in the order of time."""
        return self.cached_for_subject(
            ("samples", kind, subject), lambda: self.recording.of(kind).in_order_of_time(subject)
        )

    def counters(self, subject: str) -> list[GpuCounters]:
        """The error counters of one device, in the order of time."""
        index = self.cached("counters", lambda: grouped(self.recording.counters, attrgetter("subject")))
        return sorted(index.get(subject, ()), key=attrgetter("t_s"))

    def boots(self, subject: str) -> list[BootReading]:
        """The boot ids read on one node, in the order of time."""
        index = self.cached("boots", lambda: grouped(self.recording.boots, attrgetter("subject")))
        return sorted(index.get(subject, ()), key=attrgetter("t_s"))

    def rounds(self, subject: str) -> Rounds:
        """The rounds of one device, as recorded: a round without a finite time must not vanish."""
        return self.cached_for_subject(("rounds", subject), lambda: Rounds.of_subject(self._rows, subject))

    @cached_property
    def _rows(self) -> Rows[Round]:
        """A copy of the rounds at one moment: a round added later would not fit the places found before."""
        return copy(self.recording.rounds)

    @cached_property
    def _all_rounds(self) -> Rounds:
        return Rounds(self._rows.columns)

    def records(self, kind: type[Own], subject: str) -> list[Own]:
        """A stage's own records of this type about one device, in the order in which they came."""
        return self.cached_for_subject((kind, subject), lambda: self.recording.of(kind).of(subject))

    @cached_property
    def workers(self) -> dict[str, list[WorkerIdentity]]:
        """The workers by the device that they were planned for."""
        return grouped(self.recording.workers, attrgetter("subject"))

    @cached_property
    def workers_by_uuid(self) -> dict[str, list[WorkerIdentity]]:
        """The workers by the UUID of the device that they really got."""
        return grouped(self.recording.workers, lambda worker: worker.uuid)

    @cached_property
    def subjects_by_uuid(self) -> dict[str, list[str]]:
        """The CUDA devices found with each UUID: one, unless two subjects got the same card."""
        found: dict[str, list[str]] = defaultdict(list)
        for subject, gpu in self.recording.gpus.items():
            if gpu.device == "cuda":
                found[gpu.uuid].append(subject)
        return found

    def began(self, stage: Stage) -> frozenset[str]:
        """The workers that began a stage."""
        return self.cached(("began", stage.name), lambda: frozenset(stage.workers))

    @cached_property
    def _last_moment_s(self) -> float:
        recording = self._all_attempts
        ends = [rows.last_s() for rows in (recording.gpu_samples, recording.host_samples, recording.rounds)]
        return max((end_s for end_s in ends if end_s is not None), default=-math.inf)

    def cached(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """The result of `make`, made once: for small data, or data that every subject needs."""
        if key not in self._cached:
            self._cached[key] = make()
        found: Made = self._cached[key]
        return found

    def cached_for_subject(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """The result of `make`, made once until `release`: for large data."""
        if key not in self._cached_for_subject:
            self._cached_for_subject[key] = make()
        found: Made = self._cached_for_subject[key]
        return found

    def shared_figure(self, name: str, subject: str, make: Callable[[], Made]) -> Made:
        """The result of `make`, made once; if it raises NotMeasured, that is raised again each time.

        It is cached with the device's verdicts, so that others can be compared with it (`shared_figures`).
        """
        known = self.shared_figures[name]
        if subject not in known:
            try:
                known[subject] = make()
            except NotMeasured as reason:
                known[subject] = reason
        found: Made | NotMeasured = known[subject]
        if isinstance(found, NotMeasured):
            raise found.worded(found.reason)
        return found

    def release(self) -> None:
        """Release what was cached for subjects, once they have been judged."""
        self._cached_for_subject.clear()
