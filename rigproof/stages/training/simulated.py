"""Simulated training: precisions at one batch size, the largest batch, a sweep of batch sizes."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rigproof.profiles.kinds.stages import StagePlan
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.records.measurements import Event, Labels, Round
from rigproof.simulation.faults.injected import InjectedFault
from rigproof.simulation.faults.kinds import FaultKind, no_peer
from rigproof.simulation.stage import CardWork, Records, SimulatedForm
from rigproof.simulation.timetable import Segment, Work
from rigproof.simulation.work.task import RATE_NOISE, Task
from rigproof.stages.training.checks import REFERENCE
from rigproof.stages.training.stage import SPEEDUP, STEP, TrainingSettings, TrainingSpec

COMPARED = 0.4  # of the stage: until some of the fp16 steps were measured with which the sweep is compared


def unnoticed(fault: InjectedFault, work: CardWork) -> str:
    """A card with neither a figure of its model nor a peer is held against itself: its rate has to fall."""
    sku = work.device.sku
    known = sku is not None and sku.steady.figure(STEP.name) is not None
    if fault.name != "throughput-sag" or known or not no_peer(work.loaded, work.device):
        return ""
    share, after = work.device.limits.best_quarter_share, fault.after
    early = (
        fault.stage != "training"
        or after is None
        or after.value == 0
        or (after.share and after.value < COMPARED)
    )
    if share is not None and not early and (fault.by or 0.0) > 1 - share:
        return ""
    alone = "no training step was measured on this card's model, and it has no peer"
    least = (
        "" if share is None else f": write stage=training, after=40% and by={1 - share + 0.1:.0%}, or more"
    )
    return f"{alone}{least}"


def _no_speedup(_loaded: LoadedRig, device: PromisedDevice) -> str:
    known = device.sku is not None and device.sku.steady.figure(SPEEDUP.name) is not None
    return (
        ""
        if known or device.settings(TrainingSettings).training_speedup is not None
        else "no speed-up is known for this card"
    )


FAULTS = (
    FaultKind(
        "tensor-cores-unused",
        "16-bit training steps take as long as 32-bit ones",
        ("precision.speedup", "training.step"),
        keys=("stage",),
        stage="training",
        lacks=_no_speedup,
    ),
)


# One H200: fp32 1965 to 1980 MHz and 663 W (633 to 750), tf32
# 1770 MHz (1545 to 1905) and 676 W (580 to 828), fp16 1605 MHz (1335 to 1950) and 704 W (510 to 829).
WORK = {
    "fp32": Work(0.99, 0.975, 0.035, 0.003),
    "tf32": Work(0.894, 0.985, 0.05, 0.03),
    "fp16": Work(0.80, 0.98, 0.06, 0.04),
}
SEARCH = Work(0.745, 0.98, 0.06, 0.03)  # 1485 MHz, 151 to 889 W: its probes are short
SWEEP_SMALL = Work(0.99, 0.85, 0.06, 0.004)  # batches up to 4: 1935 to 1980 MHz, 528 to 665 W
SWEEP_LARGE = Work(0.78, 0.98, 0.06, 0.03)
SETUP, ROUND, ROUNDS = 0.03, 0.0205, 7  # shares of the stage; rounds of a precision
ALL = 0.985  # share of the stage until the last batch is done
SCALER_SHARE = 0.015  # fp16's first steps wait for the host: 0.7 s at 121 W (on an H200)
SEARCH_SHARES, SWEEP_ROUND, SWEEP_ROUNDS = (0.05, 0.05, 0.05), 0.0075, 7  # to its end, as on GPUs
MODEL = {"width": 2496, "blocks": 8, "vocabulary": 8192, "parameters": 640_296_384}
STEP_SHARE = ROUND / 3.3  # of the stage: an fp32 step of the compared batch; three in a round
UNKNOWN_SPEEDUP = 3.0  # of fp16 over fp32 at least, on a card for which it was not measured
WARM_UP = 2
MODEL_RATE = 0.66  # relative to a plain GEMM in fp16; measured on H200s: 424 of 643 TFLOP/s
PROBES = (0.4, 0.7, 0.95)  # of the largest batch
APART = 1.2e-5  # of the losses in fp16 and tf32 from those in fp32, on H100 and H200


def segments(plan: StagePlan, work: CardWork) -> Iterator[Segment]:
    """The compared precisions, the probes of the search, the batches of the sweep; set-up in between.

    With fewer of them all come later: a real device has more time for each, and ends no earlier.
    """
    training, length_s = work.device.settings(TrainingSettings), plan.expected_s
    precisions = ROUNDS * ROUND * len(set(WORK) & set(work.precisions))
    sweep = len(training.batches) * (SWEEP_ROUNDS + 1) * SWEEP_ROUND
    parts = precisions + sweep + training.search * sum(SEARCH_SHARES) + SCALER_SHARE
    t_s = max(SETUP, ALL - parts) * length_s
    batch, best = training.batch, ""
    for best in (precision for precision in WORK if precision in work.precisions):
        t_s += SCALER_SHARE * length_s if best == "fp16" else 0.0
        to_s = t_s + ROUNDS * ROUND * length_s
        yield Segment(t_s, to_s, WORK[best], "precision", best, batch)
        t_s = to_s
    for share in SEARCH_SHARES if training.search else ():
        yield Segment(t_s, t_s + share * length_s, SEARCH, "search", best, batch)
        t_s += share * length_s
    for tried in training.batches:
        swept = SWEEP_SMALL if tried < batch else SWEEP_LARGE
        to_s = t_s + (SWEEP_ROUNDS + 1) * SWEEP_ROUND * length_s
        yield Segment(t_s, to_s, swept, "sweep", best, tried)
        t_s = to_s


def _unknown_speedup(task: Task, fp16_tflops: float) -> float:
    """Speed-up of fp16 over fp32 where none was measured, so high that fp32 never beats its own products."""
    fp32_tflops = MODEL_RATE * task.card.steady_tflops("fp32")
    return max(UNKNOWN_SPEEDUP, fp16_tflops / fp32_tflops) if fp32_tflops else UNKNOWN_SPEEDUP


def records(task: Task, spec: TrainingSpec) -> Records:
    """Rounds of training steps, and the events of the search."""
    known, known_step = (task.card.sku.steady.figure(kind.name) for kind in (SPEEDUP, STEP))
    length_s = spec.duration_s
    step_s = STEP_SHARE * length_s  # fp32, `batch` examples
    fp16_tflops = (
        known_step.value * task.card.limit_scale
        if known_step is not None
        else MODEL_RATE * task.card.steady_tflops("fp16")
    )
    healthy = speedup = known.value if known is not None else _unknown_speedup(task, fp16_tflops)
    if task.fault("tensor-cores-unused"):
        speedup = 1.0
    example_tflop = fp16_tflops * step_s / healthy / spec.batch
    faster = {"fp32": 1.0, "tf32": max(1.0, speedup / 2.3), "fp16": speedup}
    data: dict[str, Any] = {**MODEL, "sequence": spec.sequence, "held_mib": spec.model_share * spec.vram_mib}
    t_s = task.start_s + SETUP * length_s
    yield task.event(t_s, "model", "640.3 M parameters", data)

    def steps(t_s: float, part: str, precision: str, batch: int, of_s: float) -> Round:
        """A round of about `of_s` from `t_s` on."""
        speed = task.speed(t_s, t_s + of_s) * (1 + task.noise.gauss(0, RATE_NOISE))
        each_s = step_s * batch / spec.batch / faster[precision] / speed
        number = max(1, int(of_s / each_s))
        seconds = number * each_s
        tflop = number * batch * example_tflop
        labels: Labels = {
            "precision": precision,
            "size": MODEL["width"],
            "part": part,
            "batch": batch,
            "steps": number,
        }
        return task.round(t_s + seconds, "measure", seconds, tflop, labels=labels)

    best = ""
    for segment in task.segments("precision"):
        best, t_s = segment.precision, max(t_s, segment.from_s)
        for number in range(ROUNDS):
            made = steps(t_s, "precision", best, spec.batch, ROUND * length_s)
            t_s = made.t_s
            yield replace(made, phase="warmup") if number < WARM_UP else made
        yield _outcome(task, t_s, best, spec.batch)
    room_mib = task.node.vram(task.plan.subject).room_mib(task.workers)
    limit_mib = min(spec.target_share * task.card.memory_mib, room_mib - spec.reserve_mib)
    largest = max(spec.batch, int((limit_mib - 5000) / 450))
    search: dict[str, Any] = {"precision": best, "limit_mib": limit_mib}
    for share, segment in zip(PROBES, task.segments("search"), strict=False):
        t_s = max(t_s, segment.from_s)
        batch = max(1, int(share * largest))
        made = steps(t_s, "search", best, min(batch, spec.batch), 0.9 * (segment.to_s - segment.from_s))
        t_s = made.t_s
        yield made
        data = {**search, "what": "probe", "batch": batch, "peak_mib": share * limit_mib}
        yield task.event(t_s, "batch_search", f"batch {batch} tried", data)
    if spec.search:
        data = {**search, "what": "largest", "batch": largest, "peak_mib": 0.97 * limit_mib}
        message = f"the largest batch is {largest}"
        yield task.event(t_s, "batch_search", message, {**data, "complete": True, "too_large": largest + 9})
    for segment in task.segments("sweep"):
        t_s = max(t_s, segment.from_s)
        for number in range(SWEEP_ROUNDS):
            made = steps(t_s, "sweep", best, segment.batch, SWEEP_ROUND * length_s)
            t_s = made.t_s
            yield replace(made, phase="warmup") if number == 0 else made  # so a change of batch is no pause
        data = {**search, "what": "sweep", "batch": segment.batch, "peak_mib": 5000.0 + 450 * segment.batch}
        yield task.event(t_s, "batch_search", f"sweep {segment.batch}", data)
    yield task.memory(t_s, 2000.0)


def _outcome(task: Task, t_s: float, precision: str, batch: int) -> Event:
    """What is reported of a precision's losses."""
    ends = {"precision": precision, "batch": batch, "first_loss": 9.5, "last_loss": 2.1, "overflows": 0}
    apart = None if precision == REFERENCE else APART
    return task.event(t_s, "training", f"{precision}: loss 9.500 to 2.100", ends | {"difference": apart})


SIMULATED = SimulatedForm(
    segments, records, holds="most", unnoticed=unnoticed, least_by={"throughput-sag": 0.2}
)
