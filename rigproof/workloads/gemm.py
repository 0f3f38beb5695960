"""The GEMM stage: one device's steady rate, precision by precision."""

from collections.abc import Sequence

from rigproof.profiles.operands import operands_mib
from rigproof.profiles.plan import LATER_SETTLE_SHARE
from rigproof.records.measurements import Phase
from rigproof.workloads.context import WorkerContext
from rigproof.workloads.device import Checksums, Device, Product
from rigproof.workloads.reporting import Reporter
from rigproof.workloads.rounds import FinishedRound, RoundQueue, adapted, products_for
from rigproof.workloads.settling import Settling
from rigproof.workloads.specs import GemmSpec
from rigproof.workloads.verification import Reference, as_hex, make_reference

CHECKED_BLOCK = 64
MOST_PRODUCTS = 2**16  # of a round, however small they are


def measuring_order(wanted: Sequence[str], device: Device) -> tuple[str, ...]:
    """The precisions to measure, that of the highest power first; empty means all the device has.

    The best 16-bit precision draws most, so that the card is hot and at its power cap when the
    others are measured. ValueError names a precision that the device lacks.
    """
    for precision in wanted:
        if precision not in device.precisions:
            has = ", ".join(device.precisions)
            raise ValueError(f"{device.name} has no {precision}: ask for {has}")
    chosen = tuple(wanted) or device.precisions
    by_power = (device.half, "fp16", "bf16", "tf32", "fp32")
    return tuple(dict.fromkeys(precision for precision in by_power if precision in chosen))


def run_gemm(spec: GemmSpec, device: Device, context: WorkerContext) -> None:
    """Measure each precision until done or stopped. Rounds, and events for what went wrong, are emitted.

    An allocation that fails is reported as an event, then raised as MemoryError.
    """
    reporter = Reporter(context, spec.stage)
    for place, precision in enumerate(measuring_order(spec.precisions, device)):
        if context.stopped():
            return
        settle_s = spec.settle_s * (1.0 if place == 0 else LATER_SETTLE_SHARE)
        failure = _measured(spec, precision, settle_s, device, reporter)
        device.empty_cache()
        if failure:
            needed_mib = operands_mib(spec.size, precision)
            reporter.out_of_memory(failure, needed_mib, recovered=False)
            raise MemoryError(f"{precision} operands of size {spec.size}: {failure}")


def _measured(
    spec: GemmSpec, precision: str, settle_s: float, device: Device, reporter: Reporter
) -> str | None:
    """Measure one precision; the message where memory did not suffice.

    Returned and not raised, because a traceback would keep the operands alive.
    """
    try:
        device.use(precision)
        a = device.normal(spec.size, precision, seed=1)
        b = device.normal(spec.size, precision, seed=2)
        product = Product(a, b, device.empty(spec.size, precision), precision)
        SteadyRate(spec, product, device, reporter).run(settle_s)
    except (RuntimeError, MemoryError) as error:
        if device.is_out_of_memory(error):
            return str(error)
        raise
    return None


class SteadyRate:
    """One precision: a reference, warm-up until the rate settles, then measured rounds."""

    def __init__(self, spec: GemmSpec, product: Product, device: Device, reporter: Reporter) -> None:
        self._spec = spec
        self._product = product
        self._precision = product.precision
        self._device = device
        self._reporter = reporter
        self._count = 0

    def run(self, settle_s: float) -> None:
        """Warm up for at most `settle_s`, measure for the spec's `measure_s`, or until stopped."""
        context = self._reporter.context
        reference, _ = make_reference(self._device, self._product, CHECKED_BLOCK)
        self._report_reference(reference)
        queue = RoundQueue(self._device, self._launch, sum_each=False)
        products = self._calibrated(queue)
        settling = Settling(settle_s)
        phase: Phase = "warmup"
        since_s = context.now_s()
        while not context.stopped():
            while not queue.full:
                queue.add(products, phase)
            finished = queue.finish()
            self._report_round(finished, reference)
            passed_s = context.now_s() - since_s
            if phase == "warmup":
                settling.add(finished.seconds, finished.products)
                products = adapted(products, finished.seconds, self._spec.round_s)
                if settling.done(passed_s):
                    phase, since_s = "measure", context.now_s()
            elif passed_s >= self._spec.measure_s:
                break
        while queue:
            self._report_round(queue.finish(), reference)

    def _launch(self, products: int, sums: Checksums) -> None:
        multiply = self._device.multiply
        a, b, out = self._product.a, self._product.b, self._product.out
        for _ in range(products):
            multiply(a, b, out)
        sums.add(out)

    def _calibrated(self, queue: RoundQueue[None]) -> int:
        """Products of a round, from batches that double until they last a quarter of one."""
        products, seconds = 1, 0.0
        while seconds < self._spec.round_s / 4 and products < MOST_PRODUCTS:
            products *= 2
            queue.add(products, "warmup")
            seconds = queue.finish().seconds
        return products_for(self._spec.round_s, seconds / products)

    def _report_reference(self, reference: Reference) -> None:
        if reference.correct:
            return
        self._reporter.wrong_result(
            f"{self._precision} product differs from 64-bit arithmetic by {reference.error:.2g}, "
            f"tolerance {reference.tolerance:.2g}",
            {"precision": self._precision, "error": reference.error, "tolerance": reference.tolerance},
        )

    def _report_round(self, finished: FinishedRound[None], reference: Reference) -> None:
        got = finished.checksums[-1]
        if reference.correct and got != reference.checksum:
            self._reporter.wrong_result(
                f"{self._precision} result changed between equal products",
                {
                    "precision": self._precision,
                    "round": self._count,
                    "expected": as_hex(reference.checksum),
                    "got": as_hex(got),
                },
            )
        self._count += 1
        self._reporter.round(
            precision=self._precision,
            phase=finished.phase,
            seconds=finished.seconds,
            products=finished.products,
            verified=reference.confirms(got),
            size=self._spec.size,
        )
