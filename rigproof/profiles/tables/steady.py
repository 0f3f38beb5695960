"""What a GPU model sustains when hot, figure by figure, and the evidence of each figure."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from rigproof.profiles.tables.base import AtLeastOne, GemmSize, Positive, Table


class Figure(Table):
    """One figure and its evidence. Without `cards` it is from a data sheet, or reported by others."""

    value: Positive = Field(
        description="The figure, in the unit that its name ends in (a speed-up: times as fast). If it was "
        "measured: the middle of all cards."
    )
    range: tuple[Positive, Positive] | None = Field(
        default=None, description="Lowest and highest figure of all runs and cards."
    )
    cards: AtLeastOne | None = Field(
        default=None,
        description="Number of cards on which rigproof measured it; then `size`, `workers` and `torch` are "
        "required. Left out: it was not measured, and only `value` is stated.",
    )
    size: GemmSize | None = Field(
        default=None,
        description="How it was measured: M = N = K of the products, the width of the trained model, or the "
        "side of the square fp32 buffer.",
    )
    workers: AtLeastOne | None = Field(
        default=None, description="How it was measured: number of processes on the card."
    )
    torch: str | None = Field(
        default=None,
        pattern=r"^\d+\.\d+$",
        description='How it was measured: version of torch, such as "2.11".',
    )
    precision: Literal["fp32", "tf32", "fp16", "bf16"] | None = Field(
        default=None,
        description="How it was measured: the precision, for a figure whose name does not say it.",
    )
    batch: AtLeastOne | None = Field(
        default=None, description="How it was measured: examples in a training step."
    )


class SteadyFigures(Table):
    """Rates that the model sustains when hot, at its default power limit. One that is left out is not known.

    The stages declare which figures there are.
    """

    products: ClassVar[Mapping[str, str]] = {}  # by precision: the name of the figure of plain products

    def figure(self, name: str) -> Figure | None:
        """The figure of that name; None if it is not known."""
        return getattr(self, name, None)

    def of_products(self, precision: str) -> Figure | None:
        """The figure of plain matrix products in a precision; None if it is not known."""
        return self.figure(self.products.get(precision, ""))
