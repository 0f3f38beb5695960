"""One task of one worker on a simulated card, and the records that every kind of task makes."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from rigproof.devices.specs import Spec
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.records.crews import Member
from rigproof.records.identity import DeviceKind
from rigproof.records.measurements import TFLOP, Event, Labels, MemoryReading, Phase, Round
from rigproof.simulation.faults.injected import InjectedFault
from rigproof.simulation.silicon.card import SimulatedCard
from rigproof.simulation.silicon.strangers import held_mib as stranger_mib
from rigproof.simulation.timetable import Segment

if TYPE_CHECKING:  # it loads NVML's bindings, which the plan of a real rig does not need
    from rigproof.simulation.rig import SimulatedNode

RATE_NOISE = 0.003


class TaskFailed(Exception):  # noqa: N818 - named for the event, as the three below
    """The task ends with this error."""


class TaskHangs(Exception):  # noqa: N818
    """The task makes no more progress, and does not end."""


class WorkerKilled(Exception):  # noqa: N818
    """The worker's process is killed."""


class WorkerFrozen(Exception):  # noqa: N818
    """The worker's process no longer answers."""


@dataclass(frozen=True)
class Task:
    """A task that the driver gave to a worker: `spec` from run time `start_s` on."""

    node: "SimulatedNode"
    plan: WorkerPlan
    spec: Spec
    start_s: float
    noise: random.Random
    crew: Member
    generation: int = 0  # of the worker's process: a fault of one process does not hit its replacement

    @property
    def card(self) -> SimulatedCard:
        """The card that it works on."""
        return self.node.cards[self.plan.subject]

    @property
    def first(self) -> bool:
        """Whether this is its device's first process: faults of a single process hit that one."""
        return self.plan.worker.endswith("#0") and self.generation == 0

    @property
    def workers(self) -> int:
        """The number of workers planned for the card."""
        return len(self.node.rig.plan.workers_of(self.plan.subject))

    def fault(self, name: str) -> InjectedFault | None:
        """The card's fault of that name, if it hits tasks in this lap."""
        return self._in_this_lap(self.card.faults.get(name))

    def host_fault(self, name: str) -> InjectedFault | None:
        """The node's fault of that name, if it hits tasks in this lap."""
        return self._in_this_lap(self.node.rig.fault(name, self.node.name))

    def _in_this_lap(self, fault: InjectedFault | None) -> InjectedFault | None:
        return fault if fault is not None and fault.hits_task(self.node.stages) else None

    @property
    def idle(self) -> bool:
        """Whether the card rests during this task, because its host works."""
        return self.node.rig.loaded.kinds[self.spec.stage].duty == "idle"

    @property
    def subject(self) -> str:
        """What its rounds and events are about: its host if that works, else its card."""
        return self.crew.subject if self.idle else self.plan.subject

    def acting(self, name: str, t_s: float, since_s: float | None = None) -> InjectedFault | None:
        """The card's fault of that name, if it acts at this moment, or at any since `since_s`."""
        return self.card.acting(name, t_s, self.node.stages, since_s)

    def begun(self, name: str, t_s: float) -> bool:
        """Whether the card's fault of that name has begun by this moment."""
        return self.card.begun(name, t_s, self.node.stages) is not None

    def segments(self, part: str = "") -> tuple[Segment, ...]:
        """The card's segments in this stage, in run time; only those of `part`, if given."""
        return tuple(
            replace(segment, from_s=self.start_s + segment.from_s, to_s=self.start_s + segment.to_s)
            for segment in self.card.work[self.spec.stage]
            if part in ("", segment.part)
        )

    def speed(self, from_s: float, to_s: float) -> float:
        """The card's mean speed between two moments, as a share of a healthy one's."""
        return self.card.speed_over(from_s, to_s, self.node.stages)

    def rate(self, precision: str, from_s: float, to_s: float) -> float:
        """TFLOP/s of the whole card between two moments."""
        noise = 1 + self.noise.gauss(0, RATE_NOISE)
        return self.card.steady_tflops(precision) * self.speed(from_s, to_s) * noise

    def round(
        self,
        t_s: float,
        phase: Phase,
        seconds: float,
        work: float,
        *,
        labels: Labels,
        unit: str = TFLOP,
        device: DeviceKind | None = None,
    ) -> Round:
        """A verified round that ended at `t_s`."""
        return Round(
            t_s=t_s,
            stage=self.spec.stage,
            worker=self.plan.worker,
            subject=self.subject,
            phase=phase,
            seconds=seconds,
            work=work,
            unit=unit,
            verified=True,
            labels=labels,
            device=device,
        )

    def event(self, t_s: float, kind: str, message: str, data: Mapping[str, Any]) -> Event:
        """An event of this worker."""
        return Event(t_s, kind, self.subject, message, self.spec.stage, self.plan.worker, dict(data))

    def references(self, t_s: float, precision: str, *, golden: bool = True) -> Event:
        """The event with the checksums of the stage's first products: the same on every card of an SKU.

        Those of golden operands are what exact arithmetic says.
        """
        operands = ("1·0", "0·1")
        wrong = int(not golden and self.fault("wrong-arithmetic") is not None)
        kind = f"{'golden' if golden else self.card.sku.name}/{precision}/{self.plan.gemm_size}"
        checksums = {
            pair: f"{int(sha256(f'{kind}/{pair}'.encode()).hexdigest()[:16], 16) ^ wrong:016x}"
            for pair in operands
        }
        data = {
            "precision": precision,
            "size": self.plan.gemm_size,
            "golden": golden,
            "checksums": checksums,
            "device": self.card.sku.nvml_names[0],
            "torch": "simulated",
            "cublas": None,
            "multiprocessors": None,
            "capability": None,
        }
        which = "golden" if golden else "reference"
        message = f"{len(checksums)} {which} checksums of {precision} products of size {self.plan.gemm_size}"
        return self.event(t_s, "reference", message, data)

    def memory(self, t_s: float, held_mib: float, *, ooms: int = 0, retries: int = 0) -> MemoryReading:
        """The worker's allocator, and the card's free memory; the card's other workers may hold some."""
        card = self.card
        others_mib = 0.0
        if self.node.rig.forms[self.spec.stage].holds == "each":
            fills = self.node.fills(self.plan.subject)
            others_mib = sum(fill.held_mib for name, fill in fills.items() if name != self.plan.worker)
        free_mib = self.node.vram(self.plan.subject).free_mib(self.workers, held_mib + others_mib)
        free_mib -= sum(stranger_mib(self.node.strangers(self.plan.subject, t_s), free_mib).values())
        return MemoryReading(
            t_s=t_s,
            stage=self.spec.stage,
            worker=self.plan.worker,
            subject=self.plan.subject,
            allocated_mib=held_mib,
            reserved_mib=held_mib,
            peak_reserved_mib=held_mib,
            device_free_mib=free_mib,
            device_total_mib=card.memory_mib,
            ooms=ooms,
            alloc_retries=retries,
        )

    def check(self, t_s: float) -> None:
        """Raise the exception for a fault that has ended the process, or its task, by then.

        A fault of the card ends no task of the host.
        """
        if self.begun("gpu-lost", t_s) and not self.idle:
            raise TaskFailed("AcceleratorError: CUDA error: unspecified launch failure (719)")
        if self.begun("ecc-uncorrected", t_s) and not self.idle:
            raise TaskFailed("AcceleratorError: CUDA error: uncorrectable ECC error encountered (214)")
        if self.first and self.begun("worker-killed", t_s):
            raise WorkerKilled
        if self.first and self.begun("worker-frozen", t_s):
            raise WorkerFrozen
