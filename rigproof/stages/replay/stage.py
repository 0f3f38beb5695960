"""The replay stage: its settings, the values of a training step, and what each worker is told."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from rigproof.devices.specs import Spec
from rigproof.profiles.kinds.stages import HeldAgainst, Label, Need
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.profiles.tables.base import Meaningful, Portion, Share, optional
from rigproof.profiles.tables.gpu import Count, OfEight
from rigproof.profiles.tables.sku import PRECISIONS
from rigproof.profiles.tables.stages import OptionalSettings
from rigproof.records.measurements import TFLOP
from rigproof.stages.kind import StageKind, StageWork

Part = Literal["start", "forward", "gradient", "parameter"]
EMBEDDINGS, HEAD, LOSS = "embeddings", "head", "loss"
BEFORE = ("tokens", "positions")  # parameters of the embeddings
IN_A_BLOCK = ("attention_norm", "queries_keys_values", "attended", "mlp_norm", "up", "down")
BEHIND = ("norm", "head")  # parameters of the head


@dataclass(frozen=True, slots=True)
class Place:
    """One value: the start (step 0), or in a step an output, a gradient or an updated parameter.

    `block`: `embeddings`, `block 0`, …, `head` or `loss`. `parameter`: its name in the block; empty for an
    output.
    """

    step: int  # from 1 on; 0: before the first one
    part: Part
    block: str
    parameter: str = ""

    @property
    def in_words(self) -> str:
        """The place in the words of a report: `step 3, gradient of block 5, up`."""
        what = ", ".join(filter(None, (self.block, self.parameter)))
        if self.part == "start":
            return f"the start, {what}"
        if self.block == LOSS:
            return f"step {self.step}, the loss"
        name = {"forward": "output", "gradient": "gradient", "parameter": "updated weights"}[self.part]
        return f"step {self.step}, {name} of {what}"


def parameters_of(blocks: int) -> tuple[tuple[str, str], ...]:
    """Block and name of each parameter of a model, in the model's order."""
    inner = ((f"block {number}", name) for number in range(blocks) for name in IN_A_BLOCK)
    return (*((EMBEDDINGS, name) for name in BEFORE), *inner, *((HEAD, name) for name in BEHIND))


def outputs_of(blocks: int) -> tuple[str, ...]:
    """What the forward pass computes, in its order."""
    return (EMBEDDINGS, *(f"block {number}" for number in range(blocks)), HEAD, LOSS)


def number_of(blocks: int, steps: int) -> int:
    """How many values a run has."""
    parameters, outputs = len(IN_A_BLOCK) * blocks + len(BEFORE) + len(BEHIND), blocks + 3
    return 1 + parameters + steps * (outputs + 2 * parameters)


def places_of(blocks: int, steps: int) -> tuple[Place, ...]:
    """All values of a run, in the order in which one leads to the next.

    So the first one that differs is where the difference began.
    """
    return tuple(_places(blocks, steps))


def _places(blocks: int, steps: int) -> Iterator[Place]:
    parameters, outputs = parameters_of(blocks), outputs_of(blocks)
    yield Place(0, "start", "batch")
    for block, name in parameters:
        yield Place(0, "start", block, name)
    for step in range(1, steps + 1):
        for output in outputs:
            yield Place(step, "forward", output)
        for block, name in reversed(parameters):  # as the backward pass goes
            yield Place(step, "gradient", block, name)
        for block, name in parameters:
            yield Place(step, "parameter", block, name)


STAGE = "replay"
# Fewer do not show that the loss falls; the most is what a round of steps has room for.
Steps = Annotated[int, Field(ge=4, le=256, strict=True)]


class ReplaySettings(OptionalSettings):
    """Some training steps, repeated from the same start: every value must have the same bits each time."""

    sequence: OfEight = Field(description="Length of each example, in tokens.")
    model_share: Portion = Field(
        description="Share of the memory of the GPU's workers that weights, gradients and optimizer take; "
        "the model is as wide as fits."
    )
    batch: Count = Field(description="Number of examples in a step.")
    steps: Steps = Field(description="Number of steps that are repeated.")
    # Measured after eight steps: 0.93 for a model of width 64, 0.69 for one of width 256.
    loss_share: Share | None = optional(
        "Highest loss of the last step, as a share of the first one's: the batch is the same in "
        "every step, so its loss must fall.",
        Meaningful(0.5, 0.99, "fails sound cards", "passes steps that hardly train"),
    )
    own_share: Share | None = optional(
        "Smallest rate of the steps, as a share of what follows from the card's own training "
        "steps of the same model and batch."
    )


@dataclass(frozen=True, slots=True)
class StepDigest:
    """The checksum of one value of the first run of the steps; all other runs are compared with it.

    Its fields from `step` on are those of a `Place`.
    """

    t_s: float  # run time of the run's end
    stage: str
    worker: str
    subject: str
    step: int
    part: Part
    block: str
    parameter: str
    digest: str  # of the value's memory as integers, hexadecimal

    @property
    def place(self) -> Place:
        """The value that it is the checksum of."""
        return Place(self.step, self.part, self.block, self.parameter)


@dataclass(frozen=True, slots=True)
class ReplaySpec(Spec):
    """Train a model, sized from `vram_mib`, for a few steps, from the same start again and again."""

    vram_mib: float
    duration_s: float
    sequence: int
    model_share: float
    batch: int
    steps: int


def spec(work: StageWork, worker: WorkerPlan, own: ReplaySettings) -> Spec:
    """One worker of each device trains, with the memory of all the device's workers."""
    return ReplaySpec(
        stage=STAGE,
        vram_mib=work.plan.vram_mib_beside(worker),
        duration_s=work.stage.measure_s,
        sequence=own.sequence,
        model_share=own.model_share,
        batch=own.batch,
        steps=own.steps,
    )


KIND = StageKind(
    STAGE,
    "bursts",
    ReplaySettings,
    spec=spec,
    shortest_s=4.0,
    labels=(
        Label("precision", str, PRECISIONS, work=True),
        Label("size", int),  # the model's width
        Label("batch", int, told=True),  # examples of each step
        Label("steps", int, amount=True, told=True),  # of the round
    ),
    held_against=HeldAgainst("training steps", (Need(TFLOP, ("size", "batch")),)),
    events={"replay": "the outcome of a device's replayed steps; data.precision, width, losses, runs, …"},
    quiet_events=("replay",),
)
