"""Turns what a workload measures into records."""

from collections.abc import Mapping
from typing import Any

from rigproof.devices.context import WorkerContext
from rigproof.devices.device import Device
from rigproof.devices.verification import Reference
from rigproof.records.identity import DeviceKind
from rigproof.records.measurements import TFLOP, Event, Labels, MemoryReading, Phase, Round

WRONG_RESULT_EVERY_S = 10.0
MEMORY_EVERY_S = 1.0


class Reporter:
    """One worker's records of one stage. A wrong result is told at most every 10 s, with a count."""

    def __init__(self, context: WorkerContext, stage: str) -> None:
        self.context = context
        self.stage = stage
        self._wrong_at_s: float | None = None
        self._wrong_untold = 0
        self._memory_at_s: float | None = None
        self._references: dict[tuple[str, int], dict[str, str]] = {}  # by precision and size

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
    ) -> None:
        """A round that ended at run time `t_s`; None: now. `device` did it in place of the promised one."""
        self.context.emit(
            Round(
                t_s=self.context.now_s() if t_s is None else t_s,
                stage=self.stage,
                worker=self.context.worker,
                subject=self.context.subject,
                phase=phase,
                seconds=seconds,
                work=work,
                unit=unit,
                verified=verified,
                labels=labels,
                device=device,
            )
        )

    def memory(self, device: Device) -> None:
        """The memory now."""
        now_s = self.context.now_s()
        self._memory_at_s = now_s
        state = device.memory()
        self.context.emit(
            MemoryReading(
                t_s=now_s,
                stage=self.stage,
                worker=self.context.worker,
                subject=self.context.subject,
                allocated_mib=state.allocated_mib,
                reserved_mib=state.reserved_mib,
                peak_reserved_mib=state.peak_reserved_mib,
                device_free_mib=state.device_free_mib,
                device_total_mib=state.device_total_mib,
                ooms=state.ooms,
                alloc_retries=state.alloc_retries,
            )
        )

    def memory_when_due(self, device: Device, every_s: float = MEMORY_EVERY_S) -> None:
        """The memory, once every `every_s`."""
        last_s = self._memory_at_s
        if last_s is None or self.context.now_s() - last_s >= every_s:
            self.memory(device)

    def event(self, kind: str, message: str, data: dict[str, Any]) -> None:
        """Something that happened now."""
        self.context.emit(
            Event(
                t_s=self.context.now_s(),
                kind=kind,
                subject=self.context.subject,
                message=message,
                stage=self.stage,
                worker=self.context.worker,
                data=data,
            )
        )

    def wrong_result(self, message: str, data: dict[str, Any]) -> None:
        """A result that differs. `data.untold` counts those since the last event that were not told."""
        now_s = self.context.now_s()
        if self._wrong_at_s is not None and now_s - self._wrong_at_s < WRONG_RESULT_EVERY_S:
            self._wrong_untold += 1
            return
        self.event("wrong_result", message, {**data, "untold": self._wrong_untold})
        self._wrong_at_s = now_s
        self._wrong_untold = 0

    def check(self, reference: Reference, precision: str) -> None:
        """A reference that was made now: a wrong result where it is not correct."""
        if not reference.correct:
            self.wrong_result(*reference.wrong(precision))

    def references(self, device: Device, precision: str, size: int, checksums: Mapping[str, str]) -> None:
        """What products of this size must be, by their operands' seeds, and what computed them.

        What was told before in this stage is not told again; what differs from it is.
        """
        known = self._references.setdefault((precision, size), {})
        new = {operands: one for operands, one in checksums.items() if known.get(operands) != one}
        if not new:
            return
        known.update(new)
        self.event(
            "reference",
            f"{len(new)} reference checksums of {precision} products of size {size}",
            {"precision": precision, "size": size, "checksums": new, **device.arithmetic()},
        )

    def out_of_memory(self, message: str, requested_mib: float, *, recovered: bool) -> None:
        """An allocation that failed. `recovered` tells whether the work goes on with less."""
        self.event("oom", message, {"requested_mib": requested_mib, "recovered": recovered})


def product_tflop(size: int) -> float:
    """Work of one product of `size` × `size` matrices: 2 × size³ operations, in 10^12."""
    return 2 * size**3 / 1e12
