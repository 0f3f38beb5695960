"""Runs of training steps, in rounds. Each starts untrained, is checked, and has its peak memory measured."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

import torch

from rigproof.devices.device import Device
from rigproof.devices.out_of_memory import failed_allocation
from rigproof.devices.reporting import Reporter
from rigproof.devices.round_queue import products_for
from rigproof.devices.transformer.shape import Shape
from rigproof.devices.transformer.step import Steps, Trainer
from rigproof.devices.vram_policy import VramPolicy
from rigproof.records.measurements import Phase
from rigproof.stages.training.checks import Judge

if TYPE_CHECKING:  # at run time it imports the workload
    from rigproof.stages.training.stage import TrainingSpec

Part = Literal["precision", "search", "sweep"]
PROBE_STEPS = 2  # the first step allocates the optimizer's averages, so the second has the peak
LEAST_ROUNDS = 3  # measured, even if they take long: a median of fewer would be a single reading
SETTLE_SHARE = 0.25  # of a run's time; its rounds are warm-up
MIB_BYTES = 2**20


class StoppedEarly(Exception):  # noqa: N818 - it is not an error
    """The workload was asked to stop."""


@dataclass(frozen=True, slots=True)
class Result:
    """A run that fitted the memory. `step_s` is the median step time of its measured rounds."""

    batch: int
    peak_mib: float
    step_s: float
    judge: Judge


@dataclass
class Runner:
    """One model's runs. If a run does not fit the memory, the message is returned, not raised."""

    shape: Shape
    device: Device
    reporter: Reporter
    policy: VramPolicy
    tf32: bool
    round_s: float

    def __post_init__(self) -> None:
        self.trainer = Trainer(self.shape, self.device, tf32=self.tf32)

    def probe(self, precision: str, batch: int, part: Part) -> Result | str:
        """Do the fewest steps that reach the peak memory. Those of the search count as measured."""
        judge = Judge(self.shape, precision)

        def steps() -> float:
            self._round(judge, 1, part, "warmup")
            return self._round(judge, 1, part, "measure" if part == "search" else "warmup").seconds

        return self._tried(judge, batch, steps)

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
        judge = Judge(self.shape, precision, reference, sound=sound)
        return self._tried(judge, batch, lambda: self._measured(judge, part, length_s))

    def release(self) -> None:
        """Free the model."""
        self.trainer.release()

    def _tried(self, judge: Judge, batch: int, steps: Callable[[], float]) -> Result | str:
        """One run; `steps` does its steps, and returns the seconds of one."""
        self.trainer.forget()
        done: list[Result] = []

        def run() -> None:
            with _peak_measured(self.device, self.shape.held_mib) as peak:
                self.trainer.begin(judge.precision, batch)
                step_s = steps()
            done.append(Result(batch, peak.mib, step_s, judge))

        failure = failed_allocation(self.device, run)
        if failure:
            self.trainer.forget()
        return failure or done[0]

    def _measured(self, judge: Judge, part: Part, length_s: float) -> float:
        now_s = self.reporter.context.now_s
        begun_s = now_s()
        while True:
            steps = self._round(judge, 1, part, "warmup")
            if judge.warm:
                break
        rates: list[float] = []
        while (passed_s := now_s() - begun_s) < length_s or len(rates) < LEAST_ROUNDS:
            phase: Phase = "measure" if passed_s >= SETTLE_SHARE * length_s else "warmup"
            steps = self._round(judge, products_for(self.round_s, steps.seconds / steps.count), part, phase)
            if phase == "measure":
                rates.append(steps.seconds / steps.count)
        return median(rates)

    def _round(self, judge: Judge, count: int, part: Part, phase: Phase) -> Steps:
        trainer = self.trainer
        if self.reporter.context.stopped():
            raise StoppedEarly
        steps = trainer.run(count)
        verified, wrong = judge.take(steps)
        data: dict[str, Any] = {"precision": trainer.precision, "batch": trainer.batch}
        if wrong:
            self.reporter.wrong_result(wrong, data)
        elif steps.overflows:
            message = (
                f"{steps.overflows} of {steps.count} {trainer.precision} steps overflowed and made no update"
            )
            self.reporter.event("overflow", message, {**data, "steps": steps.overflows})
        self.reporter.round(
            phase=phase,
            seconds=steps.seconds,
            work=steps.count * self.shape.step_flop(trainer.batch) / 1e12,
            verified=verified,
            labels={**data, "size": self.shape.width, "part": part, "steps": steps.count},
        )
        self.policy.after_round()
        return steps


# Memory


def limit_mib(spec: "TrainingSpec", device: Device) -> float:
    """The most that this process may hold, MiB.

    `target_share` of the device's memory, or all but `reserve_mib`, whichever is less; minus what others (and
    this process's CUDA context) hold. Never more than the worker's cap; on the CPU never more than the
    worker's share of the RAM, since filling a host's RAM stops the host.
    """
    state = device.memory()
    free_mib, total_mib, most_mib = state.device_free_mib, state.device_total_mib, spec.vram_mib
    if free_mib is not None and total_mib is not None:
        others_mib = max(0.0, total_mib - free_mib - state.reserved_mib)
        most_mib = min(spec.target_share * total_mib, total_mib - spec.reserve_mib) - others_mib
    if spec.memory.cap_mib is not None:
        most_mib = min(most_mib, spec.memory.cap_mib)
    if device.kind == "cpu":
        most_mib = min(most_mib, spec.vram_mib)
    return max(0.0, most_mib)


class Peak:
    """The peak memory of some work, once it is over."""

    mib = 0.0


@contextmanager
def _peak_measured(device: Device, held_mib: float) -> Iterator[Peak]:
    """Measures the peak memory of the work inside.

    On a GPU, the most that torch's allocator reserved. The CPU's allocator does not report it: there it is
    `held_mib` (held by the model without any example) plus the most that autograd saved for backward.
    """
    peak = Peak()
    device.empty_cache()
    device.reset_peak()
    if device.kind == "cpu":
        counter = _SavedBytes()
        with torch.autograd.graph.saved_tensors_hooks(counter.pack, lambda saved: saved.tensor):
            yield peak
        peak.mib = held_mib + counter.most / MIB_BYTES
    else:
        yield peak
        peak.mib = device.memory().peak_reserved_mib


class _SavedBytes:
    """Counts the bytes of tensors that autograd saves: now, and at most."""

    now = most = 0

    def pack(self, tensor: torch.Tensor) -> "_SavedTensor":
        return _SavedTensor(tensor, self)


class _SavedTensor:
    """A saved tensor, counted while it exists."""

    def __init__(self, tensor: torch.Tensor, counter: _SavedBytes) -> None:
        self.tensor = tensor
        self._bytes = tensor.numel() * tensor.element_size()
        self._counter = counter
        counter.now += self._bytes
        counter.most = max(counter.most, counter.now)

    def __del__(self) -> None:
        self._counter.now -= self._bytes
