"""A worker's task in the transfer stage, and the times at which it works alone and with all others."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from rigproof.devices.context import WorkerContext
from rigproof.devices.device import Device
from rigproof.devices.specs import Spec
from rigproof.stages.slice import StageWork
from rigproof.stages.transfer.settings import ALONE, MEANINGS, TOGETHER, TransferSettings

BUFFERS = 5  # of device memory: four, and room to compare them
WAKE_SHARE = 0.2  # of a shift: to wake the link, and to find out how much to copy at a time
LEAST_SHARE = 0.5  # of a shift: in less there is no time for enough rounds


@dataclass(frozen=True, slots=True)
class Slot:
    """When a direction is measured, in seconds since the stage began."""

    direction: str
    company: str
    from_s: float
    to_s: float


@dataclass(frozen=True, slots=True)
class TransferSpec(Spec):
    """Copy between host and device: alone in the `shift` of this device, then with all others of the host.

    `shifts` is the number of devices of the rig's fullest host; each has `shift_s`. The times count from the
    moment at which all workers begin (`WorkerContext.crew`), after `setup_s`.
    """

    mib: int  # of each buffer
    shift: int
    shifts: int
    setup_s: float
    shift_s: float
    together_s: float

    def run(self, device: Device, context: WorkerContext) -> None:
        """Measure each direction, alone and together."""
        from rigproof.stages.transfer.workload import run_transfer  # noqa: PLC0415 - it needs torch

        run_transfer(self, device, context)

    @property
    def alone_from_s(self) -> float:
        """When its own shift begins."""
        return self.setup_s + self.shift * self.shift_s

    @property
    def together_from_s(self) -> float:
        """When the last shift of the rig ends."""
        return self.setup_s + self.shifts * self.shift_s

    @property
    def alone_to_s(self) -> float:
        """When its own shift ends."""
        return self.alone_from_s + self.shift_s

    def alone(self, ready_s: float) -> tuple[Slot, ...]:
        """The directions one after the other, in equal parts of the rest of its shift; none if too short.

        `ready_s`: when the set-up is over, if that is later than the beginning of the shift.
        """
        begin_s = max(self.alone_from_s, ready_s)
        left_s = self.alone_to_s - begin_s
        if left_s < LEAST_SHARE * self.shift_s:
            return ()
        return tuple(_slots(ALONE, begin_s + WAKE_SHARE * left_s, self.alone_to_s))

    def together(self) -> tuple[Slot, ...]:
        """The same in the part with all others."""
        return tuple(_slots(TOGETHER, self.together_from_s, self.together_from_s + self.together_s))


def _slots(company: str, from_s: float, to_s: float) -> Iterator[Slot]:
    each_s = (to_s - from_s) / len(MEANINGS)
    for place, direction in enumerate(MEANINGS):
        yield Slot(direction, company, from_s + place * each_s, from_s + (place + 1) * each_s)


def specs(work: StageWork) -> dict[str, Spec]:
    """One worker of each device; the devices of a host take their shifts in the profile's order."""
    plan, stage = work.plan, work.stage
    settings = {device.subject: device.settings(TransferSettings) for device in work.loaded.devices()}
    taken: dict[str, int] = defaultdict(int)
    by_worker: dict[str, Spec] = {}
    for worker in plan.first_workers():
        own = settings[worker.subject]
        by_worker[worker.worker] = TransferSpec(
            stage.name,
            mib=max(1, int(min(own.buffer_mib, plan.vram_mib_beside(worker) / BUFFERS))),
            shift=taken[worker.node],
            shifts=stage.shifts,
            setup_s=own.setup_s,
            shift_s=stage.shift_s,
            together_s=stage.measure_s,
        )
        taken[worker.node] += 1
    return by_worker
