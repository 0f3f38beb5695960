"""Decides whether training steps are correct.

A run of steps begins with untrained weights, so that its first loss is known; then its losses must be those
of the same run in fp32, and stay below the first one, since the batch is the same in every step.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rigproof.devices.transformer.shape import Shape
from rigproof.devices.verification import ROUNDOFF

if TYPE_CHECKING:  # it imports torch, which criteria that use the tolerance do without
    from rigproof.devices.transformer.step import Steps

REFERENCE = "fp32"  # whose losses those of other precisions are compared with
TRAJECTORY = 4  # losses that are compared with those of fp32
MOST_OVERFLOWS = 16  # until the scale is low enough: GradScaler begins at 2^16 and halves it after each
# Losses differ by far less than an operand's rounding: at most 0.15 u in fp16 and 0.1 u in bf16, for models
# of width 64 to 512, since rounding errors average out over the tokens. A wrong gradient changes them by some
# per cent.
ROUNDOFFS_APART = 4


def tolerance(precision: str) -> float:
    """Largest relative difference of a loss from that of fp32: 4 × the unit roundoff of the operands."""
    return ROUNDOFFS_APART * ROUNDOFF[precision]


class Judge:
    """Checks the steps of one run as they are done.

    `reference`: the first losses of the same run in fp32; `sound`: whether those were correct. The attribute
    `sound`: no error so far that makes later results worthless.
    """

    def __init__(
        self, shape: Shape, precision: str, reference: Sequence[float] | None = None, *, sound: bool = True
    ) -> None:
        self._shape = shape
        self.precision = precision
        self._reference = reference
        self.sound = sound
        self.losses: list[float] = []  # before each of the first updates that were made
        self.overflows = 0
        self._steps = 0
        self.difference = 0.0  # largest relative difference from the reference
        self.first: float | None = None
        self.last: float | None = None

    @property
    def warm(self) -> bool:
        """Whether the comparison with fp32 is complete, or will not be."""
        return len(self.losses) >= TRAJECTORY or self._steps >= TRAJECTORY + MOST_OVERFLOWS

    def take(self, steps: "Steps") -> tuple[bool, str]:
        """Whether the round counts as verified, and what is newly wrong; empty if nothing is.

        An overflow in fp16 is not an error, but its step made no update, so its round does not count.
        """
        wrong = ""
        for loss, norm in zip(steps.losses, steps.norms, strict=True):
            wrong = self._wrong(loss, norm) or wrong
        self._steps += steps.count
        self.overflows += steps.overflows
        if not wrong and self.sound and self.overflows >= MOST_OVERFLOWS and len(self.losses) < TRAJECTORY:
            self.sound = False
            wrong = f"{self.overflows} steps without a finite gradient in {self.precision}"
        return self.sound and not wrong and not steps.overflows, wrong

    def _wrong(self, loss: float, norm: float) -> str:
        self.last = loss
        if not math.isfinite(loss):
            self.sound = False
            return f"the loss is {loss} in {self.precision}"
        if self.first is None:
            self.first = loss
            if not self._shape.may_be_first(loss):
                self.sound = False
                expected = self._shape.first_loss
                return f"the untrained model's loss is {loss:.4f} in {self.precision}, not {expected:.4f}"
        if not math.isfinite(norm):
            return "" if self.precision == "fp16" else f"a gradient is {norm} in {self.precision}"
        if len(self.losses) < TRAJECTORY:
            self.losses.append(loss)
            return self._apart(len(self.losses) - 1, loss)
        if loss >= self.first:
            return f"the loss has not fallen in {self.precision}: {loss:.4f} after {self.first:.4f}"
        return ""

    def _apart(self, place: int, loss: float) -> str:
        if self._reference is None or place >= len(self._reference):
            return ""
        expected = self._reference[place]
        difference = abs(loss - expected) / expected
        self.difference = max(self.difference, difference)
        if difference <= tolerance(self.precision):
            return ""
        self.sound = False
        return (
            f"loss {place + 1} is {loss:.5f} in {self.precision} and {expected:.5f} in fp32: "
            f"{difference:.2g} apart, tolerance {tolerance(self.precision):.2g}"
        )
