"""The sustained stage's workload: fills memory with operands and multiplies them continuously in 16-bit."""

from functools import partial

from rigproof.devices.device import Device
from rigproof.devices.out_of_memory import failed_allocation
from rigproof.devices.pool import Launched
from rigproof.devices.reporting import Reporter
from rigproof.devices.round_queue import FinishedRound, RoundQueue, adapted
from rigproof.devices.specs import WorkerContext
from rigproof.devices.vram_policy import VramPolicy
from rigproof.records.measurements import Phase
from rigproof.stages.sustained.filling import Filling
from rigproof.stages.sustained.stage import SETTLE_SHARE, SustainedSpec

LEAST_LOAD_SHARE = 1 / 2  # of the duration, even if filling took long


def run_sustained(spec: SustainedSpec, device: Device, context: WorkerContext) -> None:
    """Fill `vram_mib`, then multiply until `duration_s` after the start, or until stopped.

    All memory is always freed at the end. Raises ValueError if `vram_mib` is too small for a pair of
    operands; MemoryError if memory does not suffice and `spec.memory` allows no smaller attempt.
    """
    reporter = Reporter(context, spec.stage)
    policy = VramPolicy(spec.memory, device, reporter)
    started_s = context.now_s()
    try:
        policy.begin()
        total_mib = device.memory().device_total_mib
        policy.decided("worker_plan", total_mib, spec.vram_mib, "MiB", "this worker's part of the device")
        filling = Filling(spec, device, reporter, policy)
        try:
            filling.fill()
            _report_allocation(spec, filling, reporter)
            SustainedLoad(spec, filling, reporter, policy).work(started_s)
        finally:
            filling.release()
    finally:
        policy.end()


def _report_allocation(spec: SustainedSpec, filling: Filling, reporter: Reporter) -> None:
    """Report how much of the planned memory was filled. Emergency work fills none."""
    if filling.attempt.part:
        return
    pool = filling.pool
    reporter.event(
        "allocation",
        f"{len(pool)} of {filling.planned} operands, {pool.mib:.0f} of {spec.vram_mib:.0f} MiB",
        {
            "target_mib": spec.vram_mib,
            "allocated_mib": pool.mib,
            "matrices": len(pool),
            "size": filling.attempt.size,
            "precision": filling.precision,
        },
    )


class SustainedLoad:
    """The rounds over one worker's pool. Every result is compared with its pair's reference."""

    def __init__(self, spec: SustainedSpec, filling: Filling, reporter: Reporter, policy: VramPolicy) -> None:
        self._spec = spec
        self._filling = filling
        self._reporter = reporter
        self._policy = policy
        self._count = 0

    def work(self, started_s: float) -> None:
        """Do rounds over all pairs, warm-up first, until the time is over or the workload is stopped."""
        context = self._reporter.context
        duration_s = self._spec.duration_s
        settled_at_s = started_s + min(self._spec.settle_s, duration_s * SETTLE_SHARE)
        end_s = max(started_s + duration_s, context.now_s() + duration_s * LEAST_LOAD_SHARE)
        queue = self._queue()
        while not context.stopped() and context.now_s() < end_s:
            phase: Phase = "warmup" if context.now_s() < settled_at_s else "measure"
            add = partial(self._add_rounds, queue, phase)
            if failure := failed_allocation(self._filling.device, add):
                self._finish_all(queue)
                self._filling.back_off(failure, in_round=True)
                self._filling.fill()
                queue = self._queue()
                continue
            finished = queue.finish()
            self._report_round(finished)
            if phase == "warmup":
                self._filling.products = adapted(finished.products, finished.seconds, self._spec.round_s)
            self._policy.after_round()
        self._finish_all(queue)

    def _queue(self) -> RoundQueue[Launched]:
        return RoundQueue(self._filling.device, self._filling.pool.launch)

    def _add_rounds(self, queue: RoundQueue[Launched], phase: Phase) -> None:
        while not queue.full:
            queue.add(self._filling.products, phase)

    def _finish_all(self, queue: RoundQueue[Launched]) -> None:
        while queue:
            self._report_round(queue.finish())

    def _report_round(self, finished: FinishedRound[Launched]) -> None:
        precision = self._filling.precision
        verified = self._reporter.products(self._filling.pool, precision, self._count, finished)
        self._count += 1
        self._filling.report(
            finished.phase,
            finished.seconds,
            finished.products,
            verified=verified,
            host_paced=finished.work.host_paced,
        )
