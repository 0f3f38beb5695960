"""Makes records of a workload's measurements, and runs a workload."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from rigproof.devices.device import Device
from rigproof.devices.round_queue import FinishedRound
from rigproof.devices.specs import WorkerContext
from rigproof.devices.verification import Made, Reference, differing
from rigproof.records.identity import DeviceKind
from rigproof.records.measurements import TFLOP, Event, Labels, MemoryReading, Phase, Round

if TYPE_CHECKING:  # it loads torch, which the driver and the simulated stages that report do without
    from rigproof.devices.pool import Launched, Pool
from rigproof.devices.specs import Spec

WRONG_RESULT_EVERY_S = 10.0
MEMORY_EVERY_S = 1.0


class Reporter:
    """One worker's records of one stage. Wrong results are reported at most every 10 s, with a count.

    `subject`: what its rounds and events are about; None: the worker's device. Readings of the allocator, and
    allocations that fail, are always about the device.
    """

    def __init__(self, context: WorkerContext, stage: str, subject: str | None = None) -> None:
        self.context = context
        self.stage = stage
        self.subject = context.subject if subject is None else subject
        self._wrong_at_s: float | None = None
        self._wrong_unreported = 0
        self._memory_at_s: float | None = None
        self._references: dict[tuple[str, int, bool], dict[str, str]] = {}  # by precision, size and data

    @property
    def head(self) -> dict[str, Any]:
        """What every record begins with: when, in which stage, by whom, and about what."""
        now_s, worker = self.context.now_s(), self.context.worker
        return {"t_s": now_s, "stage": self.stage, "worker": worker, "subject": self.subject}

    def round(
        self,
        *,
        phase: Phase,
        seconds: float,
        work: float,
        verified: bool,
        labels: Labels,
        unit: str = TFLOP,
        t_s: float | None = None,
        device: DeviceKind | None = None,
        host_paced: bool | None = None,
    ) -> None:
        """Report a round that ended at run time `t_s` (None: now). `device`: if not the promised one."""
        self.context.emit(
            Round(
                t_s=self.context.now_s() if t_s is None else t_s,
                stage=self.stage,
                worker=self.context.worker,
                subject=self.subject,
                phase=phase,
                seconds=seconds,
                work=work,
                unit=unit,
                verified=verified,
                labels=labels,
                device=device,
                host_paced=host_paced,
            )
        )

    def memory(self, device: Device) -> None:
        """Report the current memory."""
        self._memory_at_s = now_s = self.context.now_s()
        worker, subject = self.context.worker, self.context.subject
        state = asdict(device.memory())  # by the names of the record
        self.context.emit(MemoryReading(now_s, self.stage, worker, subject, **state))

    def memory_when_due(self, device: Device, every_s: float = MEMORY_EVERY_S) -> None:
        """Report the memory, once every `every_s`."""
        last_s = self._memory_at_s
        if last_s is None or self.context.now_s() - last_s >= every_s:
            self.memory(device)

    def event(self, kind: str, message: str, data: dict[str, Any], *, t_s: float | None = None) -> None:
        """Report an event that happened at run time `t_s` (None: now)."""
        self._event(self.subject, kind, message, data, t_s)

    def _event(
        self, subject: str, kind: str, message: str, data: dict[str, Any], t_s: float | None = None
    ) -> None:
        self.context.emit(
            Event(
                t_s=self.context.now_s() if t_s is None else t_s,
                kind=kind,
                subject=subject,
                message=message,
                stage=self.stage,
                worker=self.context.worker,
                data=data,
            )
        )

    def wrong_result(
        self, message: str, data: dict[str, Any], look: Callable[[], dict[str, Any]] | None = None
    ) -> None:
        """Report a result that differs. `data.unreported` counts those not reported since the last event.

        `look` finds out more for a result that is reported (`Pool.examine`).
        """
        now_s = self.context.now_s()
        if self._wrong_at_s is not None and now_s - self._wrong_at_s < WRONG_RESULT_EVERY_S:
            self._wrong_unreported += 1
            return
        found = look() if look else {}
        self.event("wrong_result", message, {**data, **found, "unreported": self._wrong_unreported})
        self._wrong_at_s = now_s
        self._wrong_unreported = 0

    def check(self, reference: Reference, precision: str) -> None:
        """Check a new reference: if it is not correct, it is reported as a wrong result."""
        if not reference.correct:
            self.wrong_result(*reference.wrong(precision))

    def first(self, pool: "Pool", made: Made, precision: str) -> None:
        """Check the reference of a pool's latest pair, and its first product."""
        self.check(made.reference, precision)
        if made.reference.correct and not made.verified:
            self._wrong_product(pool, precision, made.wrong)

    def products(
        self, pool: "Pool", precision: str, number: int, finished: "FinishedRound[Launched]"
    ) -> bool:
        """Report the wrong products of a stage's round of that number, and where; whether all were right.

        A wrong product is multiplied again, so no round may be measured meanwhile.
        """
        verified, wrong = differing(pool.references, finished.work.pairs, finished.checksums)
        for result in wrong:
            self._wrong_product(pool, precision, {"round": number, **result})
        return verified

    def _wrong_product(self, pool: "Pool", precision: str, result: dict[str, Any]) -> None:
        pair, golden = result["pair"], pool.data.golden
        what = "is not exact" if golden else "changed between equal products"
        self.wrong_result(
            f"{precision} product {pair} {what}",
            {"precision": precision, "golden": golden, **result},
            partial(pool.examine, pair),
        )

    def references(
        self, device: Device, precision: str, size: int, checksums: Mapping[str, str], *, golden: bool
    ) -> None:
        """Report the checksums of correct products of this size, by their operands' seeds, and the device.

        `golden`: whether they are those of exact arithmetic. Those already reported in this stage are left
        out, unless they changed.
        """
        known = self._references.setdefault((precision, size, golden), {})
        new = {operands: value for operands, value in checksums.items() if known.get(operands) != value}
        if not new:
            return
        known.update(new)
        kind = "golden" if golden else "reference"
        self.event(
            "reference",
            f"{len(new)} {kind} checksums of {precision} products of size {size}",
            {"precision": precision, "size": size, "golden": golden, "checksums": new, **device.arithmetic()},
        )

    def out_of_memory(self, message: str, requested_mib: float, *, recovered: bool) -> None:
        """Report a failed allocation. `recovered`: whether the work continues with less memory."""
        data = {"requested_mib": requested_mib, "recovered": recovered}
        self._event(self.context.subject, "oom", message, data)


def product_tflop(size: int) -> float:
    """Work of one product of `size` × `size` matrices: 2 × size³ operations, in 10^12."""
    return 2 * size**3 / 1e12


def run_workload(spec: Spec, device: Device, context: WorkerContext) -> None:
    """Do the task of `spec` until it is done or `context.stopped()`; records go to `context.emit`.

    The last record is the memory after the workload's own was freed, with the peak that it
    reached; it is also emitted after an error. Raises what `Spec.run` does.
    """
    device.reset_peak()
    try:
        spec.run(device, context)
    finally:
        device.empty_cache()
        Reporter(context, spec.stage).memory(device)
