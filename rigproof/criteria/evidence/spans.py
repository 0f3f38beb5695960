"""When rounds ran, as arrays: by how much they overlap, and which of them are one stretch of load."""

import numpy as np
import numpy.typing as npt

from rigproof.criteria.evidence.readings import Floats

# Rounds that a device may have finished ahead of its reports: two in its queue, and the one being reported.
QUEUED_ROUNDS = 3
CLOCKS_APART = 1e-3  # the relative difference between a device's clock and the host's
JOINING_S = 0.25  # rounds that are no further apart belong to one stretch of load
Ids = npt.NDArray[np.intp]


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
