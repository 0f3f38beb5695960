"""The small transformer that is trained."""

import math

import torch
from torch import nn
from torch.nn import functional

from rigproof.devices.transformer.shape import DEVIATION, HEAD, MLP, Shape


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
        """Transform (batch, sequence, width) into the same shape."""
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
        """Normal weights, the same for the same generator."""
        for name, parameter in self.named_parameters():
            spread = self.spread(name)
            if spread is None:
                parameter.detach().fill_(1.0)
            else:
                parameter.detach().normal_(0.0, spread, generator=generator)

    def spread(self, name: str) -> float | None:
        """The standard deviation of a parameter's first weights; None if all of them are 1.

        It is narrower where a residual adds up, as in GPT-2.
        """
        if "norm" in name:
            return None
        adds_up = name.endswith(("attended.weight", "down.weight"))
        return DEVIATION / math.sqrt(2 * self.shape.blocks) if adds_up else DEVIATION

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The mean loss, nats per token. Both arguments are (batch, sequence) of int64."""
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
