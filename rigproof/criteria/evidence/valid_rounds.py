"""Whether rounds are valid measurements: possible, as their stage declares them, and none of them twice."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.rounds import Mask, Rounds, overlaps
from rigproof.criteria.evidence.series import Floats
from rigproof.criteria.evidence.windows import LONGEST_S
from rigproof.profiles.kinds.stages import Label, StageKinds
from rigproof.records.fields import LABELS

# 10^12 units of work a second, such as TFLOP/s or GB/s: a million times what any device does. Sums and
# squares of rates up to here are finite.
FASTEST = 1e12


def require_valid(found: Rounds, stage: str, kinds: StageKinds) -> Rounds:
    """Return `found`, rounds of one stage; NotMeasured if one of them is not a valid measurement."""
    t_s, seconds, work = found.t_s, found.seconds, found.work
    valid = possible(t_s, seconds, work)
    declared = as_declared(found, kinds)
    if not (valid & declared).all():
        place = int(np.argmin(valid & declared))
        unit = found.all("unit")[place]
        why = ""
        if not declared[place]:
            labels = found.all(LABELS)[place]
            misfit = kinds.misfit(stage, labels)
            why = f" {misfit}" if misfit else f" of a stage whose work is counted in {kinds[stage].unit}"
        raise NotMeasured(
            f"a round reports {work[place]:g} {unit} in {seconds[place]:g} s "
            f"at t={t_s[place]:g} s{why}, which is not a valid measurement"
        )
    if len(found):
        over_s = overlaps(found.process_ids(kinds), t_s, seconds)
        place = int(over_s.argmax())
        if over_s[place] > 0:
            raise NotMeasured(
                f"rounds of {found.all('worker')[place]} in the {stage} stage overlap by "
                f"{over_s[place]:.1f} s at t={t_s[place]:.0f} s: they would count twice, or their node's "
                "clock was set back, which is not a valid measurement"
            )
    return found


def require_told(
    found: Rounds, told: Sequence[Mapping[str, Any]], labels: Sequence[Label], *, oom: bool
) -> None:
    """NotMeasured if a label is not what the workers were told to do, as their recorded specs say.

    `labels`: those of the stage; `oom`: whether the device ran out of memory in it, and so may do less.
    """
    for label in (one for one in labels if one.told):
        known = {spec[label.name] for spec in told if label.name in spec}
        for stated in found.distinct_labels(label.name) if known else ():
            smaller = isinstance(stated, int) and stated < max(known) and (oom or label.may_shrink)
            if stated not in known and not smaller:
                raise NotMeasured(
                    f"rounds state {label.name} {stated}, and its workers were told to do {label.name} "
                    f"{max(known)}, which is not a valid measurement"
                )


def as_declared(rounds: Rounds, kinds: StageKinds) -> Mask:
    """The rounds with the unit and the labels of their stage; all those of a stage that is not known."""
    fits = np.zeros(len(rounds), np.bool_)
    for stage in rounds.distinct("stage"):
        own = rounds.same("stage", stage)
        if stage in kinds:
            misfits = rounds.where_labels(partial(kinds.misfit, stage))
            own = own & rounds.same("unit", kinds[stage].unit) & ~misfits
        fits |= own
    return fits


def possible(t_s: Floats, seconds: Floats, work: Floats) -> Mask:
    """The rounds whose time, duration and work are possible, and whose rate is."""
    valid: Mask = (np.abs(t_s) <= LONGEST_S) & (seconds > 0) & (seconds <= LONGEST_S)
    with np.errstate(over="ignore"):  # of durations that are too long anyway
        return valid & (work > 0) & (work <= FASTEST * seconds)
