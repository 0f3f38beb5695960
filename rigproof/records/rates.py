"""Rates: work over time, with the unit of work per second."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rigproof.records.measurements import Labels, Round

RECENT_S = 5.0


@dataclass(frozen=True, slots=True)
class Rate:
    """`value` in `unit`, such as 71.3 TFLOP/s."""

    value: float
    unit: str


class FigureRate(NamedTuple):
    """The rate that a criterion measured for one figure of a stage, and the work that it is the rate of.

    `labels`: what the rounds of another rate must have, too, for the two to be comparable. `workers`:
    processes that did the work together.
    """

    figure: str  # FigureKind.name
    value: float
    unit: str
    labels: Labels
    workers: int


def unit_of_rate(unit: str) -> str:
    """The unit of a rate, from that of the work."""
    return f"{unit}/s"


def rate_of(rounds: Sequence[Round]) -> Rate | None:
    """The current rate of one device, all workers together; None without rounds.

    Work over the time from the first begin to the last end of the rounds that ended within RECENT_S of the
    newest. Work in another unit than the newest round's is not part of it.
    """
    if not rounds:
        return None
    newest = max(rounds, key=lambda one: one.t_s)
    recent = [one for one in rounds if one.unit == newest.unit and one.t_s > newest.t_s - RECENT_S]
    length_s = newest.t_s - min(one.t_s - one.seconds for one in recent)
    if length_s <= 0:
        return None
    return Rate(sum(one.work for one in recent) / length_s, unit_of_rate(newest.unit))
