"""Does 16-bit arithmetic speed up training?"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from rigproof.criteria.criterion import Criterion, Finding, Limit, NotApplicable, NotMeasured, pass_or_fail
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.floors import Measured, sku_floor, torch_of
from rigproof.criteria.evidence.rounds import FEWEST_ROUNDS, Rounds
from rigproof.criteria.evidence.slowed import slowed_by
from rigproof.devices.verification import ROUNDOFF
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.planning.floor_basis import (
    FLOOR_MEASURED_SHARE,
    FLOOR_PRINTED_SHARE,
    FLOOR_SIMILAR_SHARE,
    Conditions,
    planned_basis,
)
from rigproof.records.measurements import Event
from rigproof.records.verdict import Outcome, figure
from rigproof.stages.training.checks import REFERENCE, TRAJECTORY, tolerance
from rigproof.stages.training.stage import KIND, SPEEDUP

TRAINING_SPEEDUP = KIND.key(lambda own: own.training_speedup)

PART, SWEEP = "precision", "sweep"


@dataclass(frozen=True, slots=True)
class StepTime:
    """One precision's step time at one batch size, s, from its verified rounds without the slowest."""

    precision: str
    batch: int
    seconds: float
    tflops: float
    rounds: int
    size: int  # the model's width


StepTimes = dict[tuple[str, int], StepTime]  # by precision and batch size


def step_times(rounds: Rounds, part: str) -> StepTimes:
    """Step times of one part of the training stage, in the order in which they ran."""
    found: StepTimes = {}
    unknown = rounds.labelled("batch", None, 0) | rounds.labelled("steps", None, 0)
    counts = rounds.labelled("part", part) & ~unknown & (rounds.seconds > 0)
    counted = rounds.only(counts).measured.verified
    for (precision, batch), own in counted.by_labels("precision", "batch").items():
        fast = own.without_hiccups()
        steps, seconds = float(fast.label_numbers("steps").sum()), float(fast.seconds.sum())
        if steps > 0:
            rate, size = float(fast.work.sum()) / seconds, own.labels("size")[-1]
            found[precision, batch] = StepTime(precision, batch, seconds / steps, rate, len(own), size)
    return found


def training_steps(device: DeviceEvidence) -> dict[str, StepTimes]:
    """A device's step times with FEWEST_ROUNDS or more, by part of the stage, which are cached for its peers.

    Raises NotMeasured if a round is faster than the silicon can be, or of another model than was reported, or
    their losses were not reported.
    """

    def measured() -> dict[str, StepTimes]:
        rounds = device.possible("training")
        widths = {one.data.get("width") for one in device.events("model") if one.stage == "training"} - {None}
        others = rounds.distinct_labels("size") - widths
        if widths and others:
            raise NotMeasured(f"rounds of a model of width {others.pop()}, and another one was reported")
        found = {part: step_times(device.rounds("training"), part) for part in (PART, SWEEP)}
        steps = {
            part: {key: time for key, time in times.items() if time.rounds >= FEWEST_ROUNDS}
            for part, times in found.items()
        }
        told = {one.data.get("precision") for one in outcomes(device)}
        for precision, _ in steps[PART]:
            if precision not in told:
                raise NotMeasured(f"the losses of its steps in {precision} were not reported")
        return steps

    return device.evidence.shared_figure("training steps", device.subject, measured)


def outcomes(device: DeviceEvidence) -> list[Event]:
    """What was reported whole of each precision's losses: first, last, the difference from fp32."""
    last = [one for one in device.events("training") if device.evidence.recording.is_last(one)]
    names = ("first_loss", "last_loss", "overflows", "difference")

    def whole(data: Mapping[str, object]) -> bool:
        numbers = names[:-1] if data.get("precision") == REFERENCE else names
        return all(isinstance(one, int | float) and not one < 0 for one in map(data.get, numbers))

    return [one for one in last if one.stage == "training" and whole(one.data)]


def wrong_losses(device: DeviceEvidence) -> str:
    """What is wrong with the losses that were reported, by the rules of `checks.Judge`; empty: nothing."""
    rounds = device.rounds("training")
    rounds = rounds.having(part=PART)
    for event in outcomes(device):
        precision, batch = (event.data.get(name) for name in ("precision", "batch"))
        first, last, overflows = (float(event.data[one]) for one in ("first_loss", "last_loss", "overflows"))
        for loss in (first, last):
            if not math.isfinite(loss):
                return f"the loss is {loss} in {precision}"
        apart = 0.0 if precision == REFERENCE else float(event.data["difference"])
        if precision in ROUNDOFF and not apart <= tolerance(precision):
            most = f"tolerance {tolerance(precision):.2g}"
            return f"losses in {precision} are {apart:.2g} apart from those in {REFERENCE}, {most}"
        same = rounds.labelled("precision", precision) & rounds.labelled("batch", batch)
        updates = float(rounds.only(same).label_numbers("steps").sum()) - overflows
        if last >= first and updates > TRAJECTORY:
            return f"the loss has not fallen in {precision}: {last:.4f} after {first:.4f}"
    return ""


def trains_in_fp16(device: PromisedDevice) -> bool:
    """Decided before the run: cards with fp16 in hardware, and those without a SKU file."""
    return device.sku is None or device.sku.peak_tflops.fp16 is not None


def _planned(loaded: LoadedRig, device: PromisedDevice) -> Limit | None:
    own, _ = loaded.stated(TRAINING_SPEEDUP, device)
    if own is not None:
        return Limit(own, loaded.file)
    basis = planned_basis(SPEEDUP, device, loaded)
    share = None if basis is None else loaded.stated(basis.share, device)[0]
    return None if basis is None or share is None else Limit(basis.figure.value * share, basis.reason)


@Criterion(
    "precision.speedup",
    title="fp16 speed-up",
    unit="×",
    direction="at_least",
    limit="`stages.training.training_speedup`, if the rig states it; else a share of the SKU file's "
    "`training_speedup`, by its evidence (`limits.floor_measured_share`, "
    "`limits.floor_similar_share`, `limits.floor_printed_share`); else none, and the figure is "
    "only reported",
    limits=(TRAINING_SPEEDUP, FLOOR_MEASURED_SHARE, FLOOR_SIMILAR_SHARE, FLOOR_PRINTED_SHARE),
    severity="config",
    remedy="if throughput.gemm_fp16 is slow too, look at clock and power; if not, install a torch that is "
    "built for this card",
    unmeasured="fewer than 3 verified rounds of fp16 or of fp32 at the same batch size, or the losses of a "
    "precision were not reported; not applicable if an unknown device has no fp16",
    idling="not measured",
    stages=("training",),
    applies_to_cpu=False,
    holds_for=trains_in_fp16,
    rate=True,
    caused_by_others=slowed_by,
    planned=_planned,
)
def speedup(device: DeviceEvidence) -> Finding:
    """How many times faster a training step is in fp16 (autocast, GradScaler) than in fp32 without tf32.

    The same model and batch; time per step by the device's own clock, without the slowest tenth of the
    verified rounds.
    """
    times = training_steps(device)[PART]
    batches = [batch for precision, batch in times if precision == "fp16" and ("fp32", batch) in times]
    if not batches:
        raise_unmeasured(device, "too few verified rounds of fp16 and fp32 at the same batch size")
    batch = max(batches)  # after an OOM there are also smaller ones
    slow, fast = times["fp32", batch], times["fp16", batch]
    ratio = slow.seconds / fast.seconds
    at_batch = [times.get((precision, batch)) for precision in ("fp32", "tf32", "fp16")]
    shown = [f"{figure(1000 * time.seconds, 'ms')} in {time.precision}" for time in at_batch if time]
    detail = f"a step of {batch} examples takes {', '.join(shown)}"
    floor = _floor(device, fast)
    if floor is None:
        return Finding(Outcome.NO_LIMIT, ratio, detail=detail)
    good = ratio >= floor.value
    cause = "" if good else device.cause()
    detail += f"; {cause}" if cause else ""
    return pass_or_fail(
        ratio, floor, good=good, detail=detail, over=() if good else spans_of(device, PART, fast)
    )


def spans_of(device: DeviceEvidence, part: str, step: StepTime) -> list[tuple[float, float]]:
    """When such steps were measured in a part of the stage, run time."""
    done = device.rounds("training").measured
    done = done.having(part=part, precision=step.precision, batch=step.batch)
    return done.unbroken(device.evidence.kinds)


def step_conditions(device: DeviceEvidence, step: StepTime) -> Conditions:
    """The conditions of the measurement: one worker of each device trains."""
    return Conditions(step.precision, step.size, 1, torch_of(device), step.batch)


def _floor(device: DeviceEvidence, step: StepTime) -> Limit | None:
    own = device.optional_limit(TRAINING_SPEEDUP)
    if own is not None:
        return own
    here = step_conditions(device, step)
    return sku_floor(device, Measured(SPEEDUP, here))


def raise_unmeasured(device: DeviceEvidence, why: str) -> NoReturn:
    """Raise why a training step was not measured: the device has no fp16, or else `why`, with its cause."""
    device.evidence.stage("training")
    supported = {precision for worker in device.workers for precision in worker.precisions}
    if supported and "fp16" not in supported:
        raise (NotMeasured if device.device.sku else NotApplicable)("this device has no fp16")
    raise device.unmeasured(why)
