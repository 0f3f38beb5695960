"""Fills a device's memory with operands step by step, and backs off if it does not suffice."""

from typing import TYPE_CHECKING

from rigproof.devices.device import Device
from rigproof.devices.golden import GoldenData
from rigproof.devices.opening import open_device
from rigproof.devices.out_of_memory import failed_allocation
from rigproof.devices.pool import Pool, matrices_in
from rigproof.devices.reporting import Reporter, product_tflop
from rigproof.devices.retreat import CPU, Attempt
from rigproof.devices.round_queue import products_for
from rigproof.devices.vram_policy import VramPolicy
from rigproof.profiles.planning.operands import matrix_mib, result_mib
from rigproof.records.identity import DeviceKind
from rigproof.records.measurements import Labels, Phase

if TYPE_CHECKING:  # at run time it imports the workload
    from rigproof.stages.sustained.stage import SustainedSpec


class Filling:
    """One worker's pool and its device: the CPU if nothing else is left to try on the promised device.

    The products that make references are reported as warm-up rounds.
    """

    def __init__(self, spec: "SustainedSpec", device: Device, reporter: Reporter, policy: VramPolicy) -> None:
        self._spec = spec
        self._promised = device
        self._reporter = reporter
        self._policy = policy
        self.device = device
        self.precision = policy.precision()
        self.attempt = Attempt(spec.vram_mib, spec.size)
        self.planned = matrices_in(spec.vram_mib, spec.size, self.precision)
        self.pool = self._new_pool(spec.size)
        self.products = 1  # in a round, from the time of the last product
        self._product_s = 0.0  # of the last product that made a reference
        # Of the products that make references, as far as they are not yet in a round.
        self._first_s, self._first_products, self._first_correct = 0.0, 0, True

    @property
    def stands_in(self) -> DeviceKind | None:
        """The device that works instead of the promised one, if any."""
        return None if self.device is self._promised else self.device.kind

    def fill(self) -> None:
        """Grow the pool to the attempt's target, with a smaller attempt after each failure, until stopped.

        Raises MemoryError if nothing is left to try.
        """
        self.device.use(self.precision)
        while failure := self._grow():
            self.back_off(failure, in_round=False)
        if self.stands_in is None:
            size, checksums = self.attempt.size, self.pool.checksums
            self._reporter.references(self.device, self.precision, size, checksums, golden=True)

    def back_off(self, failure: str, *, in_round: bool) -> None:
        """Report a failed allocation, and free what the next attempt, made by `fill`, will not hold.

        No round may be in progress. Raises MemoryError if nothing is left to try.
        """
        last = self.attempt
        requested_mib = self.pool.mib + matrix_mib(last.size, self.precision)
        retry = self._policy.after_failure(last, self._spec.size, self.precision, in_round=in_round)
        if retry is not None and (retry.size, retry.part) == (last.size, last.part):
            self.pool.shrink_to(_count(retry.target_mib, retry.size, self.precision))
        else:
            self.pool.release()
        self._policy.failed(failure, requested_mib, recovered=retry is not None)
        if retry is None:
            raise MemoryError(f"no room for operands of size {last.size}: {failure}")
        self._policy.changed(last, retry, self._spec.size)
        self.attempt = retry
        if retry.part == CPU and self.stands_in is None:
            self.device = open_device("cpu", self._promised.cpu_threads)
            self.precision = self.device.half
        if (retry.size, retry.part) != (last.size, last.part):
            self.pool = self._new_pool(retry.size)
        self.device.use(self.precision)

    def _new_pool(self, size: int) -> Pool:
        """A pool of golden operands, so that all filled memory is checked against exact arithmetic."""
        return Pool(self.device, size, self.precision, GoldenData(self.device, size, self.precision))

    def release(self) -> None:
        """Free the pool."""
        self.pool.release()

    def report(
        self, phase: Phase, seconds: float, products: int, *, verified: bool, host_paced: bool | None = None
    ) -> None:
        """Report a round of this pool's products."""
        size, part = self.attempt.size, self.attempt.part
        labels: Labels = {"precision": self.precision, "size": size, **({"part": part} if part else {})}
        self._reporter.round(
            phase=phase,
            seconds=seconds,
            work=products * product_tflop(size),
            verified=verified,
            labels=labels,
            device=self.stands_in,
            host_paced=host_paced,
        )

    def _grow(self) -> str:
        """Fill step by step; returns the message if memory does not suffice."""
        attempt, context, failure = self.attempt, self._reporter.context, ""
        steps = self._policy.steps(attempt.target_mib, self.pool.mib)
        self._product_s = 0.0
        for goal_mib in (attempt.target_mib,) if attempt.part else steps:
            count = _count(goal_mib, attempt.size, self.precision)
            while len(self.pool) < count and not context.stopped() and not failure:
                failure = failed_allocation(self.device, self._add_matrix)
                if not failure:
                    self._policy.monitor()
            if failure or context.stopped():
                break
        self._report_first()
        if self._product_s:
            self.products = products_for(self._spec.round_s, self._product_s)
        return failure

    def _add_matrix(self) -> None:
        """Add one; its products with its neighbour are checked at once, and collected into warm-up rounds."""
        for made in self.pool.grow():
            self._product_s = made.seconds
            self._first_s += made.seconds
            self._first_products += 1
            self._first_correct = self._first_correct and made.verified
            self._reporter.first(self.pool, made, self.precision)
            if self._first_s >= self._spec.round_s:
                self._report_first()

    def _report_first(self) -> None:
        if self._first_products:
            self.report("warmup", self._first_s, self._first_products, verified=self._first_correct)
        self._first_s, self._first_products, self._first_correct = 0.0, 0, True


def _count(mib: float, size: int, precision: str) -> int:
    """How many operands fit beside one result; 0 if none does."""
    return max(0, int((mib - result_mib(size, precision)) / matrix_mib(size, precision)))
