"""What the GPUs of a host made of the waves: which were square and in phase, and how fast each burst was.

The waves that were due follow from the profile and the number of GPUs, not from what was recorded: one that
was not made shows as missing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

import numpy as np

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.nodes import NodeEvidence
from rigproof.criteria.evidence.rates import rate_or_none, settled
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.series import Floats, Readings
from rigproof.criteria.evidence.windows import Window
from rigproof.records.measurements import Event
from rigproof.records.verdict import figure
from rigproof.stages.transient.stage import HALF, LEAST_PRODUCTS, STAGE, Arm, TransientSettings, arms_of

FEWEST_BURSTS = 3  # of an arm, without its first one, to judge its rate by
SLOW_PART = 5  # one of so many bursts: a slower one alone is a hiccup of the host
CALIBRATED = 0.5  # of the shortest burst: a card that wakes from idle learns too long a time of a product


@dataclass(frozen=True, slots=True)
class Lost:
    """A share of its rate that a GPU kept: of `before`, TFLOP/s in its bursts, `after` was left in `arm`."""

    device: DeviceEvidence
    arm: Arm
    before: float
    after: float
    why: str  # in words: what differs from before

    @property
    def kept(self) -> float:
        """The share of its rate that is left."""
        return self.after / self.before


class Waves:
    """The waves of one node's GPUs in the transient stage. NotMeasured if the stage did not run."""

    def __init__(self, node: NodeEvidence) -> None:
        evidence = node.evidence
        self.node = node
        self.stage = evidence.stage(STAGE)
        self.left_out = {one.subject: said[0].message for one in node.cards if (said := _left_out(one))}
        self.devices = tuple(one for one in node.cards if one.subject not in self.left_out)
        if STAGE not in evidence.plan.stage_names:
            raise NotMeasured(f"the plan that ran has no {STAGE} stage")
        planned = evidence.planned_by.settings(TransientSettings)
        self.arms = arms_of(len(self.devices), planned, evidence.plan.stage(STAGE).measure_s)
        self.settings = evidence.loaded.settings(TransientSettings)  # those that it is judged by

    def window(self, arm: Arm) -> Window:
        """When an arm was due, run time."""
        return Window(self.stage.start_s + arm.from_s, self.stage.start_s + arm.to_s)

    @property
    def whole(self) -> Window:
        """From the first wave that was due to the end of the last one, run time."""
        return Window(self.window(self.arms[0]).from_s, self.window(self.arms[-1]).to_s)

    def rounds(self, place: int, arm: Arm) -> Rounds:
        """The verified bursts of the GPU at that place in an arm."""
        done = self._verified[place]
        return done.having(gpus=arm.gpus, hz=arm.hz)

    @cached_property
    def _verified(self) -> list[Rounds]:
        return [device.rounds(STAGE).verified for device in self.devices]

    def starts(self, arm: Arm) -> Floats:
        """By how much each GPU began each wave late, s, (gpus, waves).

        NaN for a burst that was not made, not verified, or too short or too long for a square wave.
        """
        late_s = np.full((arm.gpus, arm.waves), np.nan)
        shortest, longest = self.settings.duty_share
        for place in range(arm.gpus):
            done = self.rounds(place, arm)
            into_s = done.begins_s - self.window(arm).from_s
            waves = np.rint(into_s * arm.hz).astype(np.intp)
            duty = done.seconds * arm.hz
            fits = (waves >= 0) & (waves < arm.waves) & (duty >= shortest) & (duty <= longest)
            late_s[place, waves[fits]] = into_s[fits] - waves[fits] / arm.hz
        return late_s

    def apart(self, arm: Arm) -> Floats:
        """Between the first and the last begin of each wave, s, (waves,); NaN where a burst is missing."""
        late_s = self.starts(arm)
        return np.asarray(late_s.max(axis=0) - late_s.min(axis=0), np.float64)

    def rates(self, place: int, arm: Arm) -> Floats:
        """TFLOP/s of each burst of a GPU in an arm, in order, without the first one."""
        done = self.rounds(place, arm).measured
        order = np.argsort(done.t_s)
        return np.asarray((done.work / done.seconds)[order], np.float64)

    def with_others(self) -> Iterator[Lost]:
        """For each GPU and frequency: its rate with more GPUs, against that in the first step it was in."""
        for place in range(len(self.devices)):
            own = self._arms_with(place)
            for first in (arm for arm in own if arm.gpus == own[0].gpus):
                before = self.rates(place, first)
                for arm in (one for one in own if one.hz == first.hz and one is not first):
                    joined = [one.subject for one in self.devices[first.gpus : arm.gpus]]
                    others = " and ".join(joined) if len(joined) < 3 else f"{len(joined)} others"
                    yield from self._lost(place, arm, before, f"before {others} took part")

    def from_sustained(self) -> Iterator[Lost]:
        """For each GPU and arm: its rate, against that of the same products in the continuous load before."""
        for place, device in enumerate(self.devices):
            before = rate_or_none(device)
            if before is None:
                continue
            _, continuous = settled(device)
            same = (before.precision, continuous.distinct_labels("size"))
            for arm in self._arms_with(place):
                done, rates = self.rounds(place, arm), self.rates(place, arm)
                precisions = done.distinct_labels("precision")
                if len(rates) >= FEWEST_BURSTS and (*precisions, done.distinct_labels("size")) == same:
                    why = f"in the {device.evidence.steady_stage} stage"
                    yield Lost(device, arm, before.tflops, float(np.median(rates)), why)

    def from_slower_waves(self) -> Iterator[Lost]:
        """For each GPU, step and frequency: its rate, against that at each lower frequency.

        Not the other way round: a longer burst may reach the power cap.
        """
        for slow, fast in permutations(self.arms, 2):
            if slow.gpus == fast.gpus and slow.hz < fast.hz:
                for place in range(fast.gpus):
                    yield from self._lost(place, fast, self.rates(place, slow), f"at {slow.hz} Hz")

    def from_wave_to_wave(self) -> Iterator[Lost]:
        """For each GPU and arm: its rate in the last third of its bursts, against that in the first third."""
        for arm in self.arms:
            for place in range(arm.gpus):
                rates = self.rates(place, arm)
                if len(rates) >= FEWEST_BURSTS:
                    third = len(rates) // 3
                    first, last = float(np.median(rates[:third])), float(np.median(rates[-third:]))
                    yield Lost(self.devices[place], arm, first, last, "in the first third of its waves")

    def from_burst_to_burst(self) -> Iterator[Lost]:
        """For each GPU and arm: the rate that all but a fifth of its bursts reach, against their median."""
        for arm in self.arms:
            for place in range(arm.gpus):
                rates = np.sort(self.rates(place, arm))
                if len(rates) >= SLOW_PART:
                    slow, middle = float(rates[len(rates) // SLOW_PART]), float(np.median(rates))
                    why = "in its median burst, and a fifth of them are as slow"
                    yield Lost(self.devices[place], arm, middle, slow, why)

    def _arms_with(self, place: int) -> list[Arm]:
        """The arms that the GPU at that place takes part in."""
        return [arm for arm in self.arms if arm.gpus > place]

    def _lost(self, place: int, arm: Arm, before: Floats, why: str) -> Iterator[Lost]:
        """A GPU's rate in an arm, against other bursts of it, if there are enough of both."""
        rates = self.rates(place, arm)
        if min(len(before), len(rates)) >= FEWEST_BURSTS:
            yield Lost(self.devices[place], arm, float(np.median(before)), float(np.median(rates)), why)

    def require_size(self) -> None:
        """NotMeasured if bursts are of smaller matrices than planned, and those would have fitted."""
        for place, device in enumerate(self.devices):
            own = self._arms_with(place)
            planned = max((one["size"] for one in device.told(STAGE) if "size" in one), default=0)
            done = self._verified[place].measured
            for size in done.distinct_labels("size") if planned and own and len(done) else ():
                if not isinstance(size, int) or size >= planned:
                    continue
                # The next larger one that was tried: 2 n³ operations.
                product_s = 2 * (2 * size) ** 3 / 1e12 / float(np.median(done.work / done.seconds))
                if LEAST_PRODUCTS * product_s < CALIBRATED * min(HALF / arm.hz for arm in own):
                    raise NotMeasured(
                        f"{device.subject} states products of size {size}, and {planned} was planned, of "
                        "which the shortest burst would have held enough"
                    )

    def require_made(self) -> float:
        """NotMeasured unless enough waves of each arm were made by all its GPUs, square and in phase.

        Returns the longest time between two begins of a wave that counts, s.
        """
        settings, worst_s = self.settings, 0.0
        for arm in self.arms:
            limit_s = min(settings.phase_ms / 1000, settings.phase_share / arm.hz)
            apart_s = self.apart(arm)
            good = apart_s <= limit_s  # not where a burst is missing
            number = int(np.count_nonzero(good))
            if arm.waves - number > max(1, (1 - settings.wave_share) * arm.waves):
                raise NotMeasured(
                    f"only {number} of {arm.waves} waves of {arm.hz} Hz on {figure(arm.gpus, 'GPUs')} were "
                    f"square and in phase within {1000 * limit_s:.1f} ms: {self._why(arm)}"
                )
            worst_s = max(worst_s, float(apart_s[good].max()))
        return worst_s

    def _why(self, arm: Arm) -> str:
        """What kept the waves of an arm from being made: a loss, or who made too few bursts or was late."""
        for event in self.node.events("crew_failed"):
            if event.stage == STAGE:
                return f"{event.message} (at t={event.t_s:.0f} s)"
        for device in self.devices:
            if cause := device.cause():
                return f"{device.subject}: {cause}"
        late_s = self.starts(arm)
        made = np.count_nonzero(~np.isnan(late_s), axis=1)
        least = int(made.argmin())
        if made[least] < arm.waves * self.settings.wave_share:
            return f"{self.devices[least].subject} made {made[least]} of its bursts"
        medians_ms = 1000 * np.nanmedian(late_s, axis=1)
        latest = int(medians_ms.argmax())
        return f"{self.devices[latest].subject} began them {medians_ms[latest]:.1f} ms late"


def _left_out(device: DeviceEvidence) -> list[Event]:
    return [event for event in device.events("waves_left_out") if event.stage == STAGE]


def together(read: Sequence[Readings], window: Window, step_s: float) -> Floats:
    """The sum of all cards' readings in each step of a window in which each card has one, in order of time.

    A card that was read more than once in a step counts with its highest reading. Each sum is a lower bound
    of what the cards draw: a reading is of a moment (NVML's field 186), or a mean over some milliseconds, ten
    times a second, so that a wave of 20 Hz is sampled once in two periods, and a transient of 100 µs never.
    """
    number = max(0, int(np.ceil(window.length_s / step_s)))
    if not number or not read:
        return np.empty(0)
    highest = np.full((len(read), number), -np.inf)
    for place, one in enumerate(read):
        inside = (one.times_s >= window.from_s) & (one.times_s < window.to_s)
        steps = ((one.times_s[inside] - window.from_s) / step_s).astype(np.intp)
        np.maximum.at(highest[place], np.minimum(steps, number - 1), one.values[inside])
    sums = highest.sum(axis=0)
    return np.asarray(sums[np.isfinite(sums)], np.float64)
