"""Readings that contradict the rest: rules 3 to 5 of sensors.py, and the faults that cause such readings."""

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.loads import measured_stretches
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.series import FEWEST, Floats, Readings
from rigproof.criteria.evidence.windows import Window
from rigproof.profiles.kinds.stages import DUTIES
from rigproof.simulation.faults.kinds import FROM, SENSORS, TIMES, FaultKind, Stages

ENERGY_SHARE, BLOCK_S = 0.10, 10.0  # by how much they may differ over so long; see rule 3 in sensors.py
CHANCE = 3.0  # standard errors: outside a continuous load power comes and goes, and is hit by chance
ADJACENT_S = 1e-6  # apart: stretches that are one, except for rounding
STEP_SHARE, STEP_STILL_S = 0.30, 20.0  # of the highest power of the run; how long a temperature may ignore it
CHANGE_SHARE, CHANGE_MEAN_S = 0.50, 5  # of the highest mean over so long: pauses between stages are as short
CHANGE_STILL_S = 15.0
SHORTEST_STILL_S = CHANGE_MEAN_S + CHANGE_STILL_S  # of a value that a change may show to be frozen
NEVER_MOVED_S = 30.0
BEFORE_STEP_S = 5  # a shorter pause does not change a warm card's temperature by a whole degree
RISE_S = 2  # of a step, from one level to the other
SHIFT_S = 2.0  # NVML's average lags by about one second
EARLY_S = 0.5  # no card fails by readings that are so early; on H100 and H200 they were 0.04 s early at most
LONGEST_SHIFT_S = 10.0  # a card that draws nothing for longer is idle, which activity.gpu_active reports
LOAD_RATIO = 2.0  # power under load against before: with less, the step cannot be located
SETTLING_S = 3.0
STOP_RATIO = 1.25  # power before the last round's end against the lowest after: with less, no stop is visible


def mean_by_energy(device: DeviceEvidence, from_s: float, to_s: float) -> float:
    """The mean power in a span, W; NaN if the counter was not read there, or has never counted.

    NotMeasured if one of its readings is infinite.
    """
    counter = device.readings("energy_j")
    own = counter.within(from_s, to_s)
    if len(own) < 2 or not counter.highest > counter.lowest or not own.times_s[-1] > own.times_s[0]:
        return math.nan
    return float((own.values[-1] - own.values[0]) / (own.times_s[-1] - own.times_s[0]))


def against_energy(device: DeviceEvidence, field: str) -> tuple[float, float, float] | None:
    """The first block in which that power differs from the one by energy: when it begins, and both powers, W.

    The blocks cover each stretch of measured work completely. None if no block differs. NotMeasured if a
    reading of the counter is infinite.
    """
    power, evidence = device.readings(field), device.evidence
    continuous = [evidence.whole_window(one) for one in evidence.stages_with("continuous")]
    for block in device.cached("energy blocks", lambda: _blocks(device)):
        by_energy_w, own = mean_by_energy(device, block.from_s, block.to_s), power.within(*block[:2])
        length_s = own.times_s[-1] - own.times_s[0] if len(own) >= FEWEST else 0.0
        if length_s > 0:
            drawn_j = (own.times_s[1:] - own.times_s[:-1]) * (own.values[1:] + own.values[:-1]) / 2
            power_w = float(drawn_j.sum() / length_s)
            # The error of the mean by successive differences: small where readings follow the power.
            error_w = math.sqrt(float(np.square(np.diff(own.values)).mean()) / 2 / len(own))
            steady = any(one.from_s <= block.from_s < one.to_s for one in continuous)
            chance_w = 0.0 if steady else CHANCE * error_w
            if abs(power_w - by_energy_w) > ENERGY_SHARE * by_energy_w + chance_w:
                return block.from_s, power_w, by_energy_w
    return None


def _blocks(device: DeviceEvidence) -> list[Window]:
    """Equal parts of about BLOCK_S of each stretch of measured work, of several stages if they adjoin."""
    joined: list[Window] = []
    for one in measured_stretches(device):
        if joined and one.from_s - joined[-1].to_s <= ADJACENT_S:
            joined[-1] = Window(joined[-1].from_s, one.to_s)
        else:
            joined.append(one)
    return [block for one in joined for block in one.parts(int(one.length_s / BLOCK_S))]


class Drawn:
    """The power in every second from `from_s` on, (n,), and the means over CHANGE_MEAN_S."""

    def __init__(self, power: Readings, from_s: float, to_s: float) -> None:
        self.seconds_s = np.arange(from_s, to_s)
        self.power_w = np.interp(self.seconds_s, power.times_s, power.values)
        self.means_w = np.convolve(self.power_w, np.full(CHANGE_MEAN_S, 1 / CHANGE_MEAN_S), "valid")
        self.highest_w, self.highest_mean_w = float(self.power_w.max()), float(self.means_w.max())

    @cached_property
    def steps(self) -> list[tuple[float, float, float]]:
        """Each lasting step: when it ends, and the mean power before and after it."""
        power_w, least_w = self.power_w, STEP_SHARE * self.highest_w
        after = int(STEP_STILL_S)
        (places,) = (np.abs(power_w[RISE_S:] - power_w[:-RISE_S]) >= least_w).nonzero()
        found = []
        for place in places.tolist():
            begun = place + RISE_S
            before_w, lasting_w = (
                power_w[place + 1 - BEFORE_STEP_S : place + 1],
                power_w[begun : begun + after],
            )
            if len(before_w) < BEFORE_STEP_S or len(lasting_w) < after:
                continue
            if (np.abs(lasting_w[:, None] - before_w) >= least_w).all():
                found.append((float(self.seconds_s[begun]), float(before_w.mean()), float(lasting_w.mean())))
        return found


def still_since(
    pairs: Readings, repeated: Sequence[tuple[int, int]], drawn: Drawn
) -> tuple[float, str] | None:
    """When a temperature that ignores the power began to stand still, and what it reads; None if it follows.

    Minus infinity if it never moved. `repeated`: the first and last place of each value of SHORTEST_STILL_S.
    """
    times_s, values = pairs.times_s, pairs.values
    never_moved = pairs.lowest == pairs.highest and times_s[-1] - times_s[0] >= NEVER_MOVED_S
    if never_moved and drawn.highest_w > LOAD_RATIO * drawn.power_w.min():
        return -math.inf, f"reads {values[0]:g} °C during the whole run"
    return _ignored_change(times_s, values, repeated, drawn) or _ignored_step(times_s, values, drawn)


def _ignored_change(
    times_s: Floats, values: Floats, repeated: Sequence[tuple[int, int]], drawn: Drawn
) -> tuple[float, str] | None:
    """When a value began that stayed constant although the mean power had changed, and what to report."""
    begun_s = drawn.seconds_s[0]
    for first, last in repeated:
        from_s, to_s = float(times_s[first]), float(times_s[last])
        begin, end = math.ceil(from_s - begun_s), math.floor(to_s - begun_s) - CHANGE_MEAN_S + 1
        during_w = drawn.means_w[begin:end]
        spans_w = np.maximum.accumulate(during_w) - np.minimum.accumulate(during_w)
        changed = np.flatnonzero(spans_w >= CHANGE_SHARE * drawn.highest_mean_w)
        if not len(changed):
            continue
        changed_s = begin + begun_s + changed[0] + CHANGE_MEAN_S
        if to_s - changed_s >= CHANGE_STILL_S:
            least_w, most_w = during_w.min(), during_w.max()
            return from_s, (
                f"reads {values[first]:g} °C for {to_s - from_s:.0f} s from t={from_s:.0f} s on, while the "
                f"{CHANGE_MEAN_S} s mean of the power varied between {least_w:.0f} and {most_w:.0f} W"
            )
    return None


def _ignored_step(times_s: Floats, values: Floats, drawn: Drawn) -> tuple[float, str] | None:
    """When a lasting step of the power ended after which the value stayed constant, and what to report."""
    for begun_s, before_w, after_w in drawn.steps:
        first, end = times_s.searchsorted(begun_s), times_s.searchsorted(begun_s + STEP_STILL_S, "right")
        if end - first >= FEWEST and (values[first:end] == values[first]).all():
            return begun_s, (
                f"reads {values[first]:g} °C for {STEP_STILL_S:.0f} s after the power went from "
                f"{before_w:.0f} to {after_w:.0f} W at t={begun_s:.0f} s"
            )
    return None


def out_of_time(rounds: Rounds, power: Readings, early_s: float = SHIFT_S) -> str:
    """Why a card's readings are not from the time of its rounds; empty if they are.

    `early_s`: by how much power may rise before the first round: what sets the work up may draw some.
    """
    if not len(rounds) or len(power) < FEWEST:
        return ""
    stages, begins_s, ends_s = rounds.all("stage"), rounds.begins_s, rounds.t_s
    begun, ended = int(begins_s.argmin()), int(ends_s.argmax())
    first_s, last_s = float(begins_s[begun]), float(ends_s[ended])
    times_s, power_w = power.times_s, power.values
    # Late readings show the idle time before the load in place of the load's beginning.
    idle_w = float(power_w[times_s < first_s + LONGEST_SHIFT_S].min(initial=math.inf))
    own = (rounds.same("stage", stages[place]) for place in (begun, ended))
    first, last = (_high(power, begins_s[one].min(), ends_s[one].max(), idle_w) for one in own)
    apart_s = _nearest(times_s[1:][first[1:] & ~first[:-1]], first_s)
    apart = not -early_s <= apart_s <= SHIFT_S and abs(apart_s) <= LONGEST_SHIFT_S
    if times_s[0] <= first_s + SHIFT_S and not first[0] and apart:
        return (
            f"its power rises at t={first_s + apart_s:.1f} s and its first round began at t={first_s:.1f} s: "
            "the readings are not from the time of the work"
        )
    apart_s = _nearest(times_s[:-1][last[:-1] & ~last[1:]], last_s)
    if times_s[-1] >= last_s and not last[-1] and -LONGEST_SHIFT_S <= apart_s < -SHIFT_S:
        after = times_s > last_s
        slowed_w = _median(power_w[(times_s > last_s + apart_s) & ~after])
        if slowed_w > STOP_RATIO * power_w[after].min(initial=math.inf):
            return ""
        return (
            f"its power falls at t={last_s + apart_s:.1f} s and its last round ended at t={last_s:.1f} s: "
            "the readings are not from the time of the work"
        )
    return ""


def _high(power: Readings, begun_s: float, ended_s: float, idle_w: float) -> npt.NDArray[np.bool_]:
    """The readings that are nearer to the power of such a load than to idle; none if both are similar."""
    loaded = power.values[(power.times_s >= begun_s + SETTLING_S) & (power.times_s <= ended_s)]
    loaded_w = _median(loaded) if len(loaded) >= FEWEST else 0.0
    return power.values > ((idle_w + loaded_w) / 2 if loaded_w >= LOAD_RATIO * idle_w else math.inf)


def _median(values: Floats) -> float:
    """NaN if there is no value; np.median takes ten times as long for a few hundred."""
    ordered, half = np.sort(values), len(values) // 2
    return float(ordered[half] + ordered[-half - 1]) / 2 if len(values) else math.nan


def _nearest(times_s: Floats, moment_s: float) -> float:
    """How far from a moment the nearest time is, s; infinity if there is none."""
    apart_s = times_s - moment_s
    return float(apart_s[np.argmin(np.abs(apart_s))]) if len(apart_s) else math.inf


def _steady(sensor: str, stage: str, stages: Stages) -> str:
    """Why a frozen sensor cannot be detected; empty if a healthy one would change."""
    if SENSORS[sensor].steady:
        return f"{sensor} also stays the same on a healthy card"
    later = tuple(stages.values())[list(stages).index(stage) + 1 :]
    if sensor.endswith("temperature") and not {"bursts", "arms"} & set(later):
        return (
            f"after the {stage} stage the power does not change for long enough: a healthy sensor could stay "
            "the same too; choose another --hw-level or stage"
        )
    return ""


def _any_bits(sensor: str, _stage: str, _stages: Stages) -> str:
    return f"any value of {sensor} is possible" if SENSORS[sensor].impossible is None else ""


def _power_alone(sensor: str, _stage: str, _stages: Stages) -> str:
    """Why a small error cannot be detected; empty for power, which the energy counter shows."""
    return "" if sensor == "power" else f"nothing else shows what {sensor} should read"


FAULTS = (
    FaultKind(
        "sensor-missing",
        "a sensor that the card should have does not answer; field= says which sensor",
        ("thermal.core_temperature",),
        ends="not measured",
        keys=(*TIMES, "field"),
        defaults={"field": "core_temperature"},
        duties=DUTIES,
    ),
    FaultKind(
        "sensor-frozen",
        "a sensor freezes and repeats its last value; field= says which sensor",
        ("power.draw",),
        ends="not measured",
        keys=(*FROM, "field"),
        defaults={"field": "power", "after": "20%"},
        duties=DUTIES,
        unseen=_steady,
        least_s=11.0,  # ten seconds of one value, and a sample on each side
    ),
    FaultKind(
        "sensor-shifted",
        "a sensor reads too low (by=15%) or late (by=5s); field= says which sensor",
        ("power.draw",),
        ends="not measured",
        keys=(*TIMES, "by", "field"),
        defaults={"field": "power", "by": "15%", "after": "30%"},
        duties=("continuous", "fed"),  # detected by the energy of ten steady seconds
        unseen=_power_alone,
        delays=True,
        least_s=12.0,
    ),
    FaultKind(
        "sensor-impossible",
        "a sensor reads an impossible value; field= says which sensor, to= the value",
        ("power.draw",),
        ends="not measured",
        keys=(*TIMES, "to", "field"),
        defaults={"field": "power", "after": "30%"},
        duties=DUTIES,
        unseen=_any_bits,
    ),
    FaultKind(
        "telemetry-gap",
        "the card's samples are lost without any event",
        ("thermal.core_temperature", "thermal.throttle", "power.draw", "clock.ratio"),
        ends="not measured",
        keys=TIMES,
        defaults={"after": "81%", "for": "19%"},
        duties=DUTIES,
        least_s=2.2,
    ),
)
