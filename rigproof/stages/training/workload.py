"""The training stage's workload: compares precisions, searches for the largest batch, sweeps batch sizes."""

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch

from rigproof.devices.device import Device
from rigproof.devices.out_of_memory import failed_allocation
from rigproof.devices.reporting import Reporter
from rigproof.devices.specs import WorkerContext
from rigproof.devices.transformer.shape import Shape, shape_for
from rigproof.devices.vram_policy import VramPolicy
from rigproof.stages.training.batch_search import BatchSearch
from rigproof.stages.training.checks import REFERENCE, tolerance
from rigproof.stages.training.run import PROBE_STEPS, Part, Result, Runner, StoppedEarly, limit_mib
from rigproof.stages.training.stage import TrainingSpec

# Shares of the parts in the stage's remaining time.
COMPARE_SHARE, SEARCH_SHARE, SWEEP_SHARE = 0.45, 0.25, 0.30


def run_training(spec: TrainingSpec, device: Device, context: WorkerContext) -> None:
    """Train for about `duration_s`, each run from untrained weights, or until stopped.

    Everything is always freed at the end. Raises ValueError if the memory is too small for a model, and
    MemoryError if one example does not fit, or an allocation failed and `spec.memory` allows no recovery.
    """
    reporter = Reporter(context, spec.stage)
    policy = VramPolicy(spec.memory, device, reporter)
    started_s = context.now_s()
    try:
        policy.begin()
        shape = shape_for(device.kind, spec.vram_mib, spec.model_share, spec.sequence)
        with _autotuned(spec.cudnn_benchmark), suppress(StoppedEarly):
            runner = _runner(spec, shape, device, reporter, policy)
            try:
                TrainingStage(spec, runner, device, reporter, policy).work(started_s)
            finally:
                runner.release()
    finally:
        device.use("fp32")
        policy.end()


def _runner(
    spec: TrainingSpec, shape: Shape, device: Device, reporter: Reporter, policy: VramPolicy
) -> Runner:
    """The model on the device. Raises MemoryError if even its weights do not fit."""
    made: list[Runner] = []

    def make() -> None:
        made.append(Runner(shape, device, reporter, policy, tf32=spec.tf32, round_s=spec.round_s))

    if failure := failed_allocation(device, make):
        policy.failed(failure, shape.held_mib, recovered=False)
        raise MemoryError(f"no room for a model of width {shape.width}: {failure}")
    return made[0]


@contextmanager
def _autotuned(wanted: bool) -> Iterator[None]:
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = wanted
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def compared_precisions(device: Device) -> tuple[str, ...]:
    """fp32 first, because the others are checked against it; fp16, or bf16 if there is no fp16, last."""
    half = [precision for precision in ("fp16", "bf16") if precision in device.precisions]
    return ("fp32", *(["tf32"] if "tf32" in device.precisions else []), *half[:1])


class TrainingStage:
    """The three parts, one after the other. Only batches predicted to fit are tried."""

    def __init__(
        self, spec: TrainingSpec, runner: Runner, device: Device, reporter: Reporter, policy: VramPolicy
    ) -> None:
        self._spec = spec
        self._runner = runner
        self._reporter = reporter
        self._policy = policy
        self._precisions = compared_precisions(device)
        self._precision = self._precisions[-1]  # that search and sweep train in
        self._limit_mib = limit_mib(spec, device)
        held_mib = runner.shape.held_mib
        self._searches = {one: BatchSearch(held_mib, self._limit_mib) for one in self._precisions}
        self._example_s = 0.0  # a step's time per example in that precision; less in a larger batch

    def work(self, started_s: float) -> None:
        """Do all parts. Raises StoppedEarly if the workload is asked to stop."""
        self._report_model()
        if not self._spec.memory.mixed_precision and self._precision != "fp32":
            self._policy.decided("mixed_precision", self._precision, "fp32", "", "off in the profile")
            self._precision = "fp32"
        parts = [(self._compare, COMPARE_SHARE), (self._search, SEARCH_SHARE), (self._sweep, SWEEP_SHARE)]
        if not self._spec.search:
            del parts[1]
        end_s = started_s + self._spec.duration_s
        for place, (part, share) in enumerate(parts):
            now_s = self._now_s()
            remaining = sum(share for _, share in parts[place:])
            part(now_s + max(0.0, end_s - now_s) * share / remaining)

    # The precisions, at one batch size

    def _compare(self, end_s: float) -> None:
        batch = self._comparable_batch()
        while (failure := self._compared(batch, end_s)) is not None:
            smaller = min(self._policy.batch(self._spec.batch), batch - 1)
            if smaller < 1:
                raise MemoryError(f"no room for a step of one example: {failure}")
            batch = smaller

    def _comparable_batch(self) -> int:
        """The planned batch, or the largest that fits in fp32, which takes the most memory."""
        planned = min(self._policy.batch(self._spec.batch), self._runner.shape.most_examples)
        self._probe(REFERENCE, "precision", planned, math.inf)
        search, allowed = self._searches[REFERENCE], f"of {self._limit_mib:.0f} MiB allowed"
        largest = search.largest(planned)
        if largest is None:
            raise MemoryError(
                f"a step of one example takes {search.predicted_mib(1):.0f} MiB {allowed}: lower "
                "training.model_share or training.sequence, or free the device's memory"
            )
        if largest < planned:
            why = f"{planned} are predicted to take {search.predicted_mib(planned):.0f} MiB {allowed}"
            self._policy.decided("batch_size", planned, largest, "examples", why)
        return largest

    def _probe(self, precision: str, part: Part, most: int, end_s: float) -> bool:
        """Try batches up to `most` until the largest that fits is known; False if time was over before."""
        search = self._searches[precision]
        while (batch := search.next(most)) is not None:
            if self._now_s() + PROBE_STEPS * self._example_s * batch > end_s:
                return False
            result = self._runner.probe(precision, batch, part)
            if not isinstance(result, Result):
                self._out_of_memory(result, precision, batch, recovered=part == "search" or batch > 1)
                continue
            search.measured(batch, result.peak_mib)
            if part == "search":
                self._example_s = result.step_s / batch
                self._report_batch("probe", batch, result.peak_mib, "tried")
        return True

    def _compared(self, batch: int, end_s: float) -> str | None:
        """Measure every precision at this batch size; returns the message if memory did not suffice."""
        reference, sound = None, True
        for place, precision in enumerate(self._precisions):
            length_s = max(0.0, end_s - self._now_s()) / (len(self._precisions) - place)
            result = self._runner.measure(
                precision, batch, "precision", length_s, reference=reference, sound=sound
            )
            if not isinstance(result, Result):
                self._out_of_memory(result, precision, batch, recovered=batch > 1)
                return result
            if precision == REFERENCE:
                reference, sound = result.judge.losses, result.judge.sound
            self._learn(precision, result)
            self._report_training(precision, result)
        return None

    # The largest batch

    def _search(self, end_s: float) -> None:
        search, most = self._searches[self._precision], self._runner.shape.most_examples
        complete = self._probe(self._precision, "search", most, end_s)
        largest, too_large = search.largest(most), search.too_large(most)
        if largest is None:  # only if what fitted a moment ago no longer fits
            self._report_batch("largest", 0, None, "no batch fits any more", complete=complete)
            return
        ended = "" if complete else "; the time for the search was over"
        why = f"the largest that fits; {too_large} would not{ended}"
        if too_large > most:
            why = "the largest whose tensors every kernel can index"
        more = {"complete": complete, "too_large": too_large}
        self._report_batch("largest", largest, search.peaks[largest], why, **more)

    # Batch sizes

    def _sweep(self, end_s: float) -> None:
        batches = sorted(set(self._spec.batches))
        for place, batch in enumerate(batches):
            if not self._fits(batch):
                continue
            length_s = max(0.0, end_s - self._now_s()) / (len(batches) - place)
            result = self._runner.measure(self._precision, batch, "sweep", length_s)
            if isinstance(result, Result):
                self._learn(self._precision, result)
                self._report_batch("sweep", batch, result.peak_mib, "measured")
            else:
                self._out_of_memory(result, self._precision, batch, recovered=True)

    def _fits(self, batch: int) -> bool:
        """Whether to measure a batch; an event reports one that is left out."""
        search = self._searches[self._precision]
        predicted_mib, failed_from = search.predicted_mib(batch), search.failed_from
        if failed_from is not None and batch >= failed_from:
            why = f"left out: {failed_from} did not fit"
        elif batch > self._runner.shape.most_examples:
            why = "left out: its largest tensor has more elements than every kernel can index"
        elif predicted_mib > self._limit_mib:
            why = "left out: predicted to take more than allowed"
        else:
            return True
        self._report_batch("skipped", batch, predicted_mib, why)
        return False

    # Reporting

    def _learn(self, precision: str, result: Result) -> None:
        self._searches[precision].measured(result.batch, result.peak_mib)
        if precision == self._precision:
            self._example_s = result.step_s / result.batch

    def _out_of_memory(self, failure: str, precision: str, batch: int, *, recovered: bool) -> None:
        """Report a failed allocation; raises MemoryError if it ends the task."""
        search = self._searches[precision]
        search.failed(batch)
        recovered = recovered and self._policy.recovers
        self._policy.failed(failure, search.predicted_mib(batch), recovered=recovered)
        if not recovered:
            raise MemoryError(f"{precision} step of {batch} examples: {failure}")

    def _report_model(self) -> None:
        shape = self._runner.shape
        self._reporter.event(
            "model",
            f"{shape.parameters / 1e6:.1f} M parameters: {shape.blocks} blocks of width {shape.width}, "
            f"vocabulary {shape.vocabulary}, {shape.sequence} tokens per example; {shape.held_mib:.0f} MiB",
            {
                "width": shape.width,
                "blocks": shape.blocks,
                "vocabulary": shape.vocabulary,
                "sequence": shape.sequence,
                "parameters": shape.parameters,
                "held_mib": shape.held_mib,
            },
        )

    def _report_training(self, precision: str, result: Result) -> None:
        judge = result.judge
        apart = None if precision == REFERENCE else judge.difference
        message = f"{precision}: loss {judge.first:.3f} to {judge.last:.3f}, {judge.overflows} overflows"
        if apart is not None:
            message += f", {apart:.2g} from fp32 at most (tolerance {tolerance(precision):.2g})"
        self._reporter.event(
            "training",
            message,
            {
                "precision": precision,
                "batch": result.batch,
                "peak_mib": result.peak_mib,
                "step_s": result.step_s,
                "first_loss": judge.first,
                "last_loss": judge.last,
                "overflows": judge.overflows,
                "difference": apart,
            },
        )

    def _report_batch(self, what: str, batch: int, peak_mib: float | None, why: str, **more: Any) -> None:
        memory = "" if peak_mib is None else f"{peak_mib:.0f} of {self._limit_mib:.0f} MiB, "
        self._reporter.event(
            "batch_search",
            f"batch {batch} in {self._precision}: {memory}{why}",
            {
                "what": what,
                "batch": batch,
                "peak_mib": peak_mib,
                "limit_mib": self._limit_mib,
                "precision": self._precision,
                **more,
            },
        )

    def _now_s(self) -> float:
        return self._reporter.context.now_s()
