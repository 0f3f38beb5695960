"""When rounds ran, as arrays: by how much they overlap, and which of them are one stretch of load."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from rigproof.criteria.evidence.readings import Floats

# Rounds that a device may have finished ahead of its reports: two in its queue, and the one being reported.
QUEUED_ROUNDS = 3
CLOCKS_APART = 1e-3  # the relative difference between a device's clock and the host's
JOINING_S = 0.25  # rounds that are no further apart belong to one stretch of load
Ids = npt.NDArray[np.intp]


class Grouped:
    """Values (n,) of which those of one group adjoin; all groups are cumulated at once, each by itself."""

    def __init__(self, groups: Ids) -> None:
        begins = np.ones(len(groups), np.bool_)
        begins[1:] = groups[1:] != groups[:-1]
        (self._first,) = begins.nonzero()
        self._row = np.cumsum(begins) - 1
        self._column = np.arange(len(groups)) - self._first[self._row]

    def cumulated(self, cumulate: Callable[..., Floats], values: Floats) -> Floats:
        """The values cumulated in each group from its first to its last, (n,)."""
        rows = np.zeros((len(self._first), self._column.max(initial=-1) + 1))
        rows[self._row, self._column] = values
        found: Floats = cumulate(rows, axis=1)[self._row, self._column]
        return found

    def highest(self, values: Floats) -> Floats:
        """The highest value of each one's group, (n,)."""
        found: Floats = np.maximum.reduceat(values, self._first)[self._row]
        return found


def overlaps(processes: Ids, t_s: Floats, seconds: Floats) -> Floats:
    """By how much each round overlaps others of its process, in seconds; none if it is not positive.

    A round is reported after its end; while the host is late, the device continues with its queue. So a
    round counts as begun when the one before had ended, and may exceed the time of its report by what
    was queued, however often the host is late. `CLOCKS_APART` allows for the difference of the clocks.
    Two rounds that end at the same moment are one that was reported twice.
    """
    order = np.lexsort((t_s, processes))
    own, t_s, seconds = processes[order], t_s[order], seconds[order] * (1 - CLOCKS_APART)
    each = Grouped(own)
    done_s = each.cumulated(np.cumsum, seconds)
    idle_s = each.cumulated(np.maximum.accumulate, t_s - done_s)
    over_s = done_s + idle_s - t_s - QUEUED_ROUNDS * each.highest(seconds)
    twice = (own[1:] == own[:-1]) & (t_s[1:] == t_s[:-1])
    over_s[1:] = np.maximum(over_s[1:], np.where(twice, seconds[1:], -np.inf))
    found = np.empty_like(over_s)
    found[order] = over_s
    return found


def unbroken(
    groups: Ids, begins_s: Floats, ends_s: Floats, work: Ids, joining_s: float | Floats = JOINING_S
) -> tuple[Ids, Floats, Floats]:
    """From when to when rounds of one group and work ran, with breaks of at most `joining_s`.

    The group, begin and end of each such stretch, in order.
    """
    order = np.lexsort((begins_s, groups))
    groups, begins_s, ends_s, work = groups[order], begins_s[order], ends_s[order], work[order]
    ends_s = Grouped(groups).cumulated(np.maximum.accumulate, ends_s)
    joining_s = np.broadcast_to(joining_s, order.shape)[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (groups[1:] != groups[:-1]) | (work[1:] != work[:-1])
    first[1:] |= begins_s[1:] > ends_s[:-1] + joining_s[1:]
    last = np.append(first[1:], True)[: len(order)]
    return groups[first], begins_s[first], ends_s[last]
