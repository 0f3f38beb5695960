"""The sustained stage: memory full of operands, multiplied over and over in 16-bit."""

from rigproof.profiles.operands import matrix_mib
from rigproof.profiles.plan import SUSTAINED_SETTLE_SHARE
from rigproof.records.measurements import Phase
from rigproof.workloads.context import WorkerContext
from rigproof.workloads.device import Device
from rigproof.workloads.pool import LEAST_MATRICES, Pool, matrices_in
from rigproof.workloads.reporting import Reporter
from rigproof.workloads.rounds import FinishedRound, RoundQueue, adapted, products_for
from rigproof.workloads.specs import SustainedSpec
from rigproof.workloads.verification import Reference, as_hex

SHRINK_SHARE = 0.9
FILL_TRIES = 8
LEAST_LOAD_SHARE = 1 / 2  # of the duration, however long filling took


def run_sustained(spec: SustainedSpec, device: Device, context: WorkerContext) -> None:
    """Fill `vram_mib`, then multiply until `duration_s` from the start is over, or until stopped.

    What is allocated is freed at the end in any case. Raises ValueError where `vram_mib` holds no
    pair of operands, MemoryError where the device does not give room for one.
    """
    load = SustainedLoad(spec, device, Reporter(context, spec.stage))
    try:
        load.fill()
        load.work()
    finally:
        load.release()


class SustainedLoad:
    """One worker's pool and the rounds over it. Every result is compared with its pair's reference."""

    def __init__(self, spec: SustainedSpec, device: Device, reporter: Reporter) -> None:
        self._spec = spec
        self._device = device
        self._reporter = reporter
        self._precision = device.half
        self._pool = Pool(device, spec.size, self._precision)
        self._started_s = reporter.context.now_s()
        self._products = 1

    def fill(self) -> None:
        """Add matrices until the target is reached, each checked with its neighbour as it comes.

        Where memory does not suffice the target shrinks by a tenth, up to 8 times. The checked
        products are reported as warm-up rounds.
        """
        self._device.use(self._precision)
        target = planned = matrices_in(self._spec.vram_mib, self._spec.size, self._precision)
        first_pass = FirstPass(self._spec, self._precision, self._reporter)
        tries = 0
        while len(self._pool) < target and not self._reporter.context.stopped():
            failure = self._grow(first_pass)
            if failure is not None:
                tries += 1
                target = int(target * SHRINK_SHARE)
                self._give_way(failure, target, recovered=tries <= FILL_TRIES and target >= LEAST_MATRICES)
            self._reporter.memory_when_due(self._device)
        first_pass.close()
        self._products = products_for(self._spec.round_s, first_pass.product_s)
        allocated_mib = self._pool.mib
        self._reporter.event(
            "allocation",
            f"{len(self._pool)} of {planned} operands, {allocated_mib:.0f} of {self._spec.vram_mib:.0f} MiB",
            {
                "target_mib": self._spec.vram_mib,
                "allocated_mib": allocated_mib,
                "matrices": len(self._pool),
                "precision": self._precision,
            },
        )

    def work(self) -> None:
        """Rounds over all pairs, warm-up first, until the time is over or the workload is stopped."""
        context = self._reporter.context
        duration_s = self._spec.duration_s
        settled_at_s = self._started_s + min(self._spec.settle_s, duration_s * SUSTAINED_SETTLE_SHARE)
        end_s = max(self._started_s + duration_s, context.now_s() + duration_s * LEAST_LOAD_SHARE)
        queue = RoundQueue(self._device, self._pool.launch, sum_each=True)
        while not context.stopped() and context.now_s() < end_s:
            phase: Phase = "warmup" if context.now_s() < settled_at_s else "measure"
            while not queue.full:
                self._add_round(queue, phase)
            finished = queue.finish()
            self._report_round(finished)
            if phase == "warmup":
                self._products = adapted(finished.products, finished.seconds, self._spec.round_s)
            self._reporter.memory_when_due(self._device)
        while queue:
            self._report_round(queue.finish())

    def release(self) -> None:
        """Free the pool."""
        self._pool.release()

    def _grow(self, first_pass: "FirstPass") -> str | None:
        """Add one matrix; the message where memory does not suffice."""
        try:
            made = self._pool.grow()
        except (RuntimeError, MemoryError) as error:
            if self._device.is_out_of_memory(error):
                return str(error)
            raise
        if made is not None:
            first_pass.add(*made)
        return None

    def _add_round(self, queue: RoundQueue[tuple[int, ...]], phase: Phase) -> None:
        """Queue a round, with a tenth less of the pool each time that memory does not suffice."""
        while True:
            try:
                queue.add(self._products, phase)
            except (RuntimeError, MemoryError) as error:
                if not self._device.is_out_of_memory(error):
                    raise
                failure = str(error)
            else:
                return
            count = int(len(self._pool) * SHRINK_SHARE)
            self._give_way(failure, count, recovered=count >= LEAST_MATRICES)

    def _give_way(self, failure: str, count: int, *, recovered: bool) -> None:
        """Report a failed allocation and go on with at most `count` matrices, or give up."""
        requested_mib = self._pool.mib + matrix_mib(self._spec.size, self._precision)
        self._pool.shrink_to(count)
        self._reporter.out_of_memory(failure, requested_mib, recovered=recovered)
        if not recovered:
            raise MemoryError(f"no room for operands of size {self._spec.size}: {failure}")

    def _report_round(self, finished: FinishedRound[tuple[int, ...]]) -> None:
        verified = True
        for pair, got in zip(finished.work, finished.checksums, strict=True):
            reference = self._pool.references[pair]
            if reference.confirms(got):
                continue
            verified = False
            if reference.correct:
                self._reporter.wrong_result(
                    f"{self._precision} result of pair {pair} changed between equal products",
                    {
                        "precision": self._precision,
                        "pair": pair,
                        "expected": as_hex(reference.checksum),
                        "got": as_hex(got),
                    },
                )
        self._reporter.round(
            precision=self._precision,
            phase=finished.phase,
            seconds=finished.seconds,
            products=finished.products,
            verified=verified,
            size=self._spec.size,
        )


class FirstPass:
    """The products that make references, gathered into warm-up rounds of about `round_s`."""

    def __init__(self, spec: SustainedSpec, precision: str, reporter: Reporter) -> None:
        self._spec = spec
        self._precision = precision
        self._reporter = reporter
        self._seconds = 0.0
        self._products = 0
        self._correct = True
        self.product_s = 0.0  # of the latest product

    def add(self, reference: Reference, seconds: float) -> None:
        """One product, checked against 64-bit arithmetic."""
        self.product_s = seconds
        self._seconds += seconds
        self._products += 1
        if not reference.correct:
            self._correct = False
            self._reporter.wrong_result(
                f"{self._precision} product differs from 64-bit arithmetic by {reference.error:.2g}, "
                f"tolerance {reference.tolerance:.2g}",
                {
                    "precision": self._precision,
                    "error": reference.error,
                    "tolerance": reference.tolerance,
                },
            )
        if self._seconds >= self._spec.round_s:
            self.close()

    def close(self) -> None:
        """Report what was gathered."""
        if self._products:
            self._reporter.round(
                precision=self._precision,
                phase="warmup",
                seconds=self._seconds,
                products=self._products,
                verified=self._correct,
                size=self._spec.size,
            )
        self._seconds, self._products, self._correct = 0.0, 0, True
