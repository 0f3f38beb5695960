"""The rounds of one device as columns: what is asked of hundreds of them at once needs no object for each."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rigproof.profiles.kinds.stages import StageKinds
from rigproof.records.fields import LABELS, kinds_of
from rigproof.records.measurements import Labels, Round
from rigproof.records.rows import Column, Rows, Words, columns_of, floats_at

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


class RoundTable:
    """The columns of many rounds, and what is asked of their few words again and again."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self.columns = columns
        self._which: dict[Hashable, npt.NDArray[np.bool_]] = {}
        self._numbers: dict[str, npt.NDArray[np.intp]] = {}

    def words(self, name: str) -> Words:
        """A column of words."""
        column = self.columns[name]
        assert isinstance(column, Words)
        return column

    def which(self, name: str, label: str, values: tuple[Any, ...]) -> npt.NDArray[np.bool_]:
        """Of each word of a column, or of one label in it, whether it is one of these values."""
        key = (name, label, values)
        if key not in self._which:
            words = self.words(name).words
            told = (word.get(label) for word in words) if label else words
            self._which[key] = np.asarray([one in values for one in told], np.bool_)
        return self._which[key]

    def numbers(self, kept: Callable[[str, Labels], tuple[Any, ...]]) -> npt.NDArray[np.intp]:
        """By the codes of stage and labels, numbers that are equal where the stage and what is kept are."""
        if kept.__name__ not in self._numbers:
            found: dict[tuple[Any, ...], int] = {}
            numbers = [
                found.setdefault((stage, kept(stage, labels)), len(found))
                for stage in self.words("stage").words
                for labels in self.words(LABELS).words
            ]
            self._numbers[kept.__name__] = np.asarray(numbers, np.intp)
        return self._numbers[kept.__name__]


class Rounds:
    """Rounds in the order in which they came: rows of a table, which may hold those of other devices too."""

    def __init__(self, table: RoundTable, places: Places) -> None:
        self._table, self._places = table, places

    @classmethod
    def of_subject(cls, rows: Rows[Round], subject: str) -> "Rounds":
        """Those of one subject."""
        return cls(RoundTable(rows.columns), rows.places(subject))

    @classmethod
    def of_records(cls, records: Sequence[Round]) -> "Rounds":
        """These."""
        return cls(RoundTable(columns_of(Round, records)), slice(0, len(records)))

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
        which: Mask = self._table.which(name, "", values)[self._codes(self._words(name))]
        return which

    def labelled(self, name: str, *values: Any) -> Mask:
        """Which have one of these values as that label; None: those that have no such label."""
        which: Mask = self._table.which(LABELS, name, values)[self._codes(self._words(LABELS))]
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
        return Rounds(self._table, self._within(places))

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
        column = self._table.columns[name]
        if isinstance(self._places, slice):
            return column.plain(self._places)
        return column.taken(self._places).plain(slice(None))

    def _floats(self, name: str) -> Floats:
        return floats_at(self._table.columns[name], self._places)

    def _words(self, name: str) -> Words:
        return self._table.words(name)

    def _codes(self, column: Words) -> npt.NDArray[Any]:
        codes: npt.NDArray[Any] = column.array[self._places]
        return codes

    def _alike(self, kept: Callable[[str, Labels], tuple[Any, ...]], field: str) -> npt.NDArray[np.intp]:
        """A number for each, equal where stage, that field, and what is `kept` of the labels are."""
        stages, labels, fields = self._words("stage"), self._words(LABELS), self._words(field)
        pairs = self._codes(stages).astype(np.intp) * len(labels.words) + self._codes(labels)
        numbers = self._table.numbers(kept)[pairs]
        alike: npt.NDArray[np.intp] = numbers * len(fields.words) + self._codes(fields)
        return alike
