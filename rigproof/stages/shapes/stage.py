"""The shapes stage: its settings, and what each worker is told.

It has a table, no criterion of its own: no size is anybody's fault.
"""

from dataclasses import dataclass

from pydantic import Field

from rigproof.devices.specs import Spec
from rigproof.profiles.kinds.stages import HeldAgainst, Label, Need
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.profiles.tables.base import Portion, Share, optional
from rigproof.profiles.tables.gpu import Count, OfEight
from rigproof.profiles.tables.sku import PRECISIONS
from rigproof.profiles.tables.stages import OptionalSettings
from rigproof.records.measurements import TFLOP
from rigproof.stages.kind import StageKind, StageWork

STAGE = "shapes"


class ShapesSettings(OptionalSettings):
    """The products of a training step in many sizes around the one that fits the card: which run best?"""

    sequence: OfEight = Field(description="Length of each example, in tokens.")
    model_share: Portion = Field(
        description="Share of the memory of the GPU's workers that weights, gradients and optimizer take; "
        "hidden sizes around the widest model that fits are measured."
    )
    tokens: Count = Field(
        description="Tokens of a step; halved until the largest product fits the memory of the GPU's workers."
    )
    own_share: Share | None = optional(
        "Smallest rate of the fastest product, as a share of what follows from the card's own "
        "products in the same precision."
    )


@dataclass(frozen=True, slots=True)
class ShapesSpec(Spec):
    """Measure products around the size of the model that fits `model_share` of `vram_mib`, in turn."""

    vram_mib: float
    duration_s: float
    sequence: int
    model_share: float
    tokens: int


def spec(work: StageWork, worker: WorkerPlan, own: ShapesSettings) -> Spec:
    """One worker of each device multiplies, with the memory of all the device's workers."""
    return ShapesSpec(
        stage=STAGE,
        vram_mib=work.plan.vram_mib_beside(worker),
        duration_s=work.stage.measure_s,
        sequence=own.sequence,
        model_share=own.model_share,
        tokens=own.tokens,
    )


KIND = StageKind(
    STAGE,
    "bursts",
    ShapesSettings,
    spec=spec,
    shortest_s=4.0,
    # `product` does not separate work: each is too short for the sensors, but all of them together are not.
    labels=(
        Label("precision", str, PRECISIONS, work=True),
        Label("size", int),  # the hidden size
        Label("product", str),
        Label("tokens", int),
    ),
    held_against=HeldAgainst("products", (Need(TFLOP, ("precision",)),)),
)
