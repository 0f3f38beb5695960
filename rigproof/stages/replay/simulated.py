"""Simulated replay: runs of training steps whose checksums are the same on every card of a model."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import cache
from hashlib import sha256
from typing import Any

from rigproof.profiles.kinds.stages import StagePlan
from rigproof.records.measurements import Labels, Phase
from rigproof.simulation.faults.kinds import FaultKind
from rigproof.simulation.stage import CardWork, Records, SimulatedForm
from rigproof.simulation.timetable import Segment, Work
from rigproof.simulation.work.task import RATE_NOISE, Task
from rigproof.stages.replay.stage import Place, ReplaySpec, StepDigest, places_of

FAULTS = (
    FaultKind(
        "wrong-gradient",
        "one bit of one gradient flips in one of the replayed runs of training steps",
        ("training.replay", "compute.exact", "activity.gpu_active"),
        keys=("stage",),
        stage="replay",
    ),
    FaultKind(
        "loss-stuck",
        "training steps repeat bit by bit, but train nothing: the loss does not fall",
        ("training.loss",),
        keys=("stage",),
        stage="replay",
    ),
)


# As the training stage's 16-bit steps: an H200 at 1605 MHz and 704 W.
STEPPING = Work(0.80, 0.98, 0.06, 0.04)
SETUP_S = 0.5  # weights, the first use of each kernel
RUN_S = 0.4
MODEL = {"width": 2496, "blocks": 8, "vocabulary": 8192}
RATE = 0.42  # of plain products: 0.65 of training steps; a strict attention and the checksums cost the rest
FIRST_LOSS, KEPT = 9.514, 0.93  # and the share of it that each step leaves; an H200's is 0.48 after ten
SPOILED_RUN = 2
SPOILED = Place(3, "gradient", "block 5", "up")


def segments(plan: StagePlan, work: CardWork) -> Iterator[Segment]:
    """One run after the other."""
    yield Segment(SETUP_S, plan.expected_s, STEPPING, precision=work.half)


def records(task: Task, spec: ReplaySpec) -> Records:
    """A round of each run, then the checksums of the first one."""
    [segment] = task.segments()
    precision, t_s, runs, differing = segment.precision, segment.from_s, 0, 0
    labels: Labels = {
        "precision": precision,
        "size": MODEL["width"],
        "batch": spec.batch,
        "steps": spec.steps,
    }
    while t_s + RUN_S <= segment.to_s or runs < 2:
        runs += 1
        seconds = RUN_S * (1 + abs(task.noise.gauss(0, RATE_NOISE)))
        tflop = RATE * task.rate(precision, t_s, t_s + seconds) * seconds
        t_s += seconds
        if runs == SPOILED_RUN and task.fault("wrong-gradient"):
            differing += 1
            data: dict[str, Any] = {"run": runs, "step": SPOILED.step, "block": SPOILED.block}
            message = f"{precision} run {runs} differs: {SPOILED.in_words} (one bit)"
            yield task.event(t_s, "wrong_result", message, data)
        phase: Phase = "warmup" if runs == 1 else "measure"
        done = task.round(t_s, phase, seconds, tflop, labels=labels)
        yield replace(done, verified=not (differing and runs == SPOILED_RUN))
    wrong = int(task.fault("wrong-arithmetic") is not None)
    places = places_of(MODEL["blocks"], spec.steps)
    for place, digest in zip(places, digests(task.card.sku.name, spec.steps), strict=True):
        shown = f"{digest ^ (wrong if place.step else 0):016x}"
        own = (t_s, spec.stage, task.plan.worker, task.plan.subject)
        yield StepDigest(*own, **asdict(place), digest=shown)
    kept = 1.0 if task.fault("loss-stuck") else KEPT
    yield task.event(
        t_s,
        "replay",
        f"{runs} runs of {spec.steps} {precision} steps",
        {
            **MODEL,
            "precision": precision,
            "sequence": spec.sequence,
            "batch": spec.batch,
            "steps": spec.steps,
            "runs": runs,
            "differing": differing,
            "losses": [f"{FIRST_LOSS * kept**step:.6g}" for step in range(spec.steps)],
            "device": task.card.sku.nvml_names[0],
            "torch": "simulated",
            "cublas": None,
            "multiprocessors": None,
            "capability": None,
        },
    )
    yield task.memory(t_s, 0.0)


@cache
def digests(sku: str, steps: int) -> tuple[int, ...]:
    """The checksums of a sound card of that model."""
    places = places_of(MODEL["blocks"], steps)
    return tuple(int(sha256(f"{sku}/{place}".encode()).hexdigest()[:16], 16) for place in places)


# Its rate is held against its best quarter, and against 0.45 of training steps.
SIMULATED = SimulatedForm(segments, records, least_by={"throughput-sag": 0.35})
