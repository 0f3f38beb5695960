"""The rounds of one device as columns: what is asked of hundreds of them at once needs no object for each."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from rigproof.records.measurements import Round
from rigproof.records.rows import Column, Lists, Numbers, Rows, Words

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

NAMES = tuple(field.name for field in fields(Round))
MEASURED = ("t_s", "seconds", "tflop")  # whatever was reported, finite or not; all others are words


class Rounds:
    """Rounds in the order in which they came: rows of columns, which may hold those of other devices too."""

    def __init__(
        self,
        columns: Mapping[str, Column],
        places: npt.NDArray[np.intp],
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
        return cls(columns, np.arange(len(records)), records)

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
        """Run time of each one's begin."""
        return self.t_s - self.seconds

    def same(self, name: str, *values: Any) -> Mask:
        """Which have one of these values in that field."""
        column = self._columns[name]
        assert isinstance(column, Words)
        found = column.array[self._places]
        wanted = np.zeros(len(found), np.bool_)
        for code, word in enumerate(column.words):
            if word in values:
                wanted |= found == code
        return wanted

    def distinct(self, name: str) -> set[Any]:
        """The values of a field."""
        column = self._columns[name]
        assert isinstance(column, Words)
        return {column.words[code] for code in np.unique(column.array[self._places]).tolist()}

    def all(self, name: str) -> list[Any]:
        """A field of each."""
        return self._columns[name].taken(self._places).plain(slice(None))

    def only(self, which: Mask) -> "Rounds":
        """These of them."""
        return Rounds(self._columns, self._places[which], self._records)

    def verified(self) -> "Rounds":
        """Those whose result was compared and right."""
        return self.only(self.same("verified", True))

    def records(self) -> list[Round]:
        """All, made where they are not there."""
        if self._records is not None:
            return [self._records[place] for place in self._places.tolist()]
        told = [self._columns[name].taken(self._places).plain(slice(None)) for name in NAMES]
        return [Round(*row) for row in zip(*told, strict=True)]

    def __len__(self) -> int:
        """How many."""
        return len(self._places)

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
