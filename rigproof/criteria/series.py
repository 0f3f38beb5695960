"""Records of one subject in the order of time, and readings of one field in them."""

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Generic, Protocol, TypeVar

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.windows import Window
from rigproof.records.samples import GpuSample, HostSample

Reading = tuple[float, float]  # run time, value


class Timed(Protocol):
    """A record with a moment and a subject."""

    @property
    def t_s(self) -> float: ...  # noqa: D102
    @property
    def subject(self) -> str: ...  # noqa: D102


Item = TypeVar("Item", bound=Timed)


class Series(Generic[Item]):
    """The records of one subject in the order of time."""

    def __init__(self, items: Iterable[Item] = ()) -> None:
        # A moment that is not a number cannot be put in order, nor into any window.
        self.items = sorted((item for item in items if math.isfinite(item.t_s)), key=attrgetter("t_s"))
        self._times = [item.t_s for item in self.items]

    def within(self, window: Window) -> list[Item]:
        """Those inside the window, its ends included."""
        return self.items[bisect_left(self._times, window.from_s) : bisect_right(self._times, window.to_s)]


def by_subject(items: Iterable[Item]) -> dict[str, Series[Item]]:
    """Records, sorted into one series for each subject."""
    groups: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        groups[item.subject].append(item)
    return {subject: Series(group) for subject, group in groups.items()}


def readings(samples: Sequence[GpuSample] | Sequence[HostSample], field: str) -> list[Reading]:
    """(run time, value) of the samples that have this field. Raises NotMeasured where one is not finite."""
    read = attrgetter(field)
    pairs = [(sample.t_s, value) for sample in samples if (value := read(sample)) is not None]
    if not all(math.isfinite(value) for _, value in pairs):
        raise NotMeasured(f"a reading of {field} is not a finite number")
    return pairs
