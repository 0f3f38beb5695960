"""The rounds of one device as columns: what is asked of hundreds of them at once needs no object for each."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rigproof.profiles.kinds.stages import StageKinds
from rigproof.records.fields import LABELS, kinds_of
from rigproof.records.measurements import Labels, Round
from rigproof.records.rows import Column, Rows, Words, columns_of, floats_of

QUEUED_ROUNDS = (
    3  # that a device may have done ahead of what was told: two in its queue, and the one that is told
)
CLOCKS_APART = 1e-3  # a device's clock and the host's
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Places = slice | npt.NDArray[np.intp]  # a slice where they adjoin: then nothing is copied

NAMES = tuple(kind.name for kind in kinds_of(Round))
HICCUP_SHARE = 0.1  # of the rounds: so many may be slow by the host's fault, of which the card knows nothing
JOINING_S = 0.25  # rounds that are no further apart belong to one stretch of load


class Rounds:
    """Rounds in the order in which they came: rows of columns, which may hold those of other devices too."""

    def __init__(
        self,
        columns: Mapping[str, Column],
        places: Places,
    ) -> None:
        self._columns, self._places = columns, places

    @classmethod
    def of_subject(cls, rows: Rows[Round], subject: str) -> "Rounds":
        """Those of one subject."""
        return cls(rows.columns, rows.places(subject))

    @classmethod
    def of_records(cls, records: Sequence[Round]) -> "Rounds":
        """These."""
        return cls(columns_of(Round, records), slice(0, len(records)))

    @property
    def t_s(self) -> Floats:
        """Run time of each one's end; not a number where none was told, as below."""
        return self._floats("t_s")

    @property
    def seconds(self) -> Floats:
        """How long each took."""
        return self._floats("seconds")

    @property
    def work(self) -> Floats:
        """The work of each, in its unit."""
        return self._floats("work")

    @property
    def begins_s(self) -> Floats:
        """Run time of each one's begin; not a number where an end or a length is infinite."""
        with np.errstate(invalid="ignore"):
            return self.t_s - self.seconds

    def same(self, name: str, *values: Any) -> Mask:
        """Which have one of these values in that field."""
        column = self._words(name)
        which: Mask = column.same(lambda word: word in values)[self._codes(column)]
        return which

    def labelled(self, name: str, *values: Any) -> Mask:
        """Which have one of these values as that label; None: those that have no such label."""
        column = self._words(LABELS)
        which: Mask = column.same(lambda word: word.get(name) in values)[self._codes(column)]
        return which

    def distinct(self, name: str) -> set[Any]:
        """The values of a field."""
        column = self._words(name)
        return {column.words[code] for code in set(self._codes(column).tolist())}

    def distinct_labels(self, name: str) -> set[str | int | None]:
        """The values of a label; None where a round has none of that name."""
        column = self._words(LABELS)
        return {column.words[code].get(name) for code in set(self._codes(column).tolist())}

    def labels(self, name: str) -> list[Any]:
        """A label of each; None where it has none of that name."""
        column = self._words(LABELS)
        told = [word.get(name) for word in column.words]
        return [told[code] for code in self._codes(column).tolist()]

    def works(self, kinds: StageKinds) -> npt.NDArray[np.intp]:
        """A number for each, equal where stage, unit and the labels are that make rounds the same work."""
        return self._alike(kinds.same_work, "unit")

    def doers(self, kinds: StageKinds) -> npt.NDArray[np.intp]:
        """A number for each, equal where one process did them: a worker, or one that a worker has started."""
        return self._alike(kinds.same_process, "worker")

    def fastest(self) -> dict[str, float]:
        """The rate of the fastest one of each precision; infinite where its time is next to none."""
        with np.errstate(over="ignore"):
            rates = self.work / self.seconds
        told = {str(one): one for one in self.distinct_labels("precision")}
        return {name: float(rates[self.labelled("precision", told[name])].max()) for name in sorted(told)}

    def without_hiccups(self) -> "Rounds":
        """All but the slowest tenth of them, by rate; all of fewer than ten."""
        rates = self.work / self.seconds
        fast = np.ones(len(rates), np.bool_)
        fast[np.argsort(rates, kind="stable")[: int(HICCUP_SHARE * len(rates))]] = False
        return self.only(fast)

    def rate(self) -> float:
        """Their work over the time that it took, without hiccups of the host, in their unit a second.

        No median: a card that stutters in less than half of its rounds would hide behind it.
        """
        counted = self.without_hiccups()
        return float(counted.work.sum() / counted.seconds.sum())

    def surplus(self, kinds: StageKinds) -> tuple[float, int]:
        """By how many seconds rounds of one process overlap at most, and the place of such a round.

        A round is told after its end, and while the host is late the device goes on with what is queued. So
        a round counts as begun when the one before had ended, and may end later than it was told by what was
        queued, however often the host is late. `CLOCKS_APART` of each is the difference of the two clocks.
        Two that end at the same moment are one that was told twice.
        """
        doers, t_s, seconds = self.doers(kinds), self.t_s, self.seconds * (1 - CLOCKS_APART)
        most, place = 0.0, 0
        for doer in set(doers.tolist()):
            (own,) = (doers == doer).nonzero()
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
        works = self.works(kinds)[order]
        apart = (begins_s[1:] > ends_s[:-1] + JOINING_S) | (works[1:] != works[:-1])
        first = np.concatenate(([0], np.flatnonzero(apart) + 1))
        last = np.concatenate((first[1:] - 1, [len(begins_s) - 1]))
        return list(zip(begins_s[first].tolist(), ends_s[last].tolist(), strict=True))

    def all(self, name: str) -> list[Any]:
        """A field of each."""
        return self._told(name)

    def only(self, which: Mask) -> "Rounds":
        """These of them."""
        if which.all():
            return self
        (found,) = which.nonzero()
        adjoin = len(found) and found[-1] - found[0] + 1 == len(found)
        places = slice(int(found[0]), int(found[-1]) + 1) if adjoin else found
        return Rounds(self._columns, self._within(places))

    def verified(self) -> "Rounds":
        """Those whose result was compared and right."""
        return self.only(self.same("verified", True))

    def records(self) -> list[Round]:
        """All, made."""
        told = [self._told(name) for name in NAMES]
        return [Round(*row) for row in zip(*told, strict=True)]

    def __len__(self) -> int:
        """How many."""
        if isinstance(self._places, slice):
            return int(self._places.stop - self._places.start)
        return len(self._places)

    def _within(self, places: Places) -> Places:
        """Places among these, as places in the columns."""
        if not isinstance(self._places, slice):
            return self._places[places]
        begin = self._places.start
        return (
            slice(begin + places.start, begin + places.stop) if isinstance(places, slice) else begin + places
        )

    def _told(self, name: str) -> list[Any]:
        column = self._columns[name]
        if isinstance(self._places, slice):
            return column.plain(self._places)
        return column.taken(self._places).plain(slice(None))

    def _floats(self, name: str) -> Floats:
        return floats_of(self._columns[name].taken(self._places))

    def _words(self, name: str) -> Words:
        column = self._columns[name]
        assert isinstance(column, Words)
        return column

    def _codes(self, column: Words) -> npt.NDArray[Any]:
        codes: npt.NDArray[Any] = column.array[self._places]
        return codes

    def _alike(self, kept: Callable[[str, Labels], tuple[Any, ...]], field: str) -> npt.NDArray[np.intp]:
        """A number for each, equal where stage, that field, and what is `kept` of the labels are."""
        stages, labels, fields = self._words("stage"), self._words(LABELS), self._words(field)
        codes = (self._codes(stages), self._codes(labels), self._codes(fields))
        by_labels, by_field = max(1, len(labels.words)), max(1, len(fields.words))
        together = (codes[0].astype(np.int64) * by_labels + codes[1]) * by_field + codes[2]
        pairs, places = np.unique(together, return_inverse=True)
        numbers: dict[tuple[Any, ...], int] = {}
        number_of = []
        for pair in pairs.tolist():
            rest, third = divmod(pair, by_field)
            first, second = divmod(rest, by_labels)
            stage = stages.words[first]
            key = (stage, third, kept(stage, labels.words[second]))
            number_of.append(numbers.setdefault(key, len(numbers)))
        return np.asarray(number_of, np.intp)[places]
