"""The transfer stage's workload: copies between host and device, timed by the device's own clock.

Cards of a host take turns by the clock (`TransferSpec.slots`): a turn is shorter than the driver's beat.
"""

import time
from typing import TYPE_CHECKING

from rigproof.devices.device import Device
from rigproof.devices.out_of_memory import within_memory
from rigproof.devices.reporting import Reporter
from rigproof.devices.specs import WorkerContext
from rigproof.records.measurements import GB
from rigproof.stages.transfer.buffers import Buffers
from rigproof.stages.transfer.stage import BOTH, D2H, H2D, MEANINGS, TOGETHER

if TYPE_CHECKING:  # at run time it imports this module
    from rigproof.stages.transfer.stage import Slot, TransferSpec

DIRECTIONS: dict[str, tuple[str, ...]] = {H2D: (H2D,), D2H: (D2H,), BOTH: (H2D, D2H)}
COPY_S = 0.005  # of a copy at most: with longer ones a slot would have too few
ROUND_S = 0.006  # of copies in a round that is reported
WAIT_S = 0.01
SLOWEST = 1.5  # a copy may take this much longer than the one before it


def run_transfer(spec: "TransferSpec", device: Device, context: WorkerContext) -> None:
    """Measure each direction alone and together. Emits rounds, and events for what went wrong.

    A failed allocation is reported as an event, then raised as MemoryError.
    """
    reporter = Reporter(context, spec.stage)
    needed_mib = 4.0 * spec.mib
    what = f"buffers of {needed_mib:.0f} MiB together"
    within_memory(
        device, reporter, needed_mib, what, lambda: Transfers(spec, Buffers(device, spec.mib), reporter).run()
    )


class Transfers:
    """One card's transfers from its set-up to the end of the stage."""

    def __init__(self, spec: "TransferSpec", buffers: Buffers, reporter: Reporter) -> None:
        self._spec = spec
        self._buffers = buffers
        self._reporter = reporter
        self._context = reporter.context
        self._begin_s = self._context.crew.begins_s
        self._copy_s = 0.0  # from the begin of the last copy to the end of its verification

    def run(self) -> None:
        """Wake the link, transfer alone, wait for the others' shifts, transfer with them."""
        self._wake(self._spec.setup_s)
        self._wait_until(self._spec.alone_from_s)
        alone = self._spec.alone(self._into_s())
        if alone:
            self._wake(alone[0].from_s)
        else:
            self._report_late()
        for slot in (*alone, *self._spec.together()):
            self._measure(slot)
        flaw = self._buffers.seen_by_host()
        if flaw:
            self._reporter.wrong_result(flaw, {"direction": D2H})

    def _into_s(self) -> float:
        return self._context.now_s() - self._begin_s

    def _goes_on(self, until_s: float) -> bool:
        """Whether another copy fits before that moment."""
        return not self._context.stopped() and self._into_s() + SLOWEST * self._copy_s < until_s

    def _wait_until(self, moment_s: float) -> None:
        """Wait for others, without traffic on the link."""
        while not self._context.stopped() and (left_s := moment_s - self._into_s()) > 0:
            self._buffers.keep_awake()
            time.sleep(min(left_s, WAIT_S))

    def _wake(self, until_s: float) -> None:
        """Copy both ways, and find how much to copy at a time; once at least, since that sets things up.

        These copies are verified, and not reported. The amount is a power of two, so that runs are alike.
        """
        buffers, first = self._buffers, True
        buffers.mib_at_once = 1
        while first or self._goes_on(until_s):
            first = False
            seconds, wrong = self._timed(BOTH, filling=False)
            self._report_wrong(BOTH, wrong)
            self._context.alive()
            fitting = COPY_S / max(seconds, 1e-9) * buffers.mib_at_once
            most = min(8 * buffers.mib_at_once, max(1, int(fitting)))
            buffers.mib_at_once = min(buffers.mib, 1 << (most.bit_length() - 1))

    def _measure(self, slot: "Slot") -> None:
        """Measure one direction in its slot."""
        self._wait_until(slot.from_s)
        while self._goes_on(slot.to_s):
            self._round(slot)

    def _round(self, slot: "Slot") -> None:
        """Copies of ROUND_S, as far as the slot lasts, reported as one round."""
        copies, seconds, wrong = 0, 0.0, ""
        while not copies or (seconds < ROUND_S and self._goes_on(slot.to_s)):
            one_s, flaw = self._timed(slot.direction, filling=slot.company == TOGETHER)
            copies, seconds, wrong = copies + 1, seconds + one_s, wrong or flaw
        self._report_wrong(slot.direction, wrong)
        buffers = self._buffers
        self._reporter.round(
            phase="measure",
            seconds=seconds,
            work=copies * len(DIRECTIONS[slot.direction]) * buffers.gb,
            unit=GB,
            verified=not wrong,
            labels={"direction": slot.direction, "company": slot.company, "mib": buffers.mib_at_once},
        )

    def _timed(self, direction: str, *, filling: bool) -> tuple[float, str]:
        begun_s = self._context.now_s()
        found = self._buffers.copy(DIRECTIONS[direction], filling=filling)
        self._copy_s = self._context.now_s() - begun_s
        return found

    def _report_wrong(self, direction: str, wrong: str) -> None:
        if wrong:
            self._reporter.wrong_result(f"{MEANINGS[direction]}: {wrong}", {"direction": direction})

    def _report_late(self) -> None:
        late_s = self._into_s() - self._spec.alone_from_s
        message = f"was ready to transfer {late_s:.2f} s after its turn to do so alone had begun"
        self._reporter.event("turn_missed", message, {"late_s": late_s})
