"""Fills a device's memory with operands step by step, and backs off if it does not suffice."""

from functools import partial
from typing import TYPE_CHECKING

from rigproof.devices.device import Device
from rigproof.devices.golden import GoldenData
from rigproof.devices.opening import open_device
from rigproof.devices.out_of_memory import failed_allocation
from rigproof.devices.pool import Pool, matrices_in
from rigproof.devices.reporting import Reporter, product_tflop
from rigproof.devices.retreat import CPU, Attempt
from rigproof.devices.round_queue import products_for
from rigproof.devices.verification import Made
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
        """Of golden operands: all filled memory takes part in products held against exact arithmetic."""
        return Pool(self.device, size, self.precision, GoldenData(self.device, size, self.precision))

    def release(self) -> None:
        """Free the pool."""
        self.pool.release()

    def report(self, phase: Phase, seconds: float, products: int, *, verified: bool) -> None:
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
        )

    def _grow(self) -> str:
        """Fill step by step; returns the message if memory does not suffice."""
        attempt, failure = self.attempt, ""
        first_pass = FirstPass(self, self._reporter, self._spec.round_s)
        steps = self._policy.steps(attempt.target_mib, self.pool.mib)
        for goal_mib in (attempt.target_mib,) if attempt.part else steps:
            failure = self._grow_to(_count(goal_mib, attempt.size, self.precision), first_pass)
            if failure or self._reporter.context.stopped():
                break
        first_pass.close()
        if first_pass.product_s:
            self.products = products_for(self._spec.round_s, first_pass.product_s)
        return failure

    def _grow_to(self, count: int, first_pass: "FirstPass") -> str:
        """Add matrices one by one; the products of each with its neighbour are checked at once."""
        while len(self.pool) < count and not self._reporter.context.stopped():
            if failure := failed_allocation(self.device, partial(self._add_matrix, first_pass)):
                return failure
            self._policy.monitor()
        return ""

    def _add_matrix(self, first_pass: "FirstPass") -> None:
        for made in self.pool.grow():
            first_pass.add(made)


class FirstPass:
    """The products that make references, collected into warm-up rounds of about `round_s`."""

    def __init__(self, filling: Filling, reporter: Reporter, round_s: float) -> None:
        self._filling = filling
        self._reporter = reporter
        self._round_s = round_s
        self._seconds = 0.0
        self._products = 0
        self._correct = True
        self.product_s = 0.0  # of the latest product

    def add(self, made: Made) -> None:
        """Add one product, the first of its pair."""
        self.product_s = made.seconds
        self._seconds += made.seconds
        self._products += 1
        self._correct = self._correct and made.verified
        self._reporter.first(self._filling.pool, made, self._filling.precision)
        if self._seconds >= self._round_s:
            self.close()

    def close(self) -> None:
        """Report the products collected so far."""
        if self._products:
            self._filling.report("warmup", self._seconds, self._products, verified=self._correct)
        self._seconds, self._products, self._correct = 0.0, 0, True


def _count(mib: float, size: int, precision: str) -> int:
    """How many operands fit beside one result; 0 if none does."""
    return max(0, int((mib - result_mib(size, precision)) / matrix_mib(size, precision)))
