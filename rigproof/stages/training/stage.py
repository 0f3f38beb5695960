"""The training stage: its settings, and what each worker is told."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pydantic import Field

from rigproof.devices.specs import Spec
from rigproof.profiles.kinds.figures import SLOWEST_TFLOPS, FigureKind, peak_of
from rigproof.profiles.kinds.stages import Label
from rigproof.profiles.lint.stated import problems_where_stated, rig_problem
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.planning.plan import NO_POLICY, MemoryPlan, WorkerPlan
from rigproof.profiles.planning.planning import MIB_PER_GIB, device_plan
from rigproof.profiles.tables.base import Flag, Meaningful, NotNegative, Portion, Positive, Share, optional
from rigproof.profiles.tables.gpu import Count, OfEight
from rigproof.profiles.tables.levels import LevelName
from rigproof.profiles.tables.sku import PRECISIONS
from rigproof.profiles.tables.stages import OptionalSettings
from rigproof.records.measurements import Event
from rigproof.stages.kind import StageKind, StageWork

# A training step in fp16, relative to fp32 without tf32: 9 measured on an H200, 14.8 by its printed peaks.
SPEEDUP_LOWEST, SPEEDUP_HIGHEST = 1.0, 20.0


class TrainingSettings(OptionalSettings):
    """Training steps of a small transformer, whose size follows from the device's memory."""

    sequence: OfEight = Field(description="Length of each example, in tokens.")
    model_share: Portion = Field(
        description="Share of the memory of the GPU's workers that weights, gradients and optimizer take; "
        "the model is as wide as fits."
    )
    batches: tuple[Count, ...] = Field(
        description="Batch sizes, in examples, whose speed is measured at the end. Those that do not fit "
        "are left out."
    )
    batch: Count = Field(
        description="Batch size, in examples, at which the precisions are compared. If it does not fit in "
        "fp32, the largest that does."
    )
    search: Flag = Field(
        description="true: the largest batch that fits is searched for. false: that part is skipped."
    )
    target_share: Share = Field(
        description="Largest share of the card's memory that may be in use while it trains."
    )
    reserve_gib: NotNegative = Field(
        description="Memory, in GiB, that training leaves free on the card, if that is more than "
        "target_share leaves."
    )
    tf32: Flag = Field(description="true: what 16-bit steps still compute in 32 bits may use tf32.")
    cudnn_benchmark: Flag = Field(description="true: cuDNN tries its algorithms and chooses the fastest.")
    training_unknown_share: Share | None = optional(
        "For cards without a figure of a training step in a SKU file: its smallest rate, as a "
        "share of the card's own fp16 rate in the gemm stage.",
        Meaningful(0.05, 0.65, "passes a card that hardly trains", "fails sound cards"),
    )
    # Measured: 0.66 on an H200.
    precision_share: Share | None = optional(
        "Smallest rate of a training step in fp32 and in tf32, as a share of what follows from the card's "
        "step in fp16. That step reaches some share of the card's fp16 products in the gemm stage; the "
        "others should reach the same share of the products in their own precision.",
        Meaningful(0.3, 0.9, "passes a precision that hardly trains", "fails sound cards"),
    )
    host_paced_share: Share | None = optional(
        "A step of the sweep that takes at least this share of the time of one with more examples waits for "
        "its host, which launches its kernels one by one: it is not held against other cards, nor is its "
        "fall within the stage the card's.",
        Meaningful(lowest=0.6, below="excuses steps whose pace the card sets"),
    )
    training_speedup: Positive | None = optional(
        "How many times faster than in fp32 a training step must be in fp16. Left out: a share "
        "of the SKU file's figure, if it has one.",
        Meaningful(
            SPEEDUP_LOWEST,
            SPEEDUP_HIGHEST,
            "passes a card that 16-bit slows down",
            "is more than any card reaches",
        ),
    )


STEP = FigureKind(
    "training_tflops",
    "training steps in fp16 (autocast), by the operations that docs/training.md counts",
    precision="fp16",
    own_size=True,
    peak=peak_of("fp16"),
    lowest_share=0.10,  # a step also has norms, attention and an optimizer: 0.43 measured on an H200
    slowest=SLOWEST_TFLOPS,
    conditions=("batch",),
    architecture=False,
    otherwise="by its own products in fp16",
    larger="no_floor",  # a step of a smaller model or batch is slower on every card
)
SPEEDUP = FigureKind(
    "training_speedup",
    "time of a training step in fp32 (without tf32) / in fp16 (autocast)",
    unit="×",
    floor=False,
    precision="fp16",
    own_size=True,
    bounds=(SPEEDUP_LOWEST, SPEEDUP_HIGHEST),
    conditions=("batch",),
    architecture=False,
    larger="printed",
    scaled=False,
)


@dataclass(frozen=True, slots=True)
class TrainingSpec(Spec):
    """Train a small transformer, sized from `vram_mib`, for `duration_s`: precisions, batch search, sweep.

    `batch` is the batch size at which the precisions are compared; `batches` those of the sweep. The search
    uses at most `target_share` of the device's memory and leaves `reserve_mib` of it free.
    """

    vram_mib: float
    duration_s: float
    round_s: float
    sequence: int
    model_share: float
    batch: int
    batches: tuple[int, ...]
    search: bool
    target_share: float
    reserve_mib: float
    tf32: bool
    cudnn_benchmark: bool
    memory: MemoryPlan = NO_POLICY


def spec(work: StageWork, worker: WorkerPlan, own: TrainingSettings) -> Spec:
    """One worker of each device trains, with the memory of all the device's workers."""
    return TrainingSpec(
        stage=work.stage.name,
        vram_mib=work.plan.vram_mib_beside(worker),
        duration_s=work.stage.measure_s,
        round_s=work.stage.round_s,
        sequence=own.sequence,
        model_share=own.model_share,
        batch=own.batch,
        batches=own.batches,
        search=own.search,
        target_share=own.target_share,
        reserve_mib=own.reserve_gib * MIB_PER_GIB,
        tf32=own.tf32,
        cudnn_benchmark=own.cudnn_benchmark,
        memory=work.plan.memory_beside(worker),
    )


TABLE = "stages.training"
# Fewer samples of measured work fail no card (criteria/evidence/loads.py). Of 30 s of training, 3 s were
# measured work on an H200.
FEWEST_SAMPLES, MEASURED_SHARE = 5, 0.1


def problems(loaded: LoadedRig, level: LevelName) -> Iterator[str]:
    """Problems with each device's training, and with the sampling rate."""
    for device in loaded.devices():
        yield from _work_problems(loaded, device)
    yield from _rate_problems(loaded, level)


def _work_problems(loaded: LoadedRig, device: PromisedDevice) -> Iterator[str]:
    training, memory_gib = device.settings(TrainingSettings), device_plan(loaded, device).memory_gib
    batches, batch = training.batches, training.batch
    if memory_gib is not None and training.reserve_gib >= memory_gib:
        wrong = f"all of the {memory_gib:g} GiB of {device.subject}, so no batch is ever tried"
        way_out = "write e.g. 2.0, or a tenth of the card"
        yield from problems_where_stated(loaded, device, (f"{TABLE}.reserve_gib",), wrong, way_out)
    if not batches or any(after <= before for before, after in pairwise(batches)):
        wrong = "each batch size must exceed the previous one" if batches else "no batch size to measure"
        way_out = "write e.g. [1, 2, 4, 8, 16]"
        yield from problems_where_stated(loaded, device, (f"{TABLE}.batches",), wrong, way_out)
    least = loaded.memory_of(device).least_batch
    if least > batch:
        wrong = f"least_batch = {least} is over {TABLE}.batch = {batch}: a failure cannot make it smaller"
        names = ("memory.least_batch", f"{TABLE}.batch")
        yield from problems_where_stated(loaded, device, names, wrong, f"write least_batch = {batch} or less")


def _rate_problems(loaded: LoadedRig, level: LevelName) -> Iterator[str]:
    """A stated `sampling.rate_hz` at which the level's training gives too few samples to fail a card."""
    key, rate_hz = "sampling.rate_hz", loaded.rig.sampling.rate_hz
    length_s = loaded.settings(TrainingSettings).length_s.at(level)
    if not loaded.states(key) or not length_s:
        return
    least_hz = FEWEST_SAMPLES / (MEASURED_SHARE * length_s)
    if rate_hz < least_hz:
        wrong = (
            f"of {length_s:g} s of training at the {level} level a tenth may be measured work, with fewer "
            f"than the {FEWEST_SAMPLES} samples needed to fail a card"
        )
        yield rig_problem(loaded, key, rate_hz, wrong, f"write {math.ceil(least_hz)} or more")


def _skipped(events: Sequence[Event]) -> bool:
    """Whether a batch of the sweep did not fit: the largest come last, and nothing is done in their time."""
    return any(one.kind == "batch_search" and one.data.get("what") == "skipped" for one in events)


KIND = StageKind(
    "training",
    "bursts",
    TrainingSettings,
    (STEP, SPEEDUP),
    spec=spec,
    shortest_s=3.8,
    lint=problems,
    labels=(
        Label("precision", str, PRECISIONS, work=True),
        # "precision", "search" or "sweep"; a search allocates memory between its steps
        Label("part", str, work=True, rests=("search",)),
        Label("size", int),  # the model's width
        Label("batch", int, larger=True),  # examples of each step
        Label("steps", int, amount=True),  # of the round
    ),
    left_out=_skipped,
    events={
        "model": "the model that is trained; data.width, blocks, vocabulary, sequence, parameters, held_mib",
        "training": "the outcome of a precision's steps; data.precision, batch, first_loss, last_loss, …",
        "batch_search": "a batch size's memory; data.what, batch, peak_mib, limit_mib",
        "overflow": "fp16 training steps that overflowed and made no update; data.precision, batch, steps",
    },
    quiet_events=("batch_search", "model", "overflow", "training"),
)
