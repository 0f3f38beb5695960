"""The rounds of one device as columns, so that computing over hundreds of them needs no object for each."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from rigproof.criteria.evidence.series import Floats
from rigproof.profiles.kinds.stages import StageKinds
from rigproof.records.columns import Coded, Column, columns_of, floats_of
from rigproof.records.fields import LABELS, kinds_of
from rigproof.records.measurements import Labels, Round
from rigproof.records.rows import Rows

# Rounds that a device may have finished ahead of its reports: two in its queue, and the one being reported.
QUEUED_ROUNDS = 3
CLOCKS_APART = 1e-3  # the relative difference between a device's clock and the host's
FEWEST_ROUNDS = 3  # a rate of fewer would be a single reading
JOINING_S = 0.25  # rounds that are no further apart belong to one stretch of load
Ids = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]
NAMES = tuple(kind.name for kind in kinds_of(Round))
HICCUP_SHARE = 0.1  # of the rounds: as many may be slow because of the host, which is not the card's fault


def overlaps(processes: Ids, t_s: Floats, seconds: Floats) -> Floats:
    """By how much each round overlaps others of its process, in seconds; none if it is not positive.

    A round is reported after its end; while the host is late, the device continues with its queue. So a
    round counts as begun when the one before had ended, and may exceed the time of its report by what
    was queued, however often the host is late. `CLOCKS_APART` allows for the difference of the clocks.
    Two rounds that end at the same moment are one that was reported twice.
    """
    found = np.empty_like(t_s)
    for process in np.unique(processes):
        (own,) = (processes == process).nonzero()
        own = own[np.argsort(t_s[own], kind="stable")]
        ends_s, lasted_s = t_s[own], seconds[own] * (1 - CLOCKS_APART)
        done_s = np.cumsum(lasted_s)
        idle_s = np.maximum.accumulate(ends_s - done_s)
        over_s = done_s + idle_s - ends_s - QUEUED_ROUNDS * lasted_s.max()
        twice = ends_s[1:] == ends_s[:-1]
        over_s[1:] = np.maximum(over_s[1:], np.where(twice, lasted_s[1:], -np.inf))
        found[own] = over_s
    return found


def unbroken(
    begins_s: Floats, ends_s: Floats, work: Ids, joining_s: float = JOINING_S
) -> list[tuple[float, float]]:
    """From when to when rounds of the same work ran, with breaks of at most `joining_s`, in order.

    `work` (n,) has an id for each round, equal for the same work.
    """
    order = np.argsort(begins_s, kind="stable")
    begins_s, work = begins_s[order], work[order]
    ends_s = np.maximum.accumulate(ends_s[order])
    first = np.ones(len(order), np.bool_)
    first[1:] = (work[1:] != work[:-1]) | (begins_s[1:] > ends_s[:-1] + joining_s)
    last = np.append(first[1:], True)[: len(order)]
    return list(zip(begins_s[first].tolist(), ends_s[last].tolist(), strict=True))


class Rounds:
    """Rounds in the order in which they came."""

    def __init__(self, columns: Mapping[str, Column], places: Ids | None = None) -> None:
        """`places` of these rounds in the columns; by default all."""
        self._columns, self._places = columns, places

    @classmethod
    def of_subject(cls, rows: Rows[Round], subject: str) -> "Rounds":
        """The rounds of one subject."""
        places = rows.places(subject)
        own = {name: column.taken(places) for name, column in rows.columns.items()}
        return cls({name: one.compact() if isinstance(one, Coded) else one for name, one in own.items()})

    @classmethod
    def of_records(cls, records: Sequence[Round]) -> "Rounds":
        """The columns of these records."""
        return cls(columns_of(Round, records))

    def _column(self, name: str) -> Column:
        return self._columns[name] if self._places is None else self._columns[name].taken(self._places)

    @cached_property
    def t_s(self) -> Floats:
        """The run time at which each round ended; NaN if it was not recorded (so, too, below)."""
        return floats_of(self._column("t_s"))

    @cached_property
    def seconds(self) -> Floats:
        """The duration of each round."""
        return floats_of(self._column("seconds"))

    @cached_property
    def work(self) -> Floats:
        """The work of each round, in its unit."""
        return floats_of(self._column("work"))

    @cached_property
    def begins_s(self) -> Floats:
        """The run time at which each round began; NaN if its end and its duration are infinite."""
        with np.errstate(invalid="ignore"):
            return self.t_s - self.seconds

    @cached_property
    def rates(self) -> Floats:
        """The rate of each round, in its unit per second; infinite if it took almost no time."""
        with np.errstate(all="ignore"):  # a round is checked before its rate counts
            return self.work / self.seconds

    def coded(self, name: str) -> Coded:
        """A column with few distinct values."""
        column = self._column(name)
        assert isinstance(column, Coded)
        return column

    def _where(self, name: str, accepts: Callable[[Any], object]) -> Mask:
        """The rounds whose value in that field is accepted."""
        column = self.coded(name)
        found: Mask = column.same(accepts)[column.array]
        return found

    def same(self, name: str, *values: Any) -> Mask:
        """The rounds that have one of these values in that field."""
        return self._where(name, values.__contains__)

    def labelled(self, name: str, *values: Any) -> Mask:
        """The rounds whose label of that name is one of these values; None matches rounds without it."""
        return self._where(LABELS, lambda labels: labels.get(name) in values)

    def having(self, **labels: Any) -> "Rounds":
        """The rounds with these labels."""
        return self.only(np.logical_and.reduce([self.labelled(*label) for label in labels.items()]))

    def where_labels(self, are: Callable[[Labels], object]) -> Mask:
        """The rounds of whose labels this is true."""
        return self._where(LABELS, are)

    def distinct(self, name: str) -> set[Any]:
        """The distinct values of a field."""
        column = self.coded(name)
        return {column.distinct[code] for code in set(column.array.tolist())}

    def distinct_labels(self, name: str) -> set[str | int | None]:
        """The distinct values of a label; None if a round has none of that name."""
        return set(self.labels(name))

    def labels(self, name: str) -> list[Any]:
        """A label of each round; None if it has none of that name."""
        return [labels.get(name) for labels in self.all(LABELS)]

    def label_numbers(self, name: str) -> Floats:
        """A label of each round that is a number; NaN if it is none."""
        values = self.labels(name)
        return np.asarray([one if isinstance(one, int | float) else np.nan for one in values], np.float64)

    def work_ids(self, kinds: StageKinds) -> Ids:
        """An id for each round, equal for the same work: stage, unit and the labels that define the work."""
        return self._ids(kinds.same_work, "unit")

    def process_ids(self, kinds: StageKinds) -> Ids:
        """An id for each round, equal for the same process: a worker, or one that a worker has started."""
        return self._ids(kinds.same_process, "worker")

    def _ids(self, which: Callable[[str, Labels], tuple[Any, ...]], field: str) -> Ids:
        """An id for each round, equal if its stage, that field, and `which` of its labels are."""
        columns = [self.coded(name) for name in ("stage", LABELS, field)]
        shape = [max(1, len(one.distinct)) for one in columns]
        codes = np.ravel_multi_index([one.array for one in columns], shape)
        occur, places = np.unique(codes, return_inverse=True)
        known: dict[Any, int] = {}
        ids = []
        for row in zip(*(one.tolist() for one in np.unravel_index(occur, shape)), strict=True):
            stage, labels, value = (one.distinct[code] for one, code in zip(columns, row, strict=True))
            ids.append(known.setdefault((stage, which(stage, labels), value), len(known)))
        return np.asarray(ids, np.intp)[places]

    @cached_property
    def fastest(self) -> dict[str, float]:
        """The rate of the fastest round of each precision; infinite if it took almost no time."""
        found: dict[str, float] = {}
        for name, rate in zip(map(str, self.labels("precision")), self.rates.tolist(), strict=True):
            found[name] = max(found.get(name, -np.inf), rate)
        return dict(sorted(found.items()))

    def processes(self, kinds: StageKinds) -> set[int]:
        """The numbers of the processes that did these rounds (`process_ids`)."""
        return set(self.process_ids(kinds).tolist())

    def by_labels(self, *names: str) -> "dict[tuple[Any, ...], Rounds]":
        """The rounds by the values of these labels, in the order in which their first rounds came."""
        keys = list(zip(*map(self.labels, names), strict=True)) if names else [()] * len(self)
        return {key: self.only(np.asarray([one == key for one in keys])) for key in dict.fromkeys(keys)}

    def without_hiccups(self) -> "Rounds":
        """All but the slowest tenth of the rounds, by rate; all if there are fewer than ten."""
        fast = np.ones(len(self), np.bool_)
        fast[np.argsort(self.rates, kind="stable")[: int(HICCUP_SHARE * len(self))]] = False
        return self.only(fast)

    def rate(self) -> float:
        """Their work over the time that it took, without hiccups of the host, in their unit per second.

        Not the median, which would hide a card that stutters in less than half of its rounds.
        """
        counted = self.without_hiccups()
        return float(counted.work.sum() / counted.seconds.sum())

    def unbroken(self, kinds: StageKinds) -> list[tuple[float, float]]:
        """From when to when rounds of the same work ran, with breaks of at most JOINING_S, in order."""
        return unbroken(self.begins_s, self.t_s, self.work_ids(kinds))

    def during(self, spans: Sequence[tuple[float, float]]) -> "Rounds":
        """The rounds whose middle is in one of these spans of run time."""
        middle_s = self.t_s - self.seconds / 2
        inside = np.zeros(len(self), np.bool_)
        for from_s, to_s in spans:
            inside |= (from_s <= middle_s) & (middle_s <= to_s)
        return self.only(inside)

    @cached_property
    def host_paced(self) -> bool:
        """Whether their pace is the host's: the device waited for it in at least half of them."""
        return 0 < len(self) <= 2 * int(self.same("host_paced", True).sum())

    def all(self, name: str) -> list[Any]:
        """A field of each round."""
        return self._column(name).plain(slice(None))

    def only(self, mask: Mask) -> "Rounds":
        """The rounds that the mask selects."""
        if mask.all():
            return self
        (places,) = mask.nonzero()
        return Rounds(self._columns, places if self._places is None else self._places[places])

    @property
    def measured(self) -> "Rounds":
        """The rounds of a measurement, without those of the warm-up."""
        return self.only(self.same("phase", "measure"))

    @property
    def verified(self) -> "Rounds":
        """The rounds whose result was compared and correct."""
        return self.only(self.same("verified", True))

    def records(self) -> list[Round]:
        """All rounds as records."""
        return [Round(*row) for row in zip(*map(self.all, NAMES), strict=True)]

    def __len__(self) -> int:
        """The number of rounds."""
        return len(self.t_s)
