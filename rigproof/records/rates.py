"""The current rate of work, from the rounds that ended recently."""

from collections.abc import Sequence

from rigproof.records.measurements import TFLOP, Round

RECENT_S = 5.0


def rate_of(rounds: Sequence[Round]) -> float | None:
    """TFLOP/s of one device's rounds that ended within RECENT_S of the newest, all workers together.

    Work over the time from the beginning of the first such round to the end of the last. Rounds in other
    units are ignored.
    """
    rounds = [round_ for round_ in rounds if round_.unit == TFLOP]
    if not rounds:
        return None
    end_s = max(round_.t_s for round_ in rounds)
    recent = [round_ for round_ in rounds if round_.t_s > end_s - RECENT_S]
    length_s = end_s - min(round_.t_s - round_.seconds for round_ in recent)
    return sum(round_.work for round_ in recent) / length_s if length_s > 0 else None
