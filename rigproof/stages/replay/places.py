"""Where in a training step a value is: its name, and the order in which one value leads to the next."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

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
