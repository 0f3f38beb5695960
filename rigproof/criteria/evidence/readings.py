"""Readings of one sensor over time, as two lists: most users need only the times or only the values."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

Reading = tuple[float, Any]  # run time, value


class Readings(Sequence[Reading]):
    """(run time, value) pairs in the order of time; `times_s` and `values` have one half each."""

    __slots__ = ("times_s", "values")

    def __init__(self, times_s: list[float], values: list[Any]) -> None:
        self.times_s, self.values = times_s, values

    @classmethod
    def of_pairs(cls, pairs: Iterable[Reading]) -> "Readings":
        """From pairs that are already in the order of time."""
        pairs = list(pairs)
        return cls([t_s for t_s, _ in pairs], [value for _, value in pairs])

    def known(self) -> "Readings":
        """The readings that have a value."""
        return Readings.of_pairs(pair for pair in self if pair[1] is not None)

    def __len__(self) -> int:
        """The number of readings."""
        return len(self.values)

    def __iter__(self) -> Iterator[Reading]:
        """The pairs."""
        return zip(self.times_s, self.values, strict=True)

    @overload
    def __getitem__(self, place: int) -> Reading: ...
    @overload
    def __getitem__(self, place: slice) -> "Readings": ...
    def __getitem__(self, place: int | slice) -> "Reading | Readings":
        """One pair, or the readings of a slice."""
        if isinstance(place, slice):
            return Readings(self.times_s[place], self.values[place])
        return self.times_s[place], self.values[place]
