"""The rounds of one device as columns, so that computing over hundreds of them needs no object for each."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from rigproof.criteria.evidence.readings import Floats
from rigproof.criteria.evidence.spans import Ids, overlaps, unbroken
from rigproof.profiles.kinds.stages import StageKinds
from rigproof.records.columns import Coded, Column, columns_of, floats_of
from rigproof.records.fields import LABELS, kinds_of
from rigproof.records.measurements import Labels, Round
from rigproof.records.rows import Rows

Mask = npt.NDArray[np.bool_]
Places = slice | Ids  # a slice if they are contiguous: then nothing is copied

NAMES = tuple(kind.name for kind in kinds_of(Round))
HICCUP_SHARE = 0.1  # of the rounds: as many may be slow because of the host, which is not the card's fault


class RoundTable:
    """The columns of many rounds, with what is often asked of them."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self.columns = columns
        self._masks: dict[Hashable, Mask] = {}
        self._label_ids: dict[str, Ids] = {}
        self._codes: dict[str, dict[Any, int]] = {}

    def taken(self, places: Places) -> "RoundTable":
        """The rounds at these places, in this order."""
        found = RoundTable({name: column.taken(places) for name, column in self.columns.items()})
        found._label_ids, found._codes = self._label_ids, self._codes  # codes mean the same
        return found

    def coded(self, name: str) -> Coded:
        """A coded column."""
        column = self.columns[name]
        assert isinstance(column, Coded)
        return column

    @cached_property
    def t_s(self) -> Floats:
        """The run time at which each round ended; NaN if it was not recorded (so, too, below)."""
        return floats_of(self.columns["t_s"])

    @cached_property
    def seconds(self) -> Floats:
        """The duration of each round."""
        return floats_of(self.columns["seconds"])

    @cached_property
    def work(self) -> Floats:
        """The work of each round, in its unit."""
        return floats_of(self.columns["work"])

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

    def mask(self, name: str, label: str, values: tuple[Any, ...]) -> Mask:
        """The rounds with one of these values in a field; in their label of that name, if there is one."""
        key = (name, label, values)
        if key not in self._masks:
            column = self.coded(name)
            if label:
                codes = [code for code, one in enumerate(column.distinct) if one.get(label) in values]
            else:  # there may be as many distinct workers as the rig has GPUs
                code_of = self._codes_of(name)
                codes = [code_of[value] for value in values if value in code_of]
            self._masks[key] = column.array == codes[0] if len(codes) == 1 else np.isin(column.array, codes)
        return self._masks[key]

    def where_labels(self, are: Callable[[Labels], object]) -> Mask:
        """The rounds of whose labels this is true."""
        column = self.coded(LABELS)
        found: Mask = np.asarray([bool(are(one)) for one in column.distinct], np.bool_)[column.array]
        return found

    def _codes_of(self, name: str) -> dict[Any, int]:
        """The code of each distinct value of a column."""
        if name not in self._codes:
            self._codes[name] = {value: code for code, value in enumerate(self.coded(name).distinct)}
        return self._codes[name]

    def values(self, labels: tuple[str, ...], places: Places) -> tuple[Ids, list[tuple[Any, ...]]]:
        """An id for each of the rounds at these places, equal if these labels are; their values by id."""
        column = self.coded(LABELS)
        known: dict[tuple[Any, ...], int] = {}
        ids = [known.setdefault(tuple(map(one.get, labels)), len(known)) for one in column.distinct]
        return np.asarray(ids, np.intp)[column.array[places]], list(known)

    def ids(self, kept: Callable[[str, Labels], tuple[Any, ...]], field: str, places: Places) -> Ids:
        """An id for each of the rounds at these places, equal if stage, field, and the `kept` labels are."""
        stages, labels, fields = self.coded("stage"), self.coded(LABELS), self.coded(field)
        pairs = stages.array[places].astype(np.intp) * len(labels.distinct) + labels.array[places]
        ids: Ids = self._ids_of(kept)[pairs] * len(fields.distinct) + fields.array[places]
        return ids

    def _ids_of(self, kept: Callable[[str, Labels], tuple[Any, ...]]) -> Ids:
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


def contiguous(places: Ids) -> Places:
    """These rising places; as a slice if none is left out between the first and the last."""
    if len(places) and places[-1] - places[0] + 1 == len(places):
        return slice(int(places[0]), int(places[-1]) + 1)
    return places


class Rounds:
    """Rounds in the order in which they came: rows of a table that may also hold those of other devices."""

    def __init__(self, table: RoundTable, places: Places) -> None:
        self.table, self.places = table, places

    @classmethod
    def of_subject(cls, rows: Rows[Round], subject: str) -> "Rounds":
        """The rounds of one subject."""
        return cls(RoundTable(rows.columns), rows.places(subject))

    @classmethod
    def of_records(cls, records: Sequence[Round]) -> "Rounds":
        """From records."""
        return cls(RoundTable(columns_of(Round, records)), slice(0, len(records)))

    @classmethod
    def joined(cls, parts: Sequence["Rounds"]) -> "Rounds":
        """Rounds of one table, part after part, in a table of their own."""
        table = parts[0].table
        places = np.concatenate([one.rows for one in parts])
        rising = bool((places[1:] > places[:-1]).all())
        return cls(table.taken(contiguous(places) if rising else places), slice(0, len(places)))

    @property
    def rows(self) -> Ids:
        """The places in the table, (n,)."""
        places = self.places
        return np.arange(places.start, places.stop) if isinstance(places, slice) else places

    @property
    def t_s(self) -> Floats:
        """The run time at which each round ended; NaN if it was not recorded (so, too, below)."""
        return self.table.t_s[self.places]

    @property
    def seconds(self) -> Floats:
        """The duration of each round."""
        return self.table.seconds[self.places]

    @property
    def work(self) -> Floats:
        """The work of each round, in its unit."""
        return self.table.work[self.places]

    @property
    def begins_s(self) -> Floats:
        """The run time at which each round began; NaN if its end and its duration are infinite."""
        return self.table.begins_s[self.places]

    def same(self, name: str, *values: Any) -> Mask:
        """The rounds that have one of these values in that field."""
        return self.table.mask(name, "", values)[self.places]

    def labelled(self, name: str, *values: Any) -> Mask:
        """The rounds whose label of that name is one of these values; None matches rounds without it."""
        return self.table.mask(LABELS, name, values)[self.places]

    def distinct(self, name: str) -> set[Any]:
        """The distinct values of a field."""
        column = self.table.coded(name)
        return {column.distinct[code] for code in set(self._codes(column).tolist())}

    def distinct_labels(self, name: str) -> set[str | int | None]:
        """The distinct values of a label; None if a round has none of that name."""
        column = self.table.coded(LABELS)
        return {column.distinct[code].get(name) for code in set(self._codes(column).tolist())}

    def labels(self, name: str) -> list[Any]:
        """A label of each round; None if it has none of that name."""
        column = self.table.coded(LABELS)
        values = [value.get(name) for value in column.distinct]
        return [values[code] for code in self._codes(column).tolist()]

    def label_numbers(self, name: str) -> Floats:
        """A label of each round that is a number; NaN if it is none."""
        column = self.table.coded(LABELS)
        values = [value.get(name) for value in column.distinct]
        numbers = np.asarray([one if isinstance(one, int | float) else np.nan for one in values], np.float64)
        found: Floats = numbers[self._codes(column)]
        return found

    def work_ids(self, kinds: StageKinds) -> Ids:
        """An id for each round, equal for the same work: stage, unit and the labels that define the work."""
        return self.table.ids(kinds.same_work, "unit", self.places)

    def process_ids(self, kinds: StageKinds) -> Ids:
        """An id for each round, equal for the same process: a worker, or one that a worker has started."""
        return self.table.ids(kinds.same_process, "worker", self.places)

    @cached_property
    def fastest(self) -> dict[str, float]:
        """The rate of the fastest round of each precision; infinite if it took almost no time."""
        column = self.table.coded(LABELS)
        codes, rates = self._codes(column), self.table.rates[self.places]
        found: dict[str, float] = {}
        for code in set(codes.tolist()):
            name = str(column.distinct[code].get("precision"))
            found[name] = max(found.get(name, -np.inf), float(rates[codes == code].max()))
        return dict(sorted(found.items()))

    def processes(self, kinds: StageKinds) -> set[int]:
        """The distinct `process_ids`."""
        return set(self.process_ids(kinds).tolist())

    def without_hiccups(self) -> "Rounds":
        """All but the slowest tenth of the rounds, by rate; all if there are fewer than ten."""
        return self.only(Parts.of(self).fast)

    def rate(self) -> float:
        """Their work over the time that it took, without hiccups of the host, in their unit per second.

        Not the median, which would hide a card that stutters in less than half of its rounds.
        """
        counted = self.without_hiccups()
        return float(counted.work.sum() / counted.seconds.sum())

    def worst_overlap(self, kinds: StageKinds) -> tuple[float, int]:
        """The largest of the `overlaps`, and the place of such a round; 0, 0 if none overlaps."""
        over_s = overlaps(self.process_ids(kinds), self.t_s, self.seconds)
        place = int(over_s.argmax())
        return (float(over_s[place]), place) if over_s[place] > 0 else (0.0, 0)

    def unbroken(self, kinds: StageKinds) -> list[tuple[float, float]]:
        """From when to when rounds of the same work ran, with breaks of at most JOINING_S, in order."""
        alone = np.zeros(len(self), np.intp)
        _, from_s, to_s = unbroken(alone, self.begins_s, self.t_s, self.work_ids(kinds))
        return list(zip(from_s.tolist(), to_s.tolist(), strict=True))

    def all(self, name: str) -> list[Any]:
        """A field of each round."""
        return self._values(name)

    def only(self, mask: Mask) -> "Rounds":
        """The rounds that the mask selects."""
        (found,) = mask.nonzero()
        if len(found) == len(mask):
            return self
        return Rounds(self.table, self._within(contiguous(found)))

    @cached_property
    def measured(self) -> "Rounds":
        """The rounds of a measurement, without those of the warm-up."""
        return self._kept(self.same("phase", "measure"))

    @cached_property
    def verified(self) -> "Rounds":
        """The rounds whose result was compared and correct."""
        return self._kept(self.same("verified", True))

    def _kept(self, mask: Mask) -> "Rounds":
        """As `only`, but never itself: what refers to itself is not freed while no garbage is collected."""
        found = self.only(mask)
        return Rounds(self.table, self.places) if found is self else found

    def records(self) -> list[Round]:
        """All rounds as records."""
        columns = [self._values(name) for name in NAMES]
        return [Round(*row) for row in zip(*columns, strict=True)]

    def __len__(self) -> int:
        """The number of rounds."""
        if isinstance(self.places, slice):
            return int(self.places.stop - self.places.start)
        return len(self.places)

    def _within(self, places: Places) -> Places:
        """Places among these rounds, as places in the table."""
        if not isinstance(self.places, slice):
            return self.places[places]
        begin = self.places.start
        return (
            slice(begin + places.start, begin + places.stop) if isinstance(places, slice) else begin + places
        )

    def _values(self, name: str) -> list[Any]:
        column = self.table.columns[name]
        if isinstance(self.places, slice):
            return column.plain(self.places)
        return column.taken(self.places).plain(slice(None))

    def _codes(self, column: Coded) -> npt.NDArray[Any]:
        codes: npt.NDArray[Any] = column.array[self.places]
        return codes


class Parts:
    """Rounds in parts: those of one group and with the same values of some labels.

    `keys` are the name of the group and the values of each part, in the order in which their first rounds
    came. `rounds` are (n,), part by part, and `part_of` (n,) is the number of each one's part.
    """

    def __init__(self, rounds: Rounds, groups: Ids, names: Sequence[Hashable], *labels: str) -> None:
        """`groups` (n,) are the numbers of the rounds' groups, by which `names` are known."""
        ids, values = rounds.table.values(labels, rounds.places)
        both, first, parts = np.unique(groups * len(values) + ids, return_index=True, return_inverse=True)
        by_first = np.argsort(first)
        parts = np.argsort(by_first)[parts]
        order = np.argsort(parts, kind="stable")
        self.keys = [
            (names[one // len(values)], *values[one % len(values)]) for one in both[by_first].tolist()
        ]
        self.part_of: Ids = parts[order]
        self.rounds = Rounds(rounds.table, rounds.rows[order])
        self.starts: Ids = np.searchsorted(self.part_of, np.arange(len(self.keys) + 1))

    @classmethod
    def of(cls, rounds: Rounds, *labels: str) -> "Parts":
        """Of a single group, whose name is empty."""
        return cls(rounds, np.zeros(len(rounds), np.intp), ("",), *labels)

    @cached_property
    def fast(self) -> Mask:
        """All but the slowest tenth of each part, by rate; all of a part with fewer than ten rounds."""
        slow = (HICCUP_SHARE * (self.starts[1:] - self.starts[:-1])).astype(np.intp)
        order = np.lexsort((self.rounds.table.rates[self.rounds.places], self.part_of))
        fast = np.empty(len(order), np.bool_)
        fast[order] = np.arange(len(order)) >= (self.starts[:-1] + slow)[self.part_of]
        return fast

    def sums(self, values: npt.NDArray[Any]) -> Floats:
        """The sum over the `fast` rounds of each part of these values (n,)."""
        sums = np.bincount(self.part_of[self.fast], values[self.fast], len(self.keys))
        return np.asarray(sums, np.float64)

    def __iter__(self) -> Iterator[Rounds]:
        """The rounds of each part."""
        for begin, end in pairwise(self.starts.tolist()):
            yield Rounds(self.rounds.table, contiguous(self.rounds.rows[begin:end]))
