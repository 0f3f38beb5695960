"""What simulated silicon has to know about a stage: the card's work over time, and its records."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from rigproof.profiles.kinds.stages import StagePlan
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.records.measurements import Event
from rigproof.records.recording import StageRecord
from rigproof.simulation.timetable import Segment, half_of, measured_precisions

if TYPE_CHECKING:  # faults are parsed with this module's help
    from rigproof.simulation.faults.injected import InjectedFault
    from rigproof.simulation.faults.kinds import FaultKind

Timed = Event | StageRecord
Records = Iterator[Timed]
Holds = Literal["each", "together", "most", "little"]


@dataclass(frozen=True, slots=True)
class CardWork:
    """The rig and device that a card's work in a stage depends on."""

    loaded: LoadedRig
    device: PromisedDevice

    @property
    def precisions(self) -> tuple[str, ...]:
        """The measured precisions that the card has; none for an unknown card."""
        return () if self.device.sku is None else measured_precisions(self.device.sku)

    @property
    def half(self) -> str:
        """The 16-bit precision that it works in."""
        return half_of(self.precisions)


def always_noticed(_fault: "InjectedFault", _work: CardWork) -> str:
    """For a stage in which every fault that can act there is noticed on every card."""
    return ""


def paced_by_memory(fault: "InjectedFault", _work: CardWork) -> str:
    """For a stage whose rates are those of the card's memory, which a slower core does not slow down."""
    return "its rates follow the memory, not the core" if fault.name == "throughput-sag" else ""


@dataclass(frozen=True, slots=True)
class SimulatedForm:
    """How simulated silicon runs a stage.

    `segments`: a healthy card's work over the seconds of the stage. `records(task, spec)`: the records of a
    worker's task (`simulation.work.task.Task`), in their order. `holds`: how much of the card's memory our
    workers hold: what the plan gives them, filled by each worker or by all together; most of the card; or
    little. `verifies_memory`: they compare all that they hold with what it should be. `unnoticed`: why
    nothing could notice the fault in the stage on that card; empty if something can. `left_out(fault, spec)`:
    why a worker with this task does nothing that the fault acts on; empty if it does. `least_by`:
    the smallest share (`by=`) of a fault that its limits leave no room for, if that is more than the default.
    """

    segments: Callable[[StagePlan, CardWork], Iterator[Segment]]
    records: Callable[[Any, Any], Records]
    holds: Holds = "little"
    verifies_memory: bool = False
    unnoticed: Callable[["InjectedFault", CardWork], str] = always_noticed
    left_out: Callable[["InjectedFault", Any], str] | None = None
    least_by: Mapping[str, float] = field(default_factory=dict)

    def misses(self, kind: "FaultKind", fault: "InjectedFault", work: CardWork) -> str:
        """Why nothing could notice a fault in the stage on that card; empty if something can."""
        if kind.in_memory and not self.verifies_memory:
            return "it does not fill and compare the memory"
        return self.unnoticed(fault, work)


Forms = Mapping[str, SimulatedForm]  # by the stage's name


def timetable(plans: tuple[StagePlan, ...], forms: Forms, work: CardWork) -> dict[str, tuple[Segment, ...]]:
    """The segments of each planned stage, by its name."""
    return {plan.name: tuple(forms[plan.name].segments(plan, work)) for plan in plans}
