"""A rank's part of training together, in the rank's process: its steps, its gradients. Imports torch."""

import math
from contextlib import AbstractContextManager, nullcontext
from hashlib import sha256
from typing import Any, Protocol

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from rigproof.devices import determinism
from rigproof.devices.device import Checksums, Device
from rigproof.devices.out_of_memory import within_memory
from rigproof.devices.reporting import Reporter
from rigproof.devices.specs import GLOO, WorkerContext
from rigproof.devices.transformer.model import Transformer
from rigproof.devices.transformer.shape import BYTES_PER_PARAMETER, MIB_BYTES, Shape, shape_for
from rigproof.devices.transformer.start import HashedStart
from rigproof.devices.transformer.step import MOST_STEPS, Trainer
from rigproof.records.identity import DeviceKind
from rigproof.records.measurements import Labels, Phase
from rigproof.stages.ddp.shares import shared_out
from rigproof.stages.ddp.stage import (
    ALONE,
    APART,
    COMPARED,
    EXCHANGED,
    OWN,
    PART_SHARE,
    ROUNDS,
    TOGETHER,
    WATCHED_STEPS,
    DdpSpec,
    Gradients,
    Of,
)

FEWEST_ROUNDS = 3
PROBE_MIB = 16
STEP_S = 60.0  # of the first step with an exchange over a slow link, on a busy host
LEAST_S = 20.0  # of later ones: hosts that a hypervisor delays, or that swap, stand still for seconds
PATIENCE = 20  # times as long as the steps before, up to STEP_S; with a tenth of its CPU time a host takes 10
SLOWEST = 5  # times as long, however long they were
MOST_COMPARED = 4  # examples of a micro-batch that several ranks compute


def silence_s(seconds: float) -> float:
    """How long what took so many seconds before may take, in s."""
    return max(LEAST_S, SLOWEST * seconds, min(STEP_S, PATIENCE * seconds))


class Steps(Protocol):
    """Tells the worker what this rank is in, so that a rank that hangs is found."""

    def step(self, operation: str, mib: int, limit_s: float) -> AbstractContextManager[None]:
        """A step that must be over within `limit_s`."""


class Peers(Protocol):
    """The other ranks. All of them must make the same calls in the same order."""

    rank: int
    size: int

    def told(self, what: str, value: Any) -> list[Any]:
        """What each rank told under this name, by rank; plain data."""


class GradientSums:
    """Watches steps: the checksum of every gradient, which stays on the device until it is taken."""

    def __init__(self, model: Transformer, device: Device, steps: int) -> None:
        self._parameters = list(model.parameters())
        self._device = device
        self._sums: Checksums = device.checksums(steps * len(self._parameters))

    def gradients(self, _step: int, _model: Transformer, _loss: torch.Tensor) -> None:
        for parameter in self._parameters:
            assert parameter.grad is not None, "a parameter that the loss does not depend on"
            self._sums.add(parameter.grad)

    def updated(self, _step: int, _model: Transformer) -> None:
        """Weights follow from gradients."""

    def taken(self) -> list[str]:
        """One checksum for each step, 16 hexadecimal digits."""
        self._sums.fetch()
        self._device.mark().wait()
        sums, each = self._sums.take(), len(self._parameters)
        return [
            sha256(repr(sums[first : first + each]).encode()).hexdigest()[:16]
            for first in range(0, len(sums), each)
        ]


class Rank:
    """One rank from its model to its last gradient."""

    def __init__(
        self, spec: DdpSpec, device: Device, context: WorkerContext, peers: Peers, steps: Steps
    ) -> None:
        self._spec = spec
        self._device = device
        self._context = context
        self._peers = peers
        self._steps = steps
        self._reporter = Reporter(context, spec.stage, context.crew.subject)
        self._where = torch.device(device.kind)
        self._has_cpu = spec.backend == GLOO  # a CPU among the ranks: all take its small model

    def train(self) -> None:
        """Do all of it. A failed allocation is reported as an event, then raised as MemoryError."""
        precision, shape = self._agreed()
        what = f"a model of width {shape.width} and {self._spec.batch} examples"
        within_memory(
            self._device, self._reporter, shape.held_mib, what, lambda: self._train(precision, shape)
        )

    def _agreed(self) -> tuple[str, Shape]:
        """The precision that all devices have, and the widest model that fits all, and the slowest link."""
        seconds = self._exchange_s(PROBE_MIB)
        own = {
            "half": self._device.half,
            "precisions": list(self._device.precisions),
            "room_mib": self._spec.model_share * self._spec.vram_mib,
            "gradients_mib": self._spec.exchange_s / seconds * PROBE_MIB,
        }
        every = self._peers.told("model", own)
        halves = {one["half"] for one in every}
        precision = halves.pop() if len(halves) == 1 else "fp16"
        if not all(precision in one["precisions"] for one in every):
            precision = "fp32"
        # Of the bytes of a parameter, its gradient in fp32 is a quarter.
        linked_mib = BYTES_PER_PARAMETER / 4 * min(one["gradients_mib"] for one in every)
        room_mib = min(linked_mib, *(one["room_mib"] for one in every))
        kind: DeviceKind = "cpu" if self._has_cpu else "cuda"
        return precision, shape_for(kind, room_mib, 1.0, self._spec.sequence)

    def _train(self, precision: str, shape: Shape) -> None:
        start = HashedStart(self._peers.rank)
        trainer = Trainer(shape, self._device, tf32=False, start=start)
        try:
            rates = self._peers.told("alone", self._alone(trainer, precision))
            batches = shared_out(self._spec.batch * len(rates), rates)
            self._together(trainer, precision, batches)
            self._compare(trainer, start)
        finally:
            trainer.release()

    def _alone(self, trainer: Trainer, precision: str) -> float:
        """Examples a second of this device by itself."""
        trainer.begin(precision, self._spec.batch)
        trainer.run(1)  # the first use of each kernel
        step_s = trainer.run(2).seconds / 2
        return self._spec.batch / self._part(trainer, ALONE, step_s)

    def _together(self, trainer: Trainer, precision: str, batches: list[int]) -> None:
        rank, own = self._peers.rank, batches[self._peers.rank]
        trainer.begin(precision, own)
        spread = DistributedDataParallel(
            trainer.model,
            device_ids=[torch.cuda.current_device()] if self._device.kind == "cuda" else None,
        )
        # The mean over ranks of what each of them scales is the mean over examples.
        scale = own * len(batches) / sum(batches)
        trainer.through = lambda inputs, targets: spread(inputs, targets) * scale
        gradients_mib = 4 * trainer.shape.parameters / MIB_BYTES
        exchange_s = self._exchange_s(gradients_mib)
        if len(set(batches)) > 1:
            with spread.no_sync():
                self._part(trainer, APART, trainer.run(2).seconds / 2)
        sums = GradientSums(trainer.model, self._device, WATCHED_STEPS)
        with self._steps.step(EXCHANGED, int(gradients_mib), STEP_S):
            steps = trainer.run(WATCHED_STEPS, sums)
        for number, (digest, norm) in enumerate(zip(sums.taken(), steps.norms, strict=True)):
            self._emit(EXCHANGED, number, digest, norm)
        with self._steps.step(EXCHANGED, int(gradients_mib), silence_s(steps.seconds)):
            probed_s = trainer.run(2).seconds / 2
        step_s = max(self._peers.told("step", probed_s))
        self._part(trainer, TOGETHER, step_s, agreed=True)
        trainer.through = None
        self._reporter.event(
            "ddp_rank",
            f"rank {rank}: {own} of {sum(batches)} examples a step, {gradients_mib:.0f} MiB of gradients",
            {
                "device": self._context.subject,
                "rank": rank,
                "ranks": len(batches),
                "width": trainer.shape.width,
                "batch": own,
                "gradients_mib": gradients_mib,
                "exchange_s": exchange_s,
                "arithmetic": self._device.arithmetic(),
            },
        )

    def _part(self, trainer: Trainer, part: str, step_s: float, *, agreed: bool = False) -> float:
        """Rounds of one part; returns the seconds of a step.

        `agreed`: all ranks do as many, each a step of its own: steps have the same numbers on all ranks.
        """
        part_s = PART_SHARE[part] * self._spec.duration_s
        steps = min(MOST_STEPS, max(1, int(part_s / step_s / ROUNDS)))
        number = max(FEWEST_ROUNDS, min(ROUNDS, int(part_s / step_s / steps)))
        labels: Labels = {
            "part": part,
            "precision": trainer.precision,
            "size": trainer.shape.width,
            "batch": trainer.batch,
            "steps": steps,
        }
        limit_s = silence_s(steps * step_s * (1 if agreed else number + 1))
        total_s = 0.0
        with nullcontext() if agreed else self._steps.step(part, 0, limit_s):
            for count in range(number + 1):
                if self._context.stopped() and not agreed:
                    break
                with self._steps.step(part, 0, limit_s) if agreed else nullcontext():
                    done = trainer.run(steps)
                phase: Phase = "measure" if count else "warmup"
                total_s += done.seconds if count else 0.0
                self._reporter.round(
                    phase=phase,
                    seconds=done.seconds,
                    work=steps * trainer.shape.step_flop(trainer.batch) / 1e12,
                    verified=all(map(math.isfinite, done.losses)),
                    labels=labels,
                )
        return total_s / (number * steps)

    def _compare(self, trainer: Trainer, start: HashedStart) -> None:
        """Compute the own micro-batch and those of the next ranks, each with the untrained weights."""
        precision = "fp32" if self._has_cpu else trainer.precision
        with determinism.strict():
            trainer.forget()
            for other in range(min(COMPARED, self._peers.size)):
                start.micro_batch = number = (self._peers.rank + other) % self._peers.size
                trainer.begin(precision, min(MOST_COMPARED, self._spec.batch))
                sums = GradientSums(trainer.model, self._device, 1)
                steps = trainer.run(1, sums)
                self._emit(OWN, number, sums.taken()[0], steps.norms[0])
                self._context.alive()

    def _emit(self, of: Of, number: int, digest: str, norm: float) -> None:
        own = (self._context.now_s(), self._spec.stage, self._context.worker, self._context.subject)
        self._context.emit(Gradients(*own, of, number, digest, norm if math.isfinite(norm) else None))

    def _exchange_s(self, mib: float) -> float:
        """Seconds of one all-reduce of so much, the second of two."""
        buffer = torch.zeros(max(1, int(mib * MIB_BYTES / 4)), device=self._where)
        limit_s, seconds = STEP_S, 0.0
        for _ in range(2):
            with self._steps.step("all_reduce", int(mib), limit_s):
                start = self._device.mark()
                distributed.all_reduce(buffer)
                end = self._device.mark()
                end.wait()
            seconds = end.seconds_since(start)
            limit_s = silence_s(seconds)
        return max(seconds, 1e-6)
