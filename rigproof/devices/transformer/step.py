"""Training steps: forward, backward and optimizer, several of them queued between two marks of the device."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

from rigproof.devices.device import Device
from rigproof.devices.torch_device import DTYPES
from rigproof.devices.transformer.model import Transformer
from rigproof.devices.transformer.shape import Shape
from rigproof.devices.transformer.start import DrawnStart, Start

MOST_STEPS = 256  # in a round
LARGEST_NORM = 1.0  # gradients are clipped to it, as in GPT-3
# A learning rate that is stable for models of any width: Adam's falls with the width (Yang et al. 2022,
# "Tensor Programs V", table 8).
RATE_TIMES_WIDTH, HIGHEST_RATE = 0.1, 1e-3
HALF = ("fp16", "bf16")


@dataclass(frozen=True, slots=True)
class Steps:
    """Completed steps: their time, and the loss and gradient norm of each."""

    seconds: float
    losses: tuple[float, ...]  # of the batch, before the step's update
    norms: tuple[float, ...]  # of all gradients, after unscaling and before clipping

    @property
    def count(self) -> int:
        return len(self.losses)

    @property
    def overflows(self) -> int:
        """Steps whose gradients are not finite: GradScaler skips their update."""
        return sum(not math.isfinite(norm) for norm in self.norms)


class Watcher(Protocol):
    """Looks at each step on its way. `step` counts from 0; it only queues work of the device."""

    def gradients(self, step: int, model: Transformer, loss: torch.Tensor) -> None:
        """Look at the gradients before they are clipped and the optimizer uses them."""

    def updated(self, step: int, model: Transformer) -> None:
        """Look at the weights after the optimizer's update."""


class Trainer:
    """One model on one device, trained repeatedly on one batch of random tokens.

    `begin` always starts from the same weights, and from the same tokens for the same batch size. fp16 and
    bf16 mean autocast over 32-bit weights, fp16 with a GradScaler. `start` makes weights and tokens.
    """

    def __init__(self, shape: Shape, device: Device, *, tf32: bool, start: Start | None = None) -> None:
        self.shape = shape
        self._start = start if start is not None else DrawnStart()
        self._device = device
        self._where = torch.device(device.kind)
        self._tf32 = tf32 and "tf32" in device.precisions
        self._model: Transformer | None = Transformer(shape, self._where)
        self._optimizer: torch.optim.Optimizer | None = None
        self._scaler: torch.amp.GradScaler | None = None
        self._tokens: torch.Tensor | None = None
        self._seen = torch.zeros(2, MOST_STEPS, device=self._where)  # losses and norms
        self._host = torch.zeros(2, MOST_STEPS, pin_memory=device.kind == "cuda")
        self.precision = "fp32"
        self.batch = 0
        # What a step computes its loss with, of inputs and targets, instead of the model by itself.
        self.through: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None

    def begin(self, precision: str, batch: int) -> None:
        """Start with untrained weights, a new optimizer and `batch` examples."""
        self.forget()
        self.precision, self.batch = precision, batch
        self.restart()

    def restart(self) -> None:
        """Start again from the same weights, in the memory that is already held."""
        self._drop()
        precision = self.precision
        # tf32 for what autocast leaves in 32-bit; without autocast only if tf32 itself is measured.
        self._device.use("tf32" if precision == "tf32" or (precision in HALF and self._tf32) else "fp32")
        self._start.weights(self.model)
        rate = min(HIGHEST_RATE, RATE_TIMES_WIDTH / self.shape.width)
        self._optimizer = torch.optim.AdamW(self.model.parameters(), lr=rate, fused=True)
        self._scaler = torch.amp.GradScaler(self._device.kind, enabled=precision == "fp16")
        self._tokens = self._start.tokens(self.shape, self.batch, self._where)

    @property
    def model(self) -> Transformer:
        """The model that is trained, until `release`."""
        assert self._model is not None, "a trainer that was released"
        return self._model

    @property
    def tokens(self) -> torch.Tensor:
        """The batch, (batch, sequence + 1) of int64."""
        assert self._tokens is not None, "begin comes first"
        return self._tokens

    def run(self, count: int, watcher: Watcher | None = None) -> Steps:
        """Do `count` steps. Waits for the device only at their end."""
        count = min(count, MOST_STEPS)
        self._host.fill_(math.nan)
        self._seen.fill_(math.nan)  # so that no loss of an earlier step remains
        start = self._device.mark()
        for slot in range(count):
            self._step(slot, watcher)
        self._host.copy_(self._seen, non_blocking=True)
        end = self._device.mark()
        end.wait()
        losses, norms = self._host[:, :count].tolist()
        return Steps(end.seconds_since(start), tuple(losses), tuple(norms))

    def forget(self) -> None:
        """Free everything but the weights."""
        self._drop()
        self._device.empty_cache()

    def release(self) -> None:
        """Free everything."""
        self.forget()
        self._model = self.through = None
        self._device.empty_cache()

    def _drop(self) -> None:
        if self._model is not None:
            self._model.zero_grad(set_to_none=True)
        self._optimizer = self._scaler = self._tokens = None

    def _step(self, slot: int, watcher: Watcher | None) -> None:
        model, optimizer, scaler, tokens = self.model, self._optimizer, self._scaler, self.tokens
        assert optimizer is not None, "begin comes first"
        assert scaler is not None
        optimizer.zero_grad(set_to_none=True)
        half = self.precision in HALF
        dtype = DTYPES[self.precision] if half else None
        with torch.amp.autocast(self._device.kind, dtype=dtype, enabled=half):
            loss = (self.through or model)(tokens[:, :-1], tokens[:, 1:])
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        if watcher is not None:
            watcher.gradients(slot, model, loss.detach())
        self._seen[1, slot] = torch.nn.utils.clip_grad_norm_(model.parameters(), LARGEST_NORM)
        scaler.step(optimizer)  # a fused optimizer skips an overflow by itself, without the host
        scaler.update()
        self._seen[0, slot] = loss.detach()
        if watcher is not None:
            watcher.updated(slot, model)
