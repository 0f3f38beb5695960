"""Whether the times of a run fit together: those of its stages, and each node's work with its stages."""

from collections.abc import Iterable, Mapping
from math import isfinite

import numpy as np

from rigproof.criteria.criterion import Disturbed
from rigproof.criteria.evidence.rounds import Mask, Rounds
from rigproof.criteria.evidence.valid_rounds import possible
from rigproof.records.measurements import Stage

MOVED_S = 1.0  # outside of a stage; on H100 and H200 all rounds were inside by 0.5 s and more
REMEDY = (
    "find out what stopped or moved a clock (a virtual machine that was suspended or migrated, a machine "
    "that slept), and run again"
)


def contradiction(attempts: Iterable[Stage]) -> str:
    """What cannot be in the driver's own times of the stages; empty if nothing is wrong with them.

    A stage that nobody could take may end in the moment before its common start.
    """
    lap, lap_s, last_s = 0, 0.0, 0.0  # the present lap, its earliest beginning, the end of the latest stage
    for one in sorted(attempts, key=lambda one: one.lap):
        if one.lap != lap:
            lap, lap_s = one.lap, last_s
        end_s = one.start_s if one.end_s is None else one.end_s
        ordered = one.start_s <= end_s or one.loaded_from_s is None
        if not (lap_s <= one.start_s and ordered and isfinite(one.start_s) and isfinite(end_s)):
            return (
                f"the {one.name} stage is said to have run from t={one.start_s:g} to {end_s:g} s, in a lap "
                f"that began after t={lap_s:g} s: the records contradict each other"
            )
        last_s = max(last_s, end_s)
    return ""


def moved_clocks(rounds: Rounds, spans: Mapping[str, tuple[float, float]]) -> dict[str, Disturbed]:
    """By node, why its work cannot be placed in the run. `spans`: from when to when each stage ran."""
    stages, subjects = rounds.coded("stage"), rounds.coded("subject")
    unknown = (-np.inf, np.inf)
    start_s, end_s = np.asarray([spans.get(one, unknown) for one in stages.distinct]).reshape(-1, 2).T
    stage = stages.array
    measured = possible(rounds.t_s, rounds.seconds, rounds.work)
    outside = measured & (
        (rounds.begins_s < start_s[stage] - MOVED_S) | (rounds.t_s > end_s[stage] + MOVED_S)
    )
    found: dict[str, Disturbed] = {}
    firsts: dict[str, float] = {}
    for subject, name in {
        (subjects.distinct[one], stages.distinct[other])
        for one, other in zip(subjects.array[outside].tolist(), stage[outside].tolist(), strict=True)
    }:
        node = subject.partition("/")[0]
        own = measured & rounds.same("subject", subject) & rounds.same("stage", name)
        from_s, what = _moved(name, rounds, own, spans[name])
        if node not in found or from_s < firsts[node]:
            reason = f"the clocks of {node} and of the driver came apart: {what}"
            firsts[node], found[node] = from_s, Disturbed(reason, REMEDY, from_s)
    return found


def _moved(stage: str, rounds: Rounds, own: Mask, span: tuple[float, float]) -> tuple[float, str]:
    """When the times of these rounds go wrong, and how: the hole in them, and how far they are outside."""
    order = np.argsort(rounds.t_s[own], kind="stable")
    begins_s, ends_s = rounds.begins_s[own][order], rounds.t_s[own][order]
    if begins_s[0] < span[0] - MOVED_S:
        first_s = float(begins_s[0])
        return (
            first_s,
            f"work of the {stage} stage from t={first_s:.0f} s on, which began at t={span[0]:.0f} s",
        )
    edges_s = np.concatenate(((span[0],), ends_s[:-1]))
    holes_s = begins_s - edges_s
    place = int(holes_s.argmax())
    hole_s, from_s = float(holes_s[place]), float(edges_s[place])
    after = f" after a hole of {hole_s:.0f} s from t={from_s:.0f} s on" if hole_s > MOVED_S else ""
    return from_s, (
        f"work of the {stage} stage until t={ends_s[-1]:.0f} s{after}, which ended at t={span[1]:.0f} s"
    )
