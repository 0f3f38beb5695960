"""Does 16-bit arithmetic pay where it has to, in training?"""

from collections import defaultdict
from dataclasses import dataclass
from typing import NoReturn

from rigproof.criteria.criterion import Finding, Limit, NotApplicable, NotMeasured, compared, criterion
from rigproof.criteria.effects import WITHOUT_WORK, Also
from rigproof.criteria.evidence.floors import Measured, sku_floor, torch_of
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.strangers import slowed_by
from rigproof.criteria.evidence.subjects import DeviceEvidence
from rigproof.profiles.loading.loaded import PromisedDevice
from rigproof.profiles.planning.evidence import Conditions
from rigproof.records.measurements import Round
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, figure
from rigproof.stages.training.settings import SPEEDUP

PART, SWEEP = "precision", "sweep"
FEWEST_ROUNDS = 3  # a rate of fewer is a single reading


@dataclass(frozen=True, slots=True)
class StepTime:
    """What one precision's step takes at one batch size, s: over its verified rounds without hiccups."""

    precision: str
    batch: int
    seconds: float
    tflops: float
    rounds: int
    size: int  # the model's width


StepTimes = dict[tuple[str, int], StepTime]  # by precision and batch size


@dataclass(frozen=True, slots=True)
class TrainingSteps:
    """Those whose precisions are compared, and those of the sweep; of as many rounds as are a measurement."""

    compared: StepTimes
    swept: StepTimes


def step_times(rounds: Rounds, part: str) -> StepTimes:
    """By precision and batch size, of one part of the training stage; in the order in which they ran."""
    measured = rounds.only(rounds.labelled("part", part) & rounds.same("phase", "measure")).verified()
    measured = measured.only(~measured.labelled("batch", None, 0) & ~measured.labelled("steps", None, 0))
    measured = measured.only(measured.seconds > 0)
    found: StepTimes = {}
    pairs = zip(measured.labels("precision"), measured.labels("batch"), strict=True)
    for precision, batch in dict.fromkeys(pairs):
        own = measured.only(measured.labelled("precision", precision) & measured.labelled("batch", batch))
        counted = own.without_hiccups()
        steps = sum(counted.labels("steps"))
        if steps <= 0:
            continue
        step_s = float(counted.seconds.sum()) / steps
        found[precision, batch] = StepTime(
            precision, batch, step_s, own.rate(), len(own), own.labels("size")[-1]
        )
    return found


def training_steps(device: DeviceEvidence) -> TrainingSteps:
    """What was measured of a device; kept for its peers.

    NotMeasured where a round is faster than the silicon can be.
    """

    def measured() -> TrainingSteps:
        rounds = device.possible(device.rounds("training"))
        return TrainingSteps(_measured(rounds, PART), _measured(rounds, SWEEP))

    return device.evidence.figure_of("training steps", device.subject, measured)


def _measured(rounds: Rounds, part: str) -> StepTimes:
    return {key: one for key, one in step_times(rounds, part).items() if one.rounds >= FEWEST_ROUNDS}


def trains_in_fp16(device: PromisedDevice) -> bool:
    """Decided before the run: cards that multiply fp16 in hardware, and those without a SKU file."""
    return device.sku is None or device.sku.peak_tflops.fp16 is not None


@criterion(
    "precision.speedup",
    scope="device",
    unit="×",
    limit="`stages.training.training_speedup` of the rig profile; else a share of the SKU file's "
    "`training_speedup`, by its evidence (`limits.floor_measured_share`, "
    "`limits.floor_similar_share`, `limits.floor_printed_share`); else none, and the figure is "
    "only told",
    remedy="compare with throughput.gemm_fp16: where that is slow too, look at the card's clock and power; "
    "where it is not, this torch has no tensor-core kernels for the card: install a build for its compute "
    "capability",
    unmeasured="fewer than 3 verified rounds of fp16 or of fp32 at the same batch size; not applicable where "
    "an unknown device has no fp16",
    also=Also(unmeasured=(*WITHOUT_WORK, "gpu-idle")),
    stages=("training",),
    applies_to_cpu=False,
    holds_for=trains_in_fp16,
    rate=True,
    explained=slowed_by,
)
def speedup(device: DeviceEvidence) -> Finding:
    """How many times faster a training step is in fp16 (autocast, GradScaler) than in fp32 without tf32.

    The same model, the same batch, by the device's own clock; time over steps, without the
    slowest tenth of the verified rounds.
    """
    times = training_steps(device).compared
    batches = [batch for precision, batch in times if precision == "fp16" and ("fp32", batch) in times]
    if not batches:
        raise_unmeasured(device, "too few verified rounds of fp16 and fp32 at the same batch size")
    batch = max(batches)  # after an OOM there are smaller ones too
    slow, fast = times["fp32", batch], times["fp16", batch]
    ratio = slow.seconds / fast.seconds
    told = [_told(one) for precision in ("fp32", "tf32", "fp16") if (one := times.get((precision, batch)))]
    detail = f"a step of {batch} examples takes {', '.join(told)}"
    floor = _floor(device, fast)
    if floor is None:
        return Finding(Outcome.NO_LIMIT, ratio, detail=detail)
    good = ratio >= floor.value
    cause = "" if good else device.cause()
    return compared(ratio, floor, good=good, detail=detail + (f"; {cause}" if cause else ""))


def _told(one: StepTime) -> str:
    return f"{figure(1000 * one.seconds, 'ms')} in {one.precision}"


def step_conditions(device: DeviceEvidence, step: StepTime) -> Conditions:
    """How it was measured: one worker of each device trains."""
    return Conditions(step.precision, step.size, 1, torch_of(device), step.batch)


def _floor(device: DeviceEvidence, step: StepTime) -> Limit | None:
    own = device.optional_limit("training_speedup", "training")
    if own is not None:
        return own
    here = step_conditions(device, step)
    return sku_floor(device, Measured(SPEEDUP, here))


def measured_rounds(recording: Recording, subject: str) -> list[Round]:
    """Of fp16 where precisions are compared, at the largest batch that has enough of them to be judged."""
    by_batch: dict[int, list[Round]] = defaultdict(list)
    for one in recording.rounds.of(subject):
        measured = one.stage == "training" and one.label("part") == PART and one.phase == "measure"
        fp16, batch = one.label("precision") == "fp16", one.label("batch")
        if measured and fp16 and one.verified and isinstance(batch, int) and batch:
            by_batch[batch].append(one)
    enough = [batch for batch, rounds in by_batch.items() if len(rounds) >= FEWEST_ROUNDS]
    return by_batch[max(enough)] if enough else []


def raise_unmeasured(device: DeviceEvidence, why: str) -> NoReturn:
    """Why a training step was not measured: the device has no fp16, or the reason given, with its cause."""
    device.evidence.stage("training")
    has = {one for worker in device.workers for one in worker.precisions}
    if has and "fp16" not in has:
        raise (NotMeasured if device.device.sku else NotApplicable)("this device has no fp16")
    cause = device.cause()
    raise NotMeasured(why + (f": {cause}" if cause else ""))
