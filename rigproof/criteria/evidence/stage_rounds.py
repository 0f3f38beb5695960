"""The rounds of devices that are judged together, by stage, and whether they are valid measurements."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from itertools import accumulate, product
from typing import Any

import numpy as np

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.readings import Floats
from rigproof.criteria.evidence.rounds import Mask, Parts, Rounds, contiguous
from rigproof.criteria.evidence.spans import Ids, overlaps
from rigproof.criteria.evidence.windows import LONGEST_S
from rigproof.profiles.kinds.stages import Label, StageKinds
from rigproof.records.measurements import TFLOP

# 10^12 units of work a second, such as TFLOP/s or GB/s: a million times what any device does. Sums and
# squares of rates up to here are finite.
FASTEST = 1e12


class StageRounds:
    """The rounds of several devices: each device and stage is a group.

    Those that another device did in place of the promised one are in no group. `rows` are the places in
    `table` of the rounds of all valid groups, group by group, and `groups` the number of each one's group;
    `every` are the same as Rounds. `own`: whether the promised device did each round of `table`.
    """

    def __init__(self, rounds: Mapping[str, Rounds], devices: Sequence[str], kinds: StageKinds) -> None:
        """`rounds` are of one table, by subject; `devices` are the kinds of device that were promised."""
        self._kinds = kinds
        self.table = table = Rounds.joined(list(rounds.values())).table
        lengths = [len(one) for one in rounds.values()]
        ends = accumulate(lengths)
        self.all = {
            subject: Rounds(table, slice(end - length, end))
            for subject, length, end in zip(rounds, lengths, ends, strict=True)
        }
        stages = table.coded("stage")
        self.numbers = {of: number for number, of in enumerate(product(rounds, stages.distinct))}
        device = np.repeat(np.arange(len(rounds)), lengths)
        own = np.zeros(len(device), np.bool_)
        for kind in set(devices):
            promised = np.asarray([one == kind for one in devices])[device]
            own |= promised & table.mask("device", "", (None, kind))
        self.own = own
        (rows,) = own.nonzero()
        groups = (device * len(stages.distinct) + stages.array)[rows]
        order = np.argsort(groups, kind="stable")
        rows, groups = rows[order], groups[order]
        bounds = np.searchsorted(groups, np.arange(len(self.numbers) + 1)).tolist()
        self._rounds = {
            of: Rounds(table, contiguous(rows[bounds[number] : bounds[number + 1]]))
            for of, number in self.numbers.items()
        }
        self._valid = self._without_doubt(rows, groups)
        valid = self._valid[groups]
        self.rows, self.groups = rows[valid], groups[valid]
        self.every = Rounds(table, self.rows)

    def _without_doubt(self, rows: Ids, groups: Ids) -> Mask:
        """Whether all rounds of each group are valid measurements."""
        table = self.table
        t_s, seconds = table.t_s[rows], table.seconds[rows]
        bad = ~possible(t_s, seconds, table.work[rows]) | ~as_declared(Rounds(table, rows), self._kinds)
        processes = table.ids(self._kinds.same_process, "worker", rows)
        with np.errstate(invalid="ignore"):  # of bad ones
            bad |= overlaps(processes + groups * (processes.max(initial=0) + 1), t_s, seconds) > 0
        found = np.ones(len(self.numbers), np.bool_)
        found[groups[bad]] = False
        return found

    def parts(self, counted: Mask, *labels: str) -> Parts:
        """The rounds of `every` that count, by device and stage and by the values of these labels."""
        return Parts(self.every.only(counted), self.groups[counted], list(self.numbers), *labels)

    def fastest(self, subject: str, stage: str) -> Mapping[str, float]:
        """TFLOP/s of the fastest round of each precision, of one device in one stage that is valid."""
        return self._fastest.get((subject, stage), {})

    @cached_property
    def _fastest(self) -> dict[tuple[str, str], dict[str, float]]:
        parts = self.parts(self.every.same("unit", TFLOP), "precision")
        highest = np.maximum.reduceat(self.table.rates[parts.rounds.places], parts.starts[:-1])
        found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        for (of, precision), rate in zip(parts.keys, highest.tolist(), strict=True):
            found[of][str(precision)] = rate
        return found

    def valid(self, subject: str, stage: str) -> Rounds:
        """The rounds of one device in one stage. NotMeasured if one of them is not a valid measurement."""
        number = self.numbers.get((subject, stage))
        if number is None:
            return Rounds(self.table, slice(0, 0))
        found = self._rounds[subject, stage]
        return found if self._valid[number] else require_valid(found, stage, self._kinds)


def require_valid(found: Rounds, stage: str, kinds: StageKinds) -> Rounds:
    """The same rounds of one stage; NotMeasured if one of them is not a valid measurement."""
    t_s, seconds, work = found.t_s, found.seconds, found.work
    valid = possible(t_s, seconds, work)
    declared = as_declared(found, kinds)
    if not (valid & declared).all():
        place = int(np.argmin(valid & declared))
        unit = found.all("unit")[place]
        why = ""
        if not declared[place]:
            labels = found.only(np.arange(len(found)) == place).records()[0].labels
            misfit = kinds.misfit(stage, labels)
            why = f" {misfit}" if misfit else f" of a stage whose work is counted in {kinds[stage].unit}"
        raise NotMeasured(
            f"a round reports {work[place]:g} {unit} in {seconds[place]:g} s "
            f"at t={t_s[place]:g} s{why}, which is not a valid measurement"
        )
    if len(found):
        overlap_s, place = found.worst_overlap(kinds)
        if overlap_s > 0:
            raise NotMeasured(
                f"rounds of {found.all('worker')[place]} in the {stage} stage overlap by "
                f"{overlap_s:.1f} s at t={found.t_s[place]:.0f} s: they would count twice, or their node's "
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
            misfits = rounds.table.where_labels(partial(kinds.misfit, stage))[rounds.places]
            own = own & rounds.same("unit", kinds[stage].unit) & ~misfits
        fits |= own
    return fits


def possible(t_s: Floats, seconds: Floats, work: Floats) -> Mask:
    """The rounds whose time, duration and work are possible, and whose rate is."""
    valid: Mask = (np.abs(t_s) <= LONGEST_S) & (seconds > 0) & (seconds <= LONGEST_S)
    with np.errstate(over="ignore"):  # of durations that are too long anyway
        return valid & (work > 0) & (work <= FASTEST * seconds)
