"""The replay stage's workload: the same training steps from the same start, compared bit by bit."""

import math
from collections.abc import Callable
from dataclasses import asdict
from functools import partial

import torch

from rigproof.devices import determinism
from rigproof.devices.device import Checksums, Device
from rigproof.devices.out_of_memory import within_memory
from rigproof.devices.reporting import Reporter
from rigproof.devices.specs import WorkerContext
from rigproof.devices.transformer.model import Transformer
from rigproof.devices.transformer.shape import Shape, shape_for
from rigproof.devices.transformer.start import HashedStart
from rigproof.devices.transformer.step import Trainer
from rigproof.devices.verification import as_hex
from rigproof.records.measurements import Phase
from rigproof.stages.replay.stage import Place, ReplaySpec, StepDigest, places_of

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


FEWEST_RUNS = 3  # the first one, and two that are compared with it, even if they take long
# For tests and benches: spoils a value of a run and step (both from 1 on), between backward pass and update.
SpoilRun = Callable[[int, int, Transformer], None]


def run_replay(
    spec: ReplaySpec, device: Device, context: WorkerContext, spoil: SpoilRun | None = None
) -> None:
    """Repeat the steps until done or stopped. Emits rounds, checksums, and events for what went wrong.

    Raises ValueError if the memory is too small for a model. A failed allocation is reported as an event,
    then raised as MemoryError.
    """
    reporter = Reporter(context, spec.stage)
    shape = shape_for(device.kind, spec.vram_mib, spec.model_share, spec.sequence)

    def work() -> None:
        replays = Replays(spec, shape, device, reporter, spoil)
        try:
            replays.work()
        finally:
            replays.release()

    try:
        with determinism.strict():
            what = f"steps of {spec.batch} examples, model of width {shape.width}"
            within_memory(device, reporter, shape.held_mib, what, work)
    finally:
        device.use("fp32")


class Replays:
    """One model's runs. The first one is the reference, if it starts and begins to learn as it must."""

    def __init__(
        self, spec: ReplaySpec, shape: Shape, device: Device, reporter: Reporter, spoil: SpoilRun | None
    ) -> None:
        self._spec = spec
        self._shape = shape
        self._device = device
        self._reporter = reporter
        self._spoil = spoil
        # On the CPU, libraries may choose another kernel for 16 bits each time that they are timed.
        self._precision = "fp32" if device.kind == "cpu" else device.half
        self._trainer = Trainer(shape, device, tf32=False, start=HashedStart())
        self._digests = Digests(self._trainer.model, device, spec.steps)
        self._reference: tuple[int, ...] = ()
        self._losses: tuple[float, ...] = ()
        self._flaw = ""
        self._runs = self._differing = 0

    def work(self) -> None:
        """Do runs for `duration_s`, at least FEWEST_RUNS; or until stopped."""
        context = self._reporter.context
        end_s = context.now_s() + self._spec.duration_s
        self._trainer.begin(self._precision, self._spec.batch)
        self._found_flaw(HashedStart.flaw(self._trainer.model, self._trainer.tokens))
        while not context.stopped() and (context.now_s() < end_s or self._runs < FEWEST_RUNS):
            self._run()
            context.alive()
        if self._runs:
            self._report()

    def release(self) -> None:
        """Free everything."""
        self._digests.release()
        self._trainer.release()

    def _run(self) -> None:
        """Do all steps once, and compare every value with the first run's."""
        device, trainer, digests = self._device, self._trainer, self._digests
        run = self._runs + 1
        if self._spoil is not None:
            digests.spoil = partial(self._spoil, run)
        start = device.mark()
        trainer.restart()
        digests.begin(trainer.tokens)
        steps = trainer.run(self._spec.steps, digests)
        digests.sums.fetch()
        end = device.mark()
        end.wait()
        found = digests.sums.take()
        if not self._runs:
            self._take_reference(found, steps.losses)
        self._runs = run
        same = found == self._reference
        if not same:
            self._differing += 1
            self._report_difference(found)
        phase: Phase = "warmup" if run == 1 else "measure"
        self._reporter.round(
            phase=phase,
            seconds=end.seconds_since(start),
            work=self._spec.steps * self._shape.step_flop(self._spec.batch) / 1e12,
            verified=same and not self._flaw,
            labels={
                "precision": self._precision,
                "size": self._shape.width,
                "batch": self._spec.batch,
                "steps": self._spec.steps,
            },
        )

    def _take_reference(self, digests: tuple[int, ...], losses: tuple[float, ...]) -> None:
        self._reference, self._losses = digests, losses
        infinite = [step for step, loss in enumerate(losses) if not math.isfinite(loss)]
        if infinite:
            self._found_flaw(f"the loss is {losses[infinite[0]]} in step {infinite[0] + 1}")
        elif not self._shape.may_be_first(losses[0]):
            expected = self._shape.first_loss
            self._found_flaw(f"the untrained model's loss is {losses[0]:.4f}, not {expected:.4f}")

    def _report_difference(self, found: tuple[int, ...]) -> None:
        """Name the first value that differs: the others follow from it."""
        values = zip(self._digests.places, self._reference, found, strict=True)
        differing = [one for one in values if one[1] != one[2]]
        place, expected, got = differing[0]
        bit = flipped_bit(expected, got)
        self._reporter.wrong_result(
            f"{self._precision} run {self._runs} differs: {place.in_words}"
            + ("" if bit is None else " (one bit)"),
            {
                "run": self._runs,
                **asdict(place),
                "expected": as_hex(expected),
                "got": as_hex(got),
                "bit": bit,  # of a 64-bit word of the value's memory
                "values": len(differing),
            },
        )

    def _found_flaw(self, flaw: str) -> None:
        """Report what makes all runs wrong, if anything does."""
        if flaw:
            self._flaw = flaw
            self._reporter.wrong_result(f"{self._precision} steps: {flaw}", {"precision": self._precision})

    def _report(self) -> None:
        """Report what was done; the checksums only of the first run."""
        context, shape = self._reporter.context, self._shape
        now_s = context.now_s()
        for place, digest in zip(self._digests.places, self._reference, strict=True):
            own = (now_s, self._spec.stage, context.worker, context.subject)
            context.emit(StepDigest(*own, **asdict(place), digest=as_hex(digest)))
        data = {
            "precision": self._precision,
            "width": shape.width,
            "blocks": shape.blocks,
            "vocabulary": shape.vocabulary,
            "sequence": shape.sequence,
            "batch": self._spec.batch,
            "steps": self._spec.steps,
            "runs": self._runs,
            "differing": self._differing,
            # As texts: JSON has no NaN.
            "losses": [f"{loss:.6g}" for loss in self._losses],
            **self._device.arithmetic(),
        }
        first, last = self._losses[0], self._losses[-1]
        self._reporter.event(
            "replay",
            f"{self._runs} runs of {self._spec.steps} {self._precision} steps, {self._differing} of them "
            f"differ from the first; loss {first:.3f} to {last:.3f}",
            data,
        )
