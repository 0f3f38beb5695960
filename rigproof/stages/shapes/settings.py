"""The shapes stage's table in a profile."""

from pydantic import Field

from rigproof.profiles.tables.base import Share
from rigproof.profiles.tables.stages import OptionalSettings
from rigproof.profiles.tables.work import Count, OfEight, Portion

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
    own_share: Share | None = Field(
        default=None,
        description="Smallest rate of the fastest product, as a share of what follows from the card's own "
        "products in the same precision.",
    )
