"""What a GPU model sustains when hot, figure by figure, and the evidence of each figure."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rigproof.profiles.tables.base import GemmSize, Positive, Table

Count = Annotated[int, Field(gt=0, strict=True)]


class Figure(Table):
    """One figure. Without `cards` it is not measured here: from a data sheet, or reported by others."""

    value: Positive = Field(
        description="in the unit that its name ends in (of a speed-up: ×); the middle of all cards measured"
    )
    range: tuple[Positive, Positive] | None = Field(
        default=None, description="lowest and highest of all runs and cards"
    )
    cards: Count | None = Field(
        default=None, description="measured through rigproof, on so many; absent: none"
    )
    size: GemmSize | None = Field(
        default=None, description="then: M = N = K of the products, or the trained model's width"
    )
    workers: Count | None = Field(default=None, description="then: processes on the card")
    torch: str | None = Field(
        default=None, pattern=r"^\d+\.\d+$", description='then: torch\'s version, such as "2.11"'
    )
    precision: Literal["fp32", "tf32", "fp16", "bf16"] | None = Field(
        default=None, description="then: where the figure can be of several"
    )
    batch: Count | None = Field(default=None, description="then: examples in a step, where it has some")


class SteadyFigures(Table):
    """What the model sustains when hot, at its default power limit; an absent figure is not known.

    The stages declare which figures there are.
    """

    products: ClassVar[Mapping[str, str]] = {}  # by precision: the name of the figure of plain products

    def figure(self, name: str) -> Figure | None:
        """The figure of that name; None if it is not known."""
        return getattr(self, name, None)

    def of_products(self, precision: str) -> Figure | None:
        """The figure of plain matrix products in a precision; None if it is not known."""
        return self.figure(self.products.get(precision, ""))
