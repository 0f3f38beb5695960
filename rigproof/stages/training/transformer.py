"""The small transformer that the training stage trains, and the work of one step."""

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from rigproof.records.identity import DeviceKind

HEAD = 64  # width of an attention head
BLOCKS = 8
VOCABULARY = 8192
MLP = 4  # times the width
WIDTHS = range(HEAD, 16384 + 1, HEAD)
DEVIATION = 0.02  # of the initial weights, as in GPT-2
# 32-bit weight, gradient and AdamW's two averages; the same in mixed precision.
BYTES_PER_PARAMETER = 16
MIB_BYTES = 2**20
# On the CPU: so that every part of the stage runs in seconds, not to measure anything.
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
        """Weights, gradients and AdamW's averages."""
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
            f"training.model_share = {model_share:g} of {memory_mib:.0f} MiB holds no model: "
            f"the narrowest needs {needed_mib:.0f} MiB"
        )
    return fitting


class Block(nn.Module):  # type: ignore[misc]
    """Attention and MLP, each after a norm and with a residual connection."""

    def __init__(self, width: int, where: torch.device) -> None:
        super().__init__()
        self.heads = width // HEAD
        self.attention_norm = nn.LayerNorm(width, bias=False, device=where)
        self.queries_keys_values = nn.Linear(width, 3 * width, bias=False, device=where)
        self.attended = nn.Linear(width, width, bias=False, device=where)
        self.mlp_norm = nn.LayerNorm(width, bias=False, device=where)
        self.up = nn.Linear(width, MLP * width, bias=False, device=where)
        self.down = nn.Linear(MLP * width, width, bias=False, device=where)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, sequence, width) to the same."""
        batch, sequence, width = x.shape
        split = self.queries_keys_values(self.attention_norm(x)).view(batch, sequence, 3, self.heads, HEAD)
        query, key, value = split.permute(2, 0, 3, 1, 4)  # each (batch, heads, sequence, HEAD)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attended(mixed.transpose(1, 2).reshape(batch, sequence, width))
        return x + self.down(functional.gelu(self.up(self.mlp_norm(x))))


class Transformer(nn.Module):  # type: ignore[misc]
    """A decoder with a separate output head. `initialise` sets its weights."""

    def __init__(self, shape: Shape, where: torch.device) -> None:
        super().__init__()
        self.shape = shape
        self.tokens = nn.Embedding(shape.vocabulary, shape.width, device=where)
        self.positions = nn.Embedding(shape.sequence, shape.width, device=where)
        self.blocks = nn.ModuleList(Block(shape.width, where) for _ in range(shape.blocks))
        self.norm = nn.LayerNorm(shape.width, bias=False, device=where)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False, device=where)

    def initialise(self, generator: torch.Generator) -> None:
        """Normal weights, the same for the same generator; narrower where a residual adds up, as in GPT-2."""
        for name, parameter in self.named_parameters():
            weights = parameter.detach()
            if "norm" in name:
                weights.fill_(1.0)
                continue
            adds_up = name.endswith(("attended.weight", "down.weight"))
            spread = DEVIATION / math.sqrt(2 * self.shape.blocks) if adds_up else DEVIATION
            weights.normal_(0.0, spread, generator=generator)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The mean loss, nats per token. Both arguments are (batch, sequence) of int64."""
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
