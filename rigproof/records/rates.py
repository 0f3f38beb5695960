"""The rate of work that goes on, from the rounds that ended lately."""

from collections.abc import Sequence

from rigproof.records.measurements import TFLOP, Round

RECENT_S = 5.0


def rate_of(rounds: Sequence[Round]) -> float | None:
    """TFLOP/s of one device's rounds that ended within RECENT_S of the newest, all workers together.

    Work over the time from the first such round's begin to the last one's end. Rounds of other work have no
    rate in this unit.
    """
    rounds = [one for one in rounds if one.unit == TFLOP]
    if not rounds:
        return None
    end_s = max(one.t_s for one in rounds)
    recent = [one for one in rounds if one.t_s > end_s - RECENT_S]
    length_s = end_s - min(one.t_s - one.seconds for one in recent)
    return sum(one.work for one in recent) / length_s if length_s > 0 else None
