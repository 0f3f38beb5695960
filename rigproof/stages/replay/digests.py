"""Checksums of every value of a run of training steps, in the order of `places_of`."""

from collections.abc import Callable

import torch

from rigproof.devices.device import Checksums, Device
from rigproof.devices.transformer.model import Transformer
from rigproof.stages.replay.places import Place, places_of

# For tests and benches: spoils what it likes of step `step` (from 1 on), between backward pass and update.
Spoil = Callable[[int, Transformer], None]


class Digests:
    """Watches one model's runs. Its `sums` are exact in any order of adding, and stay on the device."""

    def __init__(self, model: Transformer, device: Device, steps: int) -> None:
        self.places: tuple[Place, ...] = places_of(model.shape.blocks, steps)
        self.spoil: Spoil | None = None
        self._model = model
        self.sums: Checksums = device.checksums(len(self.places))
        self._parameters = list(model.parameters())
        self._hooks = [
            model.blocks[0].register_forward_pre_hook(self._entered),
            *(block.register_forward_hook(self._left) for block in model.blocks),
            model.head.register_forward_hook(self._left),
        ]

    def begin(self, tokens: torch.Tensor) -> None:
        """Add what the run starts from."""
        self._add(tokens)
        for parameter in self._parameters:
            self._add(parameter)

    def gradients(self, step: int, model: Transformer, loss: torch.Tensor) -> None:
        """Add the loss, and the gradients as the backward pass goes; as a Watcher."""
        self._add(loss)
        if self.spoil is not None:
            self.spoil(step + 1, model)
        for parameter in reversed(self._parameters):
            assert parameter.grad is not None, "a parameter that the loss does not depend on"
            self._add(parameter.grad)

    def updated(self, _step: int, _model: Transformer) -> None:
        """Add the new weights; as a Watcher."""
        for parameter in self._parameters:
            self._add(parameter)

    def release(self) -> None:
        """Let go of the model."""
        for hook in self._hooks:
            hook.remove()

    def _entered(self, _block: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        self._add(inputs[0])

    def _left(self, _block: torch.nn.Module, _inputs: object, output: torch.Tensor) -> None:
        self._add(output)

    def _add(self, value: torch.Tensor) -> None:
        self.sums.add(value.detach().contiguous())


def flipped_bit(expected: int, got: int) -> int | None:
    """The bit, from 0 on in its 64-bit word, if two checksums differ as if one bit had flipped; else None."""
    difference = (got - expected) % 2**64
    alone = min(difference, 2**64 - difference)
    return alone.bit_length() - 1 if alone and alone & (alone - 1) == 0 else None
