"""Runs of training steps, in rounds. Each starts untrained, is checked, and has its peak memory measured."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from rigproof.devices.device import Device
from rigproof.devices.reporting import Reporter
from rigproof.devices.round_queue import products_for
from rigproof.devices.transformer.shape import Shape
from rigproof.devices.transformer.step import Steps, Trainer
from rigproof.devices.vram_policy import VramPolicy
from rigproof.records.measurements import Phase
from rigproof.stages.training.checks import Judge
from rigproof.stages.training.memory import Peak

Part = Literal["precision", "search", "sweep"]
PROBE_STEPS = 2  # the first step allocates the optimizer's averages, so the second has the peak
LEAST_ROUNDS = 3  # measured, even if they take long: a median of fewer would be a single reading
SETTLE_SHARE = 0.25  # of a run's time; its rounds are warm-up


class StoppedEarly(Exception):  # noqa: N818 - it is not an error
    """The workload was asked to stop."""


@dataclass(frozen=True, slots=True)
class Result:
    """A run that fitted the memory. `step_s` is the median step time of its measured rounds."""

    batch: int
    peak_mib: float
    step_s: float
    judge: Judge


class Runner:
    """One model's runs. If a run does not fit the memory, the message is returned, not raised.

    A traceback would keep the allocated memory alive.
    """

    def __init__(
        self,
        shape: Shape,
        device: Device,
        reporter: Reporter,
        policy: VramPolicy,
        *,
        tf32: bool,
        round_s: float,
    ) -> None:
        self.shape = shape
        self._device = device
        self._reporter = reporter
        self._policy = policy
        self._round_s = round_s
        self._trainer = Trainer(shape, device, tf32=tf32)

    def probe(self, precision: str, batch: int, part: Part) -> Result | str:
        """Do the fewest steps that reach the peak memory. Those of the search count as measured."""
        phase: Phase = "measure" if part == "search" else "warmup"

        def work() -> Result:
            judge = Judge(self.shape, precision)
            with Peak(self._device, self.shape.held_mib) as peak:
                self._trainer.begin(precision, batch)
                self._round(judge, 1, part, "warmup")
                steps = [self._round(judge, 1, part, phase) for _ in range(PROBE_STEPS - 1)]
            return Result(batch, peak.mib, median(step.seconds for step in steps), judge)

        return self._tried(work)

    def measure(
        self,
        precision: str,
        batch: int,
        part: Part,
        length_s: float,
        *,
        reference: Sequence[float] | None = None,
        sound: bool = True,
    ) -> Result | str:
        """Do steps for `length_s`, and at least a few rounds; the first quarter is warm-up.

        `reference` are the first losses in fp32; `sound`: whether those were correct.
        """

        def work() -> Result:
            judge = Judge(self.shape, precision, reference, sound=sound)
            with Peak(self._device, self.shape.held_mib) as peak:
                self._trainer.begin(precision, batch)
                step_s = self._measured(judge, part, length_s)
            return Result(batch, peak.mib, step_s, judge)

        return self._tried(work)

    def release(self) -> None:
        """Free the model."""
        self._trainer.release()

    def _tried(self, work: Callable[[], Result]) -> Result | str:
        self._trainer.forget()
        try:
            return work()
        except (RuntimeError, MemoryError) as error:
            if not self._device.is_out_of_memory(error):
                raise
            failure = str(error) or type(error).__name__
        self._trainer.forget()
        return failure

    def _measured(self, judge: Judge, part: Part, length_s: float) -> float:
        now_s = self._reporter.context.now_s
        begun_s = now_s()
        while True:
            steps = self._round(judge, 1, part, "warmup")
            if judge.warm:
                break
        rates: list[float] = []
        while (passed_s := now_s() - begun_s) < length_s or len(rates) < LEAST_ROUNDS:
            phase: Phase = "measure" if passed_s >= SETTLE_SHARE * length_s else "warmup"
            steps = self._round(judge, products_for(self._round_s, steps.seconds / steps.count), part, phase)
            if phase == "measure":
                rates.append(steps.seconds / steps.count)
        return median(rates)

    def _round(self, judge: Judge, count: int, part: Part, phase: Phase) -> Steps:
        context, trainer = self._reporter.context, self._trainer
        if context.stopped():
            raise StoppedEarly
        steps = trainer.run(count)
        verified, wrong = judge.take(steps)
        data = {"precision": trainer.precision, "batch": trainer.batch}
        if wrong:
            self._reporter.wrong_result(wrong, data)
        elif steps.overflows:
            message = (
                f"{steps.overflows} of {steps.count} {trainer.precision} steps overflowed and made no update"
            )
            self._reporter.event("overflow", message, {**data, "steps": steps.overflows})
        self._reporter.round(
            phase=phase,
            seconds=steps.seconds,
            work=steps.count * self.shape.step_flop(trainer.batch) / 1e12,
            verified=verified,
            labels={
                "precision": trainer.precision,
                "size": self.shape.width,
                "part": part,
                "batch": trainer.batch,
                "steps": steps.count,
            },
        )
        self._policy.after_round()
        return steps
