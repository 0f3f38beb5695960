"""Whether the times of a run fit together: those of its stages, and each node's work with its stages.

And when a whole host stood still, as a virtual machine does that its hypervisor stops for a moment.
Then neither was a sensor read nor did a round of any of its devices end, and the responsiveness probe, a
process of its own, woke up late. That is no failure of a card: heat and a weak power supply make rounds
slower, they make no hole. So such a time, and the rounds that it cut into, count in no rate. A card that
pauses by itself leaves the probe as it is, and all of its time counts, also where only the sampling was late.
"""

from collections.abc import Iterable, Mapping
from math import isfinite

import numpy as np
import numpy.typing as npt

from rigproof.criteria.criterion import Disturbed
from rigproof.criteria.evidence.rounds import Mask, Rounds
from rigproof.criteria.evidence.series import Floats
from rigproof.criteria.evidence.valid_rounds import possible
from rigproof.records.measurements import Stage

MOVED_S = 1.0  # outside of a stage; on H100 and H200 all rounds were inside by 0.5 s and more
REMEDY = (
    "find out what stopped or moved a clock (a virtual machine that was suspended or migrated, a machine "
    "that slept), and run again"
)
GAP_STEPS = 1.5  # between two samples; 0.12 s was the longest at 10 Hz on H100 and H200
TOLD_S = 0.5  # after a standstill, within which the probe reports it: it does four times a second
PROBED_S = 0.01  # by which the probe's delay is shorter than what kept it from waking up
Spans = npt.NDArray[np.float64]  # (n, 2): when each begins and ends, run time
NONE: Spans = np.empty((0, 2))


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


def gaps_of(times_s: Floats, rate_hz: float) -> Spans:
    """The gaps in samples at these times that a grid of `rate_hz` does not explain."""
    (places,) = np.nonzero(np.diff(times_s) > GAP_STEPS / rate_hz)
    return np.stack((times_s[places], times_s[places + 1]), axis=1)


def standstills(gaps: Spans, ends_s: Floats, rate_hz: float) -> Spans:
    """The gaps in which no round ended, but for a step of the grid at each end, where the host still ran."""
    inside_s, step_s = np.sort(ends_s), 1 / rate_hz
    before = inside_s.searchsorted(gaps[:, 0] + step_s, "right")
    return gaps[inside_s.searchsorted(gaps[:, 1] - step_s) <= before]


def awake(gaps: Spans, reported_s: Floats, delays_s: Floats, rate_hz: float) -> Mask:
    """The gaps (n,) in which the probe woke up in time, by the delays that it reported just after.

    A gap is longer than the standstill by a step of the grid at each end, at most, and the standstill has
    at least what is over one step in GAP_STEPS. Without a report nobody knows.
    """
    step_s = 1 / rate_hz
    least_s = np.maximum(np.diff(gaps).ravel() - 2 * step_s, (GAP_STEPS - 1) * step_s) - PROBED_S
    near = (gaps[:, 1:] <= reported_s) & (reported_s <= gaps[:, 1:] + TOLD_S)
    longest_s = np.where(near, delays_s, -np.inf).max(axis=1, initial=-np.inf)
    found: Mask = np.isfinite(longest_s) & (longest_s < least_s)
    return found


def cut_into(rounds: Rounds, still: Spans, share: float) -> Mask:
    """The verified rounds of which a standstill took more than `share`. An unverified one always counts."""
    found = np.zeros(len(rounds), np.bool_)
    begins_s, ends_s, verified = rounds.begins_s, rounds.t_s, rounds.same("verified", True)
    with np.errstate(invalid="ignore"):  # an endless round, which is no valid measurement
        felt_s = share * rounds.seconds
    for from_s, to_s in still.tolist():
        overlap_s = np.minimum(ends_s, to_s) - np.maximum(begins_s, from_s)
        found |= verified & (overlap_s > felt_s)
    return found


def uncounted(rounds: Rounds, still: Spans) -> Spans:
    """From when to when nothing of a device counts: each standstill, and the `rounds` that it cut into."""
    begins_s, ends_s = rounds.begins_s, rounds.t_s
    found: list[tuple[float, float]] = []
    for from_s, to_s in still.tolist():
        cut = (begins_s < to_s) & (ends_s > from_s)
        first_s, last_s = begins_s[cut].min(initial=from_s), ends_s[cut].max(initial=to_s)
        if found and first_s < found[-1][1]:
            first_s = found.pop()[0]
        found.append((float(first_s), float(last_s)))
    return np.asarray(found).reshape(-1, 2)


def within(spans: Spans, from_s: float, to_s: float) -> float:
    """How much of the time from `from_s` to `to_s` these spans take, in seconds."""
    return float((spans.clip(from_s, to_s) @ (-1.0, 1.0)).sum())
