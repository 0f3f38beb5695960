"""What training starts from: the weights of an untrained model, and a batch of random tokens."""

import math
from typing import Protocol

import torch

from rigproof.devices.transformer.model import Transformer
from rigproof.devices.transformer.shape import Shape

SEED = 1
CHUNK = 2**24  # elements that are made at a time, so that their 64-bit integers take little memory
CHECKED = 4096  # of each parameter, against the CPU
WORD = 2**32 - 1
MICRO_BATCH_TOKENS = 2**22  # at most; so there are 1,024 of them before places repeat in 32 bits
# A 32-bit integer mixer, x ^= x >> 16 and x *= the factor, twice; its products stay under 2^63.
SHIFT, FACTOR = 16, 0x45D9F3B
# The sum of four bytes: its mean, and its standard deviation, √(4 · (256² − 1) / 12).
BYTES_MEAN, BYTES_DEVIATION = 510, math.sqrt((256**2 - 1) / 3)


class Start(Protocol):
    """Makes weights and tokens that are the same each time."""

    def weights(self, model: Transformer) -> None:
        """Set all weights to those of the untrained model."""

    def tokens(self, shape: Shape, batch: int, where: torch.device) -> torch.Tensor:
        """Random tokens, (batch, sequence + 1) of int64."""


class DrawnStart:
    """Draws with torch's own generator on the device: the same for the same device."""

    def weights(self, model: Transformer) -> None:
        where = next(model.parameters()).device
        model.initialise(torch.Generator(where).manual_seed(SEED))

    def tokens(self, shape: Shape, batch: int, where: torch.device) -> torch.Tensor:
        generator = torch.Generator(where).manual_seed(SEED)
        size = (batch, shape.sequence + 1)
        return torch.randint(shape.vocabulary, size, device=where, generator=generator)


class HashedStart:
    """Mixes integers from each element's place: the same bits on every device, the CPU included.

    torch's generator on a GPU divides its numbers by the number of multiprocessors. `micro_batch`: which
    tokens; none of them is in two micro-batches.
    """

    def __init__(self, micro_batch: int = 0) -> None:
        self.micro_batch = micro_batch

    @staticmethod
    def flaw(model: Transformer, tokens: torch.Tensor) -> str:
        """Differences from the CPU's own result: of all tokens, and of some of each weight; empty if none.

        For a model that has not been trained yet. Waits for the device.
        """
        host = torch.device("cpu")
        batch = tokens.shape[0]
        if not torch.equal(tokens.cpu(), HashedStart().tokens(model.shape, batch, host)):
            return "the tokens are not those that the CPU makes"
        for number, (name, parameter) in enumerate(model.named_parameters()):
            part = parameter.detach().view(-1)[:CHECKED].cpu()
            spread = model.spread(name)
            meant = (
                torch.ones(len(part)) if spread is None else weights_of(number, 0, len(part), spread, host)
            )
            if not torch.equal(part, meant):
                return f"the first weights of {name} are not those that the CPU makes"
        return ""

    def weights(self, model: Transformer) -> None:
        """Sums of four random bytes, which are close to normal, times the spread of each parameter."""
        for number, (name, parameter) in enumerate(model.named_parameters()):
            spread = model.spread(name)
            flat = parameter.detach().view(-1)
            if spread is None:
                flat.fill_(1.0)
                continue
            for first in range(0, len(flat), CHUNK):
                part = flat[first : first + CHUNK]
                part.copy_(weights_of(number, first, len(part), spread, part.device))

    def tokens(self, shape: Shape, batch: int, where: torch.device) -> torch.Tensor:
        """Uniform tokens, as far as the vocabulary divides 2^32."""
        count = batch * (shape.sequence + 1)
        first = self.micro_batch * MICRO_BATCH_TOKENS
        return (hashed(-1, first, count, where) % shape.vocabulary).view(batch, shape.sequence + 1)


def weights_of(number: int, first: int, count: int, spread: float, where: torch.device) -> torch.Tensor:
    """Elements `first` to `first + count` of parameter `number`, (count,) of fp32.

    The integers are exact in fp32 and multiplied once, which IEEE 754 rounds the same way everywhere.
    """
    words = hashed(number, first, count, where)
    total = words & 255
    for shift in (8, 16, 24):
        total += (words >> shift) & 255
    return (total - BYTES_MEAN).to(torch.float32).mul_(spread / BYTES_DEVIATION)


def hashed(stream: int, first: int, count: int, where: torch.device) -> torch.Tensor:
    """32 random bits for each place from `first` on, in int64, (count,); different for each stream."""
    places = torch.arange(first, first + count, dtype=torch.int64, device=where)
    key = _mixed(torch.tensor([(stream + 1) & WORD], dtype=torch.int64, device=where))
    return _mixed(_mixed(places) ^ key)


def _mixed(x: torch.Tensor) -> torch.Tensor:
    """The integers mixed in 32 bits; a bijection."""
    for _ in range(2):
        x = ((x ^ (x >> SHIFT)) * FACTOR) & WORD
    return x ^ (x >> SHIFT)
