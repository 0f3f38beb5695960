"""The rounds of one device as columns: what is asked of hundreds of them at once needs no object for each."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from rigproof.records.measurements import Round
from rigproof.records.rows import Column, Lists, Numbers, Rows, Words

QUEUED_ROUNDS = (
    3  # that a device may have done ahead of what was told: two in its queue, and the one that is told
)
CLOCKS_APART = 1e-3  # a device's clock and the host's
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Places = slice | npt.NDArray[np.intp]  # a slice where they adjoin: then nothing is copied

NAMES = tuple(field.name for field in fields(Round))
MEASURED = ("t_s", "seconds", "tflop")  # whatever was reported, finite or not; all others are words
HICCUP_SHARE = 0.1  # of the rounds: so many may be slow by the host's fault, of which the card knows nothing
JOINING_S = 0.25  # rounds that are no further apart belong to one stretch of load


class Rounds:
    """Rounds in the order in which they came: rows of columns, which may hold those of other devices too."""

    def __init__(
        self,
        columns: Mapping[str, Column],
        places: Places,
        records: Sequence[Round] | None = None,
    ) -> None:
        self._columns, self._places, self._records = columns, places, records

    @classmethod
    def of_subject(cls, rows: Rows[Round], subject: str) -> "Rounds":
        """Those of one subject. Records that were added since must be none (`Rows.moments`)."""
        return cls(rows.columns, rows.places(subject))

    @classmethod
    def of_records(cls, records: Sequence[Round]) -> "Rounds":
        """These."""
        told = {name: [getattr(one, name) for one in records] for name in NAMES}
        columns: dict[str, Column] = {
            name: Numbers(np.asarray(values, np.float64)) if name in MEASURED else _words(values)
            for name, values in told.items()
        }
        return cls(columns, slice(0, len(records)), records)

    @property
    def t_s(self) -> Floats:
        """Run time of each one's end; not a number where none was told, as below."""
        return self._floats("t_s")

    @property
    def seconds(self) -> Floats:
        """How long each took."""
        return self._floats("seconds")

    @property
    def tflop(self) -> Floats:
        """The work of each."""
        return self._floats("tflop")

    @property
    def begins_s(self) -> Floats:
        """Run time of each one's begin; not a number where an end or a length is infinite."""
        with np.errstate(invalid="ignore"):
            return self.t_s - self.seconds

    def same(self, name: str, *values: Any) -> Mask:
        """Which have one of these values in that field."""
        column = self._columns[name]
        assert isinstance(column, Words)
        found = column.array[self._places]
        first, *others = [code for code, word in enumerate(column.words) if word in values] or [-1]
        wanted: Mask = found == first
        for code in others:
            wanted |= found == code
        return wanted

    def distinct(self, name: str) -> set[Any]:
        """The values of a field."""
        column = self._columns[name]
        assert isinstance(column, Words)
        return {column.words[code] for code in set(column.array[self._places].tolist())}

    def kinds(self) -> npt.NDArray[np.intp]:
        """A number for each, equal where precision and the part before `#` are: rounds of the same work."""
        parts, precisions = self._columns["part"], self._columns["precision"]
        assert isinstance(parts, Words)
        assert isinstance(precisions, Words)
        bases: dict[str, int] = {}
        base_of = [bases.setdefault(str(word).partition("#")[0], len(bases)) for word in parts.words]
        part = np.asarray(base_of, np.intp)[parts.array[self._places]]
        found: npt.NDArray[np.intp] = part * len(precisions.words) + precisions.array[self._places]
        return found

    def fastest(self) -> dict[str, float]:
        """TFLOP/s of the fastest one of each precision; infinite where its time is next to none."""
        with np.errstate(over="ignore"):
            rates = self.tflop / self.seconds
        precisions = sorted(self.distinct("precision"))
        return {one: float(rates[self.same("precision", one)].max()) for one in precisions}

    def without_hiccups(self) -> "Rounds":
        """All but the slowest tenth of them, by rate; all of fewer than ten."""
        rates = self.tflop / self.seconds
        fast = np.ones(len(rates), np.bool_)
        fast[np.argsort(rates, kind="stable")[: int(HICCUP_SHARE * len(rates))]] = False
        return self.only(fast)

    def rate(self) -> float:
        """TFLOP/s: their work over the time that it took, without hiccups of the host.

        No median: a card that stutters in less than half of its rounds would hide behind it.
        """
        counted = self.without_hiccups()
        return float(counted.tflop.sum() / counted.seconds.sum())

    def doers(self) -> npt.NDArray[np.intp]:
        """A number for each, equal where one process did them: a worker, or one of those that its part names.

        Such a part is `workers=2#0`.
        """
        parts, workers = self._columns["part"], self._columns["worker"]
        assert isinstance(parts, Words)
        assert isinstance(workers, Words)
        process_of = [code + 1 if "#" in str(word) else 0 for code, word in enumerate(parts.words)]
        process = np.asarray(process_of, np.intp)[parts.array[self._places]]
        found: npt.NDArray[np.intp] = process * len(workers.words) + workers.array[self._places]
        return found

    def surplus(self) -> tuple[float, int]:
        """By how many seconds rounds of one process overlap at most, and the place of such a round.

        A round is told after its end, and while the host is late the device goes on with what is queued. So
        a round counts as begun when the one before had ended, and may end later than it was told by what was
        queued, however often the host is late. `CLOCKS_APART` of each is the difference of the two clocks.
        Two that end at the same moment are one that was told twice.
        """
        doers, t_s, seconds = self.doers(), self.t_s, self.seconds * (1 - CLOCKS_APART)
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

    def unbroken(self) -> list[tuple[float, float]]:
        """From when to when rounds of the same work ran, with breaks of at most JOINING_S, in order."""
        order = np.argsort(self.begins_s, kind="stable")
        begins_s, ends_s = self.begins_s[order], np.maximum.accumulate(self.t_s[order])
        kinds = self.kinds()[order]
        apart = (begins_s[1:] > ends_s[:-1] + JOINING_S) | (kinds[1:] != kinds[:-1])
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
        return Rounds(self._columns, self._within(places), self._records)

    def verified(self) -> "Rounds":
        """Those whose result was compared and right."""
        return self.only(self.same("verified", True))

    def records(self) -> list[Round]:
        """All, made where they are not there."""
        if self._records is not None:
            return [self._records[place] for place in np.arange(len(self._records))[self._places].tolist()]
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
        column = self._columns[name]
        assert not isinstance(column, Lists)
        found = column.array[self._places]
        return found if isinstance(column, Numbers) else np.asarray(column.numbers[found])


def _words(values: Sequence[Any]) -> Words:
    codes: dict[Any, int] = {}
    # True is 1 and 1.0 too: a column has one type, so nothing is taken for another.
    places = [codes.setdefault(value, len(codes)) for value in values]
    return Words(np.asarray(places, np.intp), list(codes))
