"""The replay stage: its settings, and what each worker is told."""

from dataclasses import dataclass
from typing import Annotated

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
from rigproof.stages.replay.places import Part, Place

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
