"""The rounds of one device as columns, so that computing over hundreds of them needs no object for each."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from rigproof.profiles.kinds.stages import StageKinds
from rigproof.records.columns import Coded, Column, columns_of, floats_at
from rigproof.records.fields import LABELS, kinds_of
from rigproof.records.measurements import Labels, Round
from rigproof.records.rows import Rows

# Rounds that a device may have finished ahead of its reports: two in its queue, and the one being reported.
QUEUED_ROUNDS = 3
CLOCKS_APART = 1e-3  # the relative difference between a device's clock and the host's
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Places = slice | npt.NDArray[np.intp]  # a slice if they are contiguous: then nothing is copied

NAMES = tuple(kind.name for kind in kinds_of(Round))
HICCUP_SHARE = 0.1  # of the rounds: as many may be slow because of the host, which is not the card's fault
JOINING_S = 0.25  # rounds that are no further apart belong to one stretch of load


class RoundTable:
    """The columns of many rounds, with a cache of comparisons of their few distinct values."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self.columns = columns
        self._matches: dict[Hashable, npt.NDArray[np.bool_]] = {}
        self._label_ids: dict[str, npt.NDArray[np.intp]] = {}

    def coded(self, name: str) -> Coded:
        """A coded column."""
        column = self.columns[name]
        assert isinstance(column, Coded)
        return column

    def matches(self, name: str, label: str, values: tuple[Any, ...]) -> npt.NDArray[np.bool_]:
        """For each value of a column, whether it (or its label of that name) is one of these values."""
        key = (name, label, values)
        if key not in self._matches:
            distinct = self.coded(name).distinct
            compared = (value.get(label) for value in distinct) if label else distinct
            self._matches[key] = np.asarray([one in values for one in compared], np.bool_)
        return self._matches[key]

    def label_ids(self, kept: Callable[[str, Labels], tuple[Any, ...]]) -> npt.NDArray[np.intp]:
        """An id for each pair of a stage and labels, by their codes: equal if stage and kept labels are."""
        if kept.__name__ not in self._label_ids:
            known: dict[tuple[Any, ...], int] = {}
            ids = [
                known.setdefault((stage, kept(stage, labels)), len(known))
                for stage in self.coded("stage").distinct
                for labels in self.coded(LABELS).distinct
            ]
            self._label_ids[kept.__name__] = np.asarray(ids, np.intp)
        return self._label_ids[kept.__name__]


class Rounds:
    """Rounds in the order in which they came: rows of a table that may also hold those of other devices."""

    def __init__(self, table: RoundTable, places: Places) -> None:
        self._table, self._places = table, places

    @classmethod
    def of_subject(cls, rows: Rows[Round], subject: str) -> "Rounds":
        """The rounds of one subject."""
        return cls(RoundTable(rows.columns), rows.places(subject))

    @classmethod
    def of_records(cls, records: Sequence[Round]) -> "Rounds":
        """From records."""
        return cls(RoundTable(columns_of(Round, records)), slice(0, len(records)))

    @cached_property
    def t_s(self) -> Floats:
        """The run time at which each round ended; NaN if it was not recorded (so, too, below)."""
        return self._floats("t_s")

    @cached_property
    def seconds(self) -> Floats:
        """The duration of each round."""
        return self._floats("seconds")

    @cached_property
    def work(self) -> Floats:
        """The work of each round, in its unit."""
        return self._floats("work")

    @cached_property
    def begins_s(self) -> Floats:
        """The run time at which each round began; NaN if its end and its duration are infinite."""
        with np.errstate(invalid="ignore"):
            return self.t_s - self.seconds

    def same(self, name: str, *values: Any) -> Mask:
        """The rounds that have one of these values in that field."""
        mask: Mask = self._table.matches(name, "", values)[self._codes(self._coded(name))]
        return mask

    def labelled(self, name: str, *values: Any) -> Mask:
        """The rounds whose label of that name is one of these values; None matches rounds without it."""
        mask: Mask = self._table.matches(LABELS, name, values)[self._codes(self._coded(LABELS))]
        return mask

    def distinct(self, name: str) -> set[Any]:
        """The distinct values of a field."""
        column = self._coded(name)
        return {column.distinct[code] for code in set(self._codes(column).tolist())}

    def distinct_labels(self, name: str) -> set[str | int | None]:
        """The distinct values of a label; None if a round has none of that name."""
        column = self._coded(LABELS)
        return {column.distinct[code].get(name) for code in set(self._codes(column).tolist())}

    def labels(self, name: str) -> list[Any]:
        """A label of each round; None if it has none of that name."""
        column = self._coded(LABELS)
        values = [value.get(name) for value in column.distinct]
        return [values[code] for code in self._codes(column).tolist()]

    def work_ids(self, kinds: StageKinds) -> npt.NDArray[np.intp]:
        """An id for each round, equal for the same work: stage, unit and the labels that define the work."""
        return self._ids(kinds.same_work, "unit")

    def process_ids(self, kinds: StageKinds) -> npt.NDArray[np.intp]:
        """An id for each round, equal for the same process: a worker, or one that a worker has started."""
        return self._ids(kinds.same_process, "worker")

    @cached_property
    def fastest(self) -> dict[str, float]:
        """The rate of the fastest round of each precision; infinite if it took almost no time."""
        with np.errstate(over="ignore"):
            rates = self.work / self.seconds
        values = {str(one): one for one in self.distinct_labels("precision")}
        return {name: float(rates[self.labelled("precision", values[name])].max()) for name in sorted(values)}

    def processes(self, kinds: StageKinds) -> set[int]:
        """The distinct `process_ids`."""
        return set(self.process_ids(kinds).tolist())

    def without_hiccups(self) -> "Rounds":
        """All but the slowest tenth of the rounds, by rate; all if there are fewer than ten."""
        rates = self.work / self.seconds
        fast = np.ones(len(rates), np.bool_)
        fast[np.argsort(rates, kind="stable")[: int(HICCUP_SHARE * len(rates))]] = False
        return self.only(fast)

    def rate(self) -> float:
        """Their work over the time that it took, without hiccups of the host, in their unit per second.

        Not the median, which would hide a card that stutters in less than half of its rounds.
        """
        counted = self.without_hiccups()
        return float(counted.work.sum() / counted.seconds.sum())

    def worst_overlap(self, kinds: StageKinds) -> tuple[float, int]:
        """The largest overlap of rounds of one process, in seconds, and the place of such a round.

        A round is reported after its end; while the host is late, the device continues with its queue. So a
        round counts as begun when the one before had ended, and may exceed the time of its report by what
        was queued, however often the host is late. `CLOCKS_APART` allows for the difference of the clocks.
        Two rounds that end at the same moment are one that was reported twice.
        """
        ids, t_s, seconds = self.process_ids(kinds), self.t_s, self.seconds * (1 - CLOCKS_APART)
        most, place = 0.0, 0
        for process in set(ids.tolist()):
            (own,) = (ids == process).nonzero()
            own = own[np.argsort(t_s[own], kind="stable")]
            done_s = np.cumsum(seconds[own])
            idle_s = np.maximum.accumulate(t_s[own] - done_s)
            over = done_s + idle_s - t_s[own] - QUEUED_ROUNDS * seconds[own].max()
            over[1:] = np.maximum(over[1:], np.where(np.diff(t_s[own]) == 0, seconds[own][1:], -np.inf))
            worst = int(np.argmax(over))
            if over[worst] > most:
                most, place = float(over[worst]), int(own[worst])
        return most, place

    def unbroken(self, kinds: StageKinds) -> list[tuple[float, float]]:
        """From when to when rounds of the same work ran, with breaks of at most JOINING_S, in order."""
        order = np.argsort(self.begins_s, kind="stable")
        begins_s, ends_s = self.begins_s[order], np.maximum.accumulate(self.t_s[order])
        work = self.work_ids(kinds)[order]
        apart = (begins_s[1:] > ends_s[:-1] + JOINING_S) | (work[1:] != work[:-1])
        first = np.concatenate(([0], np.flatnonzero(apart) + 1))
        last = np.concatenate((first[1:] - 1, [len(begins_s) - 1]))
        return list(zip(begins_s[first].tolist(), ends_s[last].tolist(), strict=True))

    def all(self, name: str) -> list[Any]:
        """A field of each round."""
        return self._values(name)

    def only(self, mask: Mask) -> "Rounds":
        """The rounds that the mask selects."""
        if mask.all():
            return self
        (found,) = mask.nonzero()
        adjoin = len(found) and found[-1] - found[0] + 1 == len(found)
        places = slice(int(found[0]), int(found[-1]) + 1) if adjoin else found
        return Rounds(self._table, self._within(places))

    @cached_property
    def measured(self) -> "Rounds":
        """The rounds of a measurement, without those of the warm-up."""
        return self.only(self.same("phase", "measure"))

    @cached_property
    def verified(self) -> "Rounds":
        """The rounds whose result was compared and correct."""
        return self.only(self.same("verified", True))

    def records(self) -> list[Round]:
        """All rounds as records."""
        columns = [self._values(name) for name in NAMES]
        return [Round(*row) for row in zip(*columns, strict=True)]

    def __len__(self) -> int:
        """The number of rounds."""
        if isinstance(self._places, slice):
            return int(self._places.stop - self._places.start)
        return len(self._places)

    def _within(self, places: Places) -> Places:
        """Places among these rounds, as places in the table."""
        if not isinstance(self._places, slice):
            return self._places[places]
        begin = self._places.start
        return (
            slice(begin + places.start, begin + places.stop) if isinstance(places, slice) else begin + places
        )

    def _values(self, name: str) -> list[Any]:
        column = self._table.columns[name]
        if isinstance(self._places, slice):
            return column.plain(self._places)
        return column.taken(self._places).plain(slice(None))

    def _floats(self, name: str) -> Floats:
        return floats_at(self._table.columns[name], self._places)

    def _coded(self, name: str) -> Coded:
        return self._table.coded(name)

    def _codes(self, column: Coded) -> npt.NDArray[Any]:
        codes: npt.NDArray[Any] = column.array[self._places]
        return codes

    def _ids(self, kept: Callable[[str, Labels], tuple[Any, ...]], field: str) -> npt.NDArray[np.intp]:
        """An id for each round, equal if stage, that field, and the `kept` labels are."""
        stages, labels, fields = self._coded("stage"), self._coded(LABELS), self._coded(field)
        pairs = self._codes(stages).astype(np.intp) * len(labels.distinct) + self._codes(labels)
        ids: npt.NDArray[np.intp] = self._table.label_ids(kept)[pairs] * len(fields.distinct) + self._codes(
            fields
        )
        return ids
