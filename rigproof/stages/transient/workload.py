"""The transient stage's workload: bursts of products that begin on a clock which all GPUs of a host share.

The workers of a host are processes of one boot, started by one raylet: their monotonic clocks are the same
one (CLOCK_MONOTONIC), and the driver gave all of them the same offset from run time. So each begins its
bursts at moments that it computes from the moment at which their crew began, and nothing is exchanged. How
exactly they did is recorded: a round's end is the run time at which the device reached its last mark, by the
device's own clock since an anchor, a mark that is known by both clocks.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from rigproof.devices.device import Checksums, Device, Mark
from rigproof.devices.golden import GoldenData
from rigproof.devices.out_of_memory import within_memory
from rigproof.devices.pool import LEAST_MATRICES, Launched, Pool
from rigproof.devices.reporting import Reporter, product_tflop
from rigproof.devices.round_queue import FinishedRound
from rigproof.devices.specs import WorkerContext
from rigproof.profiles.planning.operands import operands_mib
from rigproof.records.measurements import Phase
from rigproof.stages.transient.stage import EDGE, HALF, LEAST_PRODUCTS, REST_S, Arm, TransientSpec

SMALLEST, ALIGNED = 256, 8
MOST_PRODUCTS = 2**14
CALIBRATING_S = 0.1  # a card that wakes from idle speeds up within its first products
ALIVE_S, NAP_S = 1.0, 0.05
ANCHOR_S = 2.0  # until the next one: clocks drift apart by up to 50 µs a second
ANCHOR_TRIES = 3
SPARE = 1.25  # room for checksums: a burst may hold more products than the first one

Sleep = Callable[[float], object]


def run_transient(
    spec: TransientSpec, device: Device, context: WorkerContext, sleep: Sleep = time.sleep
) -> None:
    """Make all bursts of the spec until done or stopped. Emits a round for each burst.

    A failed allocation is reported as an event, then raised as MemoryError.
    """
    reporter = Reporter(context, spec.stage)
    if spec.left_out:
        reporter.event("waves_left_out", spec.left_out, {})
        return
    needed_mib = operands_mib(spec.size, device.half)
    what = f"{device.half} operands of size {spec.size}"
    within_memory(device, reporter, needed_mib, what, Bursts(spec, device, reporter, sleep).run)


@dataclass(frozen=True, slots=True)
class Anchor:
    """A mark that an idle device reached at run time `t_s`, less the time that launching it took."""

    mark: Mark
    t_s: float

    def at(self, mark: Mark) -> float:
        """The run time at which the device reached a later mark, which must be done."""
        return self.t_s + mark.seconds_since(self.mark)


class Bursts:
    """One GPU's bursts, arm by arm. Between two bursts the device is idle."""

    def __init__(self, spec: TransientSpec, device: Device, reporter: Reporter, sleep: Sleep) -> None:
        self._spec = spec
        self._device = device
        self._reporter = reporter
        self._context = reporter.context
        self._sleep = sleep
        self._size = spec.size
        self._product_s = 0.0
        self._alive_s = self._context.now_s()
        self._count = 0

    def run(self) -> None:
        """Prepare, then make the bursts of each arm that this GPU takes part in."""
        own = [arm for arm in self._spec.arms if self._spec.rank < arm.gpus]
        if not own:
            return
        pool = self._prepared(min(HALF / arm.hz for arm in own))
        begins_s = self._context.crew.begins_s
        for arm in own:
            if not self._until(begins_s + arm.from_s - REST_S / 2):
                return
            self._make(arm, pool, begins_s)

    def _prepared(self, shortest_s: float) -> Pool:
        """Operands and their references, small enough for LEAST_PRODUCTS in the shortest burst."""
        self._device.use(self._device.half)
        while True:
            golden = GoldenData(self._device, self._size, self._device.half)
            pool = Pool(self._device, self._size, self._device.half, golden)
            for _ in range(LEAST_MATRICES):
                for made in pool.grow():
                    self._reporter.first(pool, made, self._device.half)
            self._product_s = self._calibrated(pool)
            if self._product_s * LEAST_PRODUCTS <= shortest_s or self._size // 2 < SMALLEST:
                break
            pool.release()
            self._size = self._size // 2 // ALIGNED * ALIGNED
        self._reporter.references(self._device, self._device.half, self._size, pool.checksums, golden=True)
        return pool

    def _calibrated(self, pool: Pool) -> float:
        """Device seconds of a product, from batches that double until one lasts CALIBRATING_S."""
        products, seconds = 1, 0.0
        while seconds < CALIBRATING_S and products < MOST_PRODUCTS and not self._context.stopped():
            products *= 2
            _, burst = self._burst(pool, products, self._device.checksums(products), "warmup")
            seconds = burst.seconds
            self._sign()
        return seconds / products

    def _make(self, arm: Arm, pool: Pool, begins_s: float) -> None:
        """The bursts of one arm. One whose wave is half over is left out, which shows as a missing wave."""
        aimed_s = HALF / arm.hz
        sums = self._device.checksums(max(1, min(MOST_PRODUCTS, int(SPARE * aimed_s / self._product_s) + 1)))
        anchor = self._anchor()
        for wave in range(arm.waves):
            due_s = begins_s + arm.due_s(wave)
            if due_s - anchor.t_s > ANCHOR_S:
                anchor = self._anchor()
            if not self._until(due_s):
                return
            if self._context.now_s() > due_s + aimed_s:
                continue
            products = max(1, min(sums.capacity, int(aimed_s / self._product_s + EDGE)))
            start, burst = self._burst(pool, products, sums, "measure" if wave else "warmup")
            self._product_s = burst.seconds / products
            self._report(arm, burst, anchor.at(start), pool)

    def _burst(
        self, pool: Pool, products: int, sums: Checksums, phase: Phase
    ) -> tuple[Mark, FinishedRound[Launched]]:
        """Do so many products, and wait for them. Returns the mark before them, too."""
        start = self._device.mark()
        launched = pool.launch(products, sums)
        sums.fetch()
        end = self._device.mark()
        end.wait()
        return start, FinishedRound(end.seconds_since(start), products, phase, sums.take(), launched)

    def _report(self, arm: Arm, burst: FinishedRound[Launched], begun_s: float, pool: Pool) -> None:
        precision = self._device.half
        verified = self._reporter.products(pool, precision, self._count, burst)
        self._count += 1
        self._reporter.round(
            phase=burst.phase,
            seconds=burst.seconds,
            work=burst.products * product_tflop(self._size),
            verified=verified,
            labels={"precision": precision, "size": self._size, "gpus": arm.gpus, "hz": arm.hz},
            t_s=begun_s + burst.seconds,
        )

    def _anchor(self) -> Anchor:
        """The one of a few whose launch and end took the least time, as seen by the host."""
        least_s, best = float("inf"), None
        for _ in range(ANCHOR_TRIES):
            before_s = self._context.now_s()
            mark = self._device.mark()
            mark.wait()
            took_s = self._context.now_s() - before_s
            if took_s < least_s:
                least_s, best = took_s, Anchor(mark, before_s)
        assert best is not None
        return best

    def _until(self, t_s: float) -> bool:
        """Wait for a moment of run time; False if stopped."""
        while not self._context.stopped():
            left_s = t_s - self._context.now_s()
            if left_s <= 0:
                return True
            self._sign()
            self._sleep(min(left_s, NAP_S))
        return False

    def _sign(self) -> None:
        """A sign of life once a second: a GPU may wait for its step as long as the others take."""
        if self._context.now_s() - self._alive_s >= ALIVE_S:
            self._alive_s = self._context.now_s()
            self._context.alive()
