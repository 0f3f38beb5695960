"""The shapes stage's workload: all candidates in turn, again and again, timed by the device's own clock."""

from dataclasses import dataclass

from rigproof.devices.device import Device
from rigproof.devices.out_of_memory import within_memory
from rigproof.devices.reporting import Reporter
from rigproof.devices.round_queue import products_for
from rigproof.devices.specs import WorkerContext
from rigproof.devices.transformer.shape import shape_for
from rigproof.devices.verification import Reference, as_hex
from rigproof.records.measurements import Phase
from rigproof.stages.shapes.candidates import Candidate, candidates, elements, fitting_tokens
from rigproof.stages.shapes.products import Measured, Operands
from rigproof.stages.shapes.stage import ShapesSpec

# Each candidate gets a short round in each pass, so that all of them see the same temperatures and clocks.
ROUND_S = 0.05
FEWEST_PASSES = 3  # measured, even if they take long: fewer would be single readings
MOST_LAUNCHES = 4096
TINY_TOKENS = 64  # on the CPU: to show that it works, not to measure anything


def run_shapes(spec: ShapesSpec, device: Device, context: WorkerContext) -> None:
    """Measure the candidates until done or stopped. Emits rounds, and events for what went wrong.

    Raises ValueError if the memory is too small for a model. A failed allocation is reported as an event,
    then raised as MemoryError.
    """
    reporter = Reporter(context, spec.stage)
    width = shape_for(device.kind, spec.vram_mib, spec.model_share, spec.sequence).width
    tokens = min(spec.tokens, TINY_TOKENS) if device.kind == "cpu" else spec.tokens
    those = candidates(width, fitting_tokens(width, tokens, spec.vram_mib))
    needed_mib = sum(elements(those)) * 2 / 2**20

    def measure() -> None:
        device.use(device.half)
        Passes(spec, those, device, reporter).work()

    try:
        within_memory(device, reporter, needed_mib, f"operands of {needed_mib:.0f} MiB", measure)
    finally:
        device.use("fp32")


@dataclass(slots=True)
class _Known:
    """A candidate with its reference, and how many launches fill a round."""

    candidate: Candidate
    measured: Measured
    reference: Reference
    launches: int = 1


class Passes:
    """Passes over all candidates. The first one makes references and is warm-up."""

    def __init__(
        self, spec: ShapesSpec, those: tuple[Candidate, ...], device: Device, reporter: Reporter
    ) -> None:
        self._spec = spec
        self._device = device
        self._reporter = reporter
        self._precision = device.half
        self._candidates = those
        self._operands = Operands(device, self._precision, those)
        self._sums = device.checksums(1)

    def work(self) -> None:
        """Pass after pass for `duration_s`, FEWEST_PASSES at least; or until stopped."""
        context = self._reporter.context
        end_s = context.now_s() + self._spec.duration_s
        known = []
        for candidate in self._candidates:
            if context.stopped():
                return
            known.append(self._prepared(candidate))
        passes = 0
        while context.now_s() < end_s or passes < FEWEST_PASSES:
            for one in known:
                if context.stopped():
                    return
                self._round(one, "measure")
            passes += 1

    def _prepared(self, candidate: Candidate) -> _Known:
        measured = self._operands.measured(candidate, self._spec.sequence)
        measured.prepare()
        reference = measured.reference()
        one = _Known(candidate, measured, reference)
        if not reference.correct:
            message, data = reference.wrong(self._precision)
            self._reporter.wrong_result(f"{self._name(candidate)}: {message}", data)
        seconds = self._round(one, "warmup")  # the first one may load a kernel
        for _ in range(2):
            one.launches = min(MOST_LAUNCHES, products_for(ROUND_S, seconds / one.launches), 8 * one.launches)
            seconds = self._round(one, "warmup")
        one.launches = min(MOST_LAUNCHES, products_for(ROUND_S, seconds / one.launches))
        return one

    def _round(self, one: _Known, phase: Phase) -> float:
        """Do one round, and check its last result behind it; returns its seconds."""
        one.measured.prepare()
        start = self._device.mark()
        for _ in range(one.launches):
            one.measured.launch()
        end = self._device.mark()
        self._sums.add(one.measured.result)
        self._sums.fetch()
        self._device.mark().wait()
        (checksum,) = self._sums.take()
        seconds = end.seconds_since(start)
        candidate, reference = one.candidate, one.reference
        if reference.correct and checksum != reference.checksum:
            differs = f"has the checksum {as_hex(checksum)}, not {as_hex(reference.checksum)}"
            self._reporter.wrong_result(
                f"{self._name(candidate)} {differs}",
                {"precision": self._precision, "product": candidate.product, "size": candidate.size},
            )
        self._reporter.round(
            phase=phase,
            seconds=seconds,
            work=one.launches * candidate.tflop(self._spec.sequence),
            verified=reference.confirms(checksum),
            labels={
                "precision": self._precision,
                "size": candidate.size,
                "product": candidate.product,
                "tokens": candidate.tokens,
            },
        )
        return seconds

    def _name(self, candidate: Candidate) -> str:
        return f"{self._precision} {candidate.product} of hidden size {candidate.size}"
