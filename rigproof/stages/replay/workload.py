"""The replay stage's workload: the same training steps from the same start, compared bit by bit."""

import math
from collections.abc import Callable

from rigproof.devices import determinism
from rigproof.devices.context import WorkerContext
from rigproof.devices.device import Device
from rigproof.devices.reporting import Reporter
from rigproof.devices.transformer.model import Transformer
from rigproof.devices.transformer.shape import Shape, shape_for
from rigproof.devices.transformer.start import HashedStart
from rigproof.devices.transformer.step import Trainer
from rigproof.devices.verification import as_hex
from rigproof.records.measurements import Phase
from rigproof.stages.replay.digests import Digests, flipped_bit
from rigproof.stages.replay.stage import ReplaySpec, StepDigest

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
    try:
        failure = _replayed(spec, shape, device, reporter, spoil)
    finally:
        device.use("fp32")
        device.empty_cache()
    if failure:
        reporter.out_of_memory(failure, shape.held_mib, recovered=False)
        raise MemoryError(f"steps of {spec.batch} examples, model of width {shape.width}: {failure}")


def _replayed(
    spec: ReplaySpec, shape: Shape, device: Device, reporter: Reporter, spoil: SpoilRun | None
) -> str | None:
    """Replay. Returns the message if memory did not suffice: a traceback would keep the model alive."""
    replays = None
    try:
        with determinism.strict():
            replays = Replays(spec, shape, device, reporter, spoil)
            replays.work()
    except (RuntimeError, MemoryError) as error:
        if device.is_out_of_memory(error):
            return str(error)
        raise
    finally:
        if replays is not None:
            replays.release()
    return None


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
        self._require_start()
        while not context.stopped():
            if context.now_s() >= end_s and self._runs >= FEWEST_RUNS:
                break
            self._run()
            context.alive()
        if self._runs:
            self._report()

    def release(self) -> None:
        """Free everything."""
        self._digests.release()
        self._trainer.release()

    def _require_start(self) -> None:
        """Compare the start with the CPU's own arithmetic, once."""
        self._flaw = HashedStart.flaw(self._trainer.model, self._trainer.tokens)
        if self._flaw:
            self._wrong(self._flaw)

    def _run(self) -> None:
        """Do all steps once, and compare every value with the first run's."""
        device, trainer, digests = self._device, self._trainer, self._digests
        run = self._runs + 1
        if self._spoil is not None:
            spoil = self._spoil
            digests.spoil = lambda step, model: spoil(run, step, model)
        start = device.mark()
        trainer.restart()
        digests.begin(trainer.tokens)
        steps = trainer.run(self._spec.steps, digests)
        digests.fetch()
        end = device.mark()
        end.wait()
        found = digests.taken()
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
            self._flaw = f"the loss is {losses[infinite[0]]} in step {infinite[0] + 1}"
        elif not self._shape.may_be_first(losses[0]):
            expected = self._shape.first_loss
            self._flaw = f"the untrained model's loss is {losses[0]:.4f}, not {expected:.4f}"
        else:
            return
        self._wrong(self._flaw)

    def _report_difference(self, found: tuple[int, ...]) -> None:
        """Name the first value that differs: the others follow from it."""
        pairs = zip(self._digests.places, self._reference, found, strict=True)
        place, expected, got = next(one for one in pairs if one[1] != one[2])
        number = sum(a != b for a, b in zip(self._reference, found, strict=True))
        bit = flipped_bit(expected, got)
        self._reporter.wrong_result(
            f"{self._precision} run {self._runs} differs: {place.in_words}"
            + ("" if bit is None else " (one bit)"),
            {
                "run": self._runs,
                "step": place.step,
                "part": place.part,
                "block": place.block,
                "parameter": place.parameter,
                "expected": as_hex(expected),
                "got": as_hex(got),
                "bit": bit,  # of a 64-bit word of the value's memory
                "values": number,  # that differ
            },
        )

    def _wrong(self, message: str) -> None:
        self._reporter.wrong_result(f"{self._precision} steps: {message}", {"precision": self._precision})

    def _report(self) -> None:
        """Report what was done; the checksums only of the first run."""
        context, shape = self._reporter.context, self._shape
        now_s = context.now_s()
        for place, digest in zip(self._digests.places, self._reference, strict=True):
            context.emit(
                StepDigest(
                    now_s,
                    self._spec.stage,
                    context.worker,
                    context.subject,
                    place.step,
                    place.part,
                    place.block,
                    place.parameter,
                    as_hex(digest),
                )
            )
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
