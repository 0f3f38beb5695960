"""The size of the small transformer that is trained, and the work of one step. Plain numbers: no torch."""

import math
from dataclasses import dataclass

from rigproof.records.identity import DeviceKind

HEAD = 64  # width of an attention head
BLOCKS = 8
VOCABULARY = 8192
MLP = 4  # times the width
WIDTHS = range(HEAD, 16384 + 1, HEAD)
DEVIATION = 0.02  # of the initial weights, as in GPT-2
# 32-bit weight, gradient and AdamW's two averages; the same in mixed precision.
BYTES_PER_PARAMETER = 16
FIRST_LOSS_SHARE = 0.02  # of the first loss: its spread over random weights and targets
MIB_BYTES = 2**20
# On the CPU: so that every part of a stage runs in seconds, not to measure anything.
TINY_BLOCKS, TINY_VOCABULARY, TINY_SEQUENCE = 2, 256, 64


@dataclass(frozen=True, slots=True)
class Shape:
    """A decoder's dimensions, all multiples of 8 (for tensor cores) except the number of blocks."""

    width: int
    blocks: int
    vocabulary: int
    sequence: int  # tokens of an example

    @property
    def multiplied(self) -> int:
        """Parameters that each token is multiplied with: 12 · width² per block, and the head."""
        return self.blocks * (4 + 2 * MLP) * self.width**2 + self.vocabulary * self.width

    @property
    def parameters(self) -> int:
        """All parameters, including the embeddings of tokens and positions, and the norms' scales."""
        looked_up = (self.vocabulary + self.sequence) * self.width
        return self.multiplied + looked_up + (2 * self.blocks + 1) * self.width

    @property
    def held_mib(self) -> float:
        """Memory for weights, gradients and AdamW's averages."""
        return self.parameters * BYTES_PER_PARAMETER / MIB_BYTES

    @property
    def most_examples(self) -> int:
        """The largest batch whose widest tensor has under 2^31 elements: some kernels cannot index more."""
        return max(1, (2**31 - 1) // (self.sequence * max(self.vocabulary, MLP * self.width)))

    def step_flop(self, batch: int) -> float:
        """Operations of one step over `batch` examples.

            (6 N + 12 · blocks · width · sequence) × tokens

        N are the parameters that a token is multiplied with; forward takes 2 operations for each, backward 4
        (Kaplan et al. 2020, "Scaling Laws for Neural Language Models", 2.1). The second term is attention's
        two products, masked half included (Chowdhery et al. 2022, "PaLM", appendix B). Norms,
        activations and the optimizer are not counted.
        """
        attention = 12 * self.blocks * self.width * self.sequence
        return (6 * self.multiplied + attention) * batch * self.sequence

    @property
    def first_loss(self) -> float:
        """The loss of an untrained model on random targets, in nats: ln V + s² / 2.

        Its logits are sums of `width` products of normalised activations with weights of DEVIATION, so normal
        with s² = width × DEVIATION²; the mean of their exponentials over V tokens is exp(s² / 2).
        """
        return math.log(self.vocabulary) + self.width * DEVIATION**2 / 2

    def may_be_first(self, loss: float) -> bool:
        """Whether an untrained model can have this loss; a NaN never is."""
        return abs(loss - self.first_loss) <= FIRST_LOSS_SHARE * self.first_loss


def shape_for(kind: DeviceKind, memory_mib: float, model_share: float, sequence: int) -> Shape:
    """The widest model whose weights, gradients and optimizer fit into `model_share` of the memory.

    The CPU gets a tiny one. Raises ValueError if not even the narrowest fits.
    """
    if kind == "cpu":
        return Shape(HEAD, TINY_BLOCKS, TINY_VOCABULARY, min(sequence, TINY_SEQUENCE))
    room_mib = model_share * memory_mib
    fitting = None
    for width in WIDTHS:
        shape = Shape(width, BLOCKS, VOCABULARY, sequence)
        if shape.held_mib > room_mib:
            break
        fitting = shape
    if fitting is None:
        needed_mib = Shape(HEAD, BLOCKS, VOCABULARY, sequence).held_mib
        raise ValueError(
            f"model_share = {model_share:g} of {memory_mib:.0f} MiB holds no model: "
            f"the narrowest needs {needed_mib:.0f} MiB"
        )
    return fitting
