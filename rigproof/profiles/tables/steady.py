"""What a GPU model keeps up when it is hot, figure by figure, and what each figure rests on."""

from typing import Annotated, Literal

from pydantic import Field

from rigproof.profiles.tables.base import GemmSize, Positive, Table

Count = Annotated[int, Field(gt=0, strict=True)]
FigureName = Literal["fp32", "tf32", "fp16", "bf16", "fp8", "sustained", "training", "training_speedup"]


class Figure(Table):
    """One figure. Without `cards` it is a print: a data sheet's, or what others say that they reached."""

    value: Positive = Field(description="TFLOP/s (of training_speedup: ×); the middle of all cards measured")
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
        default=None, description="of sustained"
    )
    batch: Count | None = Field(default=None, description="of training: examples in a step")


class SteadyFigures(Table):
    """What the model keeps up when hot, under its default power limit; an absent figure is not known."""

    fp32: Figure | None = Field(default=None, description="large products, without tensor cores")
    tf32: Figure | None = Field(default=None, description="as above, fp32 operands on tensor cores")
    fp16: Figure | None = Field(default=None, description="as above, 32-bit accumulation")
    bf16: Figure | None = Field(default=None, description="as above, 32-bit accumulation")
    fp8: Figure | None = Field(default=None, description="as above, 32-bit accumulation")
    sustained: Figure | None = Field(default=None, description="the same with the memory filled")
    training: Figure | None = Field(
        default=None, description="a training step in fp16 autocast, by the work that the model counts"
    )
    training_speedup: Figure | None = Field(
        default=None, description="a training step in fp32 (without tf32) / in fp16 autocast"
    )
