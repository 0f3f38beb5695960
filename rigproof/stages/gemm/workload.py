"""The gemm stage's workload: one device's steady rate, precision by precision."""

from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import islice

from rigproof.devices.device import Device
from rigproof.devices.golden import GoldenData
from rigproof.devices.out_of_memory import within_memory
from rigproof.devices.pool import LEAST_MATRICES, Launched, NormalData, Pool
from rigproof.devices.reporting import Reporter, product_tflop
from rigproof.devices.round_queue import FinishedRound, RoundQueue, adapted, products_for
from rigproof.devices.specs import WorkerContext
from rigproof.profiles.planning.operands import gemm_mib
from rigproof.records.measurements import Phase
from rigproof.stages.gemm.stage import EXACT_EVERY, FEWEST_ROUNDS, LATER_SETTLE_SHARE, GemmSpec

CHECKED_BLOCK = 64
MOST_PRODUCTS = 2**16  # in a round, even if they are small
WINDOW_S, LEAST_S, AGREEMENT = 1.0, 2.0, 0.01  # of a rate that has settled


def measuring_order(wanted: Sequence[str], device: Device) -> tuple[str, ...]:
    """The precisions to measure, the one with the highest power first; if `wanted` is empty, all.

    The best 16-bit precision draws most, so that the card is hot and at its power cap when the
    others are measured. Raises ValueError for a precision that the device lacks.
    """
    for precision in wanted:
        if precision not in device.precisions:
            available = ", ".join(device.precisions)
            raise ValueError(f"{device.name} has no {precision}; it has {available}")
    chosen = tuple(wanted) or device.precisions
    by_power = (device.half, "fp16", "bf16", "fp8", "tf32", "fp32")
    return tuple(dict.fromkeys(precision for precision in by_power if precision in chosen))


def run_gemm(spec: GemmSpec, device: Device, context: WorkerContext) -> None:
    """Measure each precision until done or stopped. Emits rounds, and events for what went wrong.

    A failed allocation is reported as an event, then raised as MemoryError.
    """
    reporter = Reporter(context, spec.stage)
    for place, precision in enumerate(measuring_order(spec.precisions, device)):
        if context.stopped():
            return
        settle_s = spec.settle_s * (1.0 if place == 0 else LATER_SETTLE_SHARE)
        what = f"{precision} operands of size {spec.size}"
        measure = partial(_measure, spec, precision, settle_s, device, reporter)
        within_memory(device, reporter, gemm_mib(spec.size, precision), what, measure)


def _measure(spec: GemmSpec, precision: str, settle_s: float, device: Device, reporter: Reporter) -> None:
    device.use(precision)
    SteadyRate(spec, precision, device, reporter).run(settle_s)


class SteadyRate:
    """One precision: references, warm-up until the rate settles, then measured rounds.

    Two products alternate, b · aᵀ and a · bᵀ: each has its own checksum, and both read and write the same
    amount in the same layout, without a fourth matrix (a · aᵀ would read half as much, and draw less power).

    They are of normal data, as a rate is usually stated: golden operands are up to an eighth faster, since a
    card at its power cap does more of them (docs/measuring.md). The first and every tenth round is of golden
    operands, and one at the end, when the card is hot; they have the phase "exact" and belong to no rate.
    """

    def __init__(self, spec: GemmSpec, precision: str, device: Device, reporter: Reporter) -> None:
        self._spec = spec
        self._precision = precision
        self._device = device
        self._reporter = reporter
        size = spec.size
        self._pool = Pool(device, size, precision, NormalData(device, size, precision, CHECKED_BLOCK))
        self._golden = Pool(device, size, precision, GoldenData(device, size, precision))
        self._count = 0

    def run(self, settle_s: float) -> None:
        """Warm up for at most `settle_s`, then measure for the spec's `measure_s`, or until stopped.

        It may take longer than planned: on a busy device it waits for FEWEST_ROUNDS rounds.
        """
        context = self._reporter.context
        self._make_references()
        queue = RoundQueue(self._device, self._pool.launch)
        products = self._calibrated(queue)
        queued = 0
        settling = Settling(settle_s)
        phase: Phase = "warmup"
        since_s, measured = context.now_s(), 0
        while not context.stopped():
            while not queue.full:
                if queued % EXACT_EVERY:
                    queue.add(products, phase)
                else:
                    queue.add(products, "exact", self._golden.launch)
                queued += 1
            finished = queue.finish()
            self._report_round(finished)
            if finished.phase == "exact":
                continue
            passed_s = context.now_s() - since_s
            if phase == "warmup":
                settling.add(finished.seconds, finished.products)
                products = adapted(products, finished.seconds, self._spec.round_s)
                if settling.done(passed_s):
                    phase, since_s = "measure", context.now_s()
                continue
            measured += finished.phase == "measure"
            if passed_s >= self._spec.measure_s and measured >= FEWEST_ROUNDS:
                queue.add(products, "exact", self._golden.launch)
                break
        while queue:
            self._report_round(queue.finish())

    def _make_references(self) -> None:
        for pool in (self._pool, self._golden):
            pool.out = self._pool.out  # one result is enough for both
            for _ in range(LEAST_MATRICES):
                for made in pool.grow():
                    self._reporter.first(pool, made, self._precision)
            self._reporter.references(
                self._device, self._precision, self._spec.size, pool.checksums, golden=pool.data.golden
            )

    def _calibrated(self, queue: RoundQueue[Launched]) -> int:
        """The number of products in a round, from batches that double until they last a quarter of one."""
        products, seconds = 1, 0.0
        while seconds < self._spec.round_s / 4 and products < MOST_PRODUCTS:
            if self._reporter.context.stopped():
                break
            products *= 2
            queue.add(products, "warmup")
            finished = queue.finish()
            self._report_round(finished)
            seconds = finished.seconds
        return products_for(self._spec.round_s, seconds / products)

    def _report_round(self, finished: FinishedRound[Launched]) -> None:
        pool = self._golden if finished.phase == "exact" else self._pool
        verified = self._reporter.products(pool, self._precision, self._count, finished)
        self._count += 1
        self._reporter.round(
            phase=finished.phase,
            seconds=finished.seconds,
            work=finished.products * product_tflop(self._spec.size),
            verified=verified,
            labels={"precision": self._precision, "size": self._spec.size},
            host_paced=finished.work.host_paced,
        )


class Settling:
    """Watches warm-up rounds until the rate is steady, or its time limit is reached.

    Steady: the mean rate of about the last second lies within 1 % of that of the second before,
    and at least 2 s have passed (or `limit_s`, if that is shorter).
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._rounds: deque[tuple[float, float]] = deque()  # seconds, work; the latest first
        self.steady = False  # whether the last two windows agree; both must be full

    def add(self, seconds: float, work: float) -> None:
        """Add a round: its seconds of device time, and its work."""
        self._rounds.appendleft((seconds, work))
        late_s, late, used = self._window(0)
        early_s, early, used = self._window(used)
        while len(self._rounds) > used:
            self._rounds.pop()
        full = late_s >= WINDOW_S and early_s >= WINDOW_S
        self.steady = full and abs(late / late_s - early / early_s) <= AGREEMENT * (early / early_s)

    def done(self, passed_s: float) -> bool:
        """Whether warm-up ends, `passed_s` after it began."""
        return passed_s >= self._limit_s or (passed_s >= LEAST_S and self.steady)

    def _window(self, first: int) -> tuple[float, float, int]:
        """Seconds and work of the window that starts at round `first`, and the index after its last round."""
        seconds = work = 0.0
        for place, (round_s, round_work) in enumerate(islice(self._rounds, first, None), start=first):
            if seconds >= WINDOW_S:
                return seconds, work, place
            seconds, work = seconds + round_s, work + round_work
        return seconds, work, len(self._rounds)
