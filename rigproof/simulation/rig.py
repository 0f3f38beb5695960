"""A simulated rig: its nodes with their cards, driver and host, made from a profile and faults."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Event

from rigproof.host.processes import Who
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.planning.plan import Plan
from rigproof.records.earlier import Earlier, EarlierRate, EarlierRates, earlier_event
from rigproof.records.measurements import Event as Recorded
from rigproof.records.samples import PcieErrors
from rigproof.simulation.faults.injected import InjectedFault, StageWindow
from rigproof.simulation.host import SimulatedHost
from rigproof.simulation.nvml.library import Switch
from rigproof.simulation.nvml.model import Fault, SimulatedDriver, SimulatedProcess
from rigproof.simulation.silicon.card import SimulatedCard
from rigproof.simulation.silicon.readings import FOREIGN_PID, idle_gpu, pcie_errors, show
from rigproof.simulation.silicon.strangers import (
    CRASHES,
    ILLEGAL_ACCESS_XID,
    WHO,
    InjectedStranger,
    held_mib,
    listed,
    strangers_at,
)
from rigproof.simulation.silicon.vram import CONTEXT_MIB, Fill, Vram, fill_together
from rigproof.simulation.stage import CardWork, Forms, timetable
from rigproof.telemetry.nvml.protocol import Code

DRIVER_LOST_XID = 79  # "GPU has fallen off the bus"
DOUBLE_BIT_XID = 48  # an uncorrectable memory error
UNCONTAINED_XID = 95  # the same, on cards that can remap rows
# Memory that our workers hold: a share of the card in a batch search; MiB in stages that do not fill it.
MOST_SHARE, LITTLE_MIB = 0.9, 2000.0
LEFT_MIB = 200.0  # of the card, besides the plan, under the fault memory-taken
ABSENT = {"gpu-missing", "gpu-hidden"}  # faults that keep a card from our workers
EARLIER = (1.0, 0.998, 1.001, 0.999, 1.002, 0.997)  # runs, under the fault slower-than-before
FRAGMENTED_SHARE = 0.55  # of the plan's memory can be allocated under the fault oom


@dataclass(frozen=True)
class SimulatedRig:
    """What is simulated. Sent to every process of the rig; each of them makes the same nodes from it."""

    loaded: LoadedRig
    plan: Plan
    forms: Forms
    faults: tuple[InjectedFault, ...] = ()
    seed: int = 0
    _nodes: dict[str, "SimulatedNode"] = field(default_factory=dict, compare=False, repr=False)

    def __reduce__(self) -> tuple[type["SimulatedRig"], tuple[object, ...]]:
        """Leave out the nodes: each process makes its own."""
        return SimulatedRig, (self.loaded, self.plan, self.forms, self.faults, self.seed)

    def node(self, name: str) -> "SimulatedNode":
        """The node of that name, one object per process."""
        if name not in self._nodes:
            self._nodes[name] = SimulatedNode(self, name)
        return self._nodes[name]

    def faults_of(self, subject: str) -> tuple[InjectedFault, ...]:
        """The faults of this device or node."""
        return tuple(fault for fault in self.faults if fault.subject == subject)

    def fault(self, name: str, subject: str | None = None) -> InjectedFault | None:
        """The fault of that name, and on that subject if one is given."""
        named = (fault for fault in self.faults if fault.name == name)
        return next((fault for fault in named if subject in (None, fault.subject)), None)

    def earlier_events(self, t_s: float) -> Iterator[Recorded]:
        """What earlier runs did of a card that has the fault slower-than-before: its products, faster."""
        for fault in self.faults:
            if fault.name == "slower-than-before":
                card = self.node(fault.subject.partition("/")[0]).cards[fault.subject]
                size = self.plan.workers_of(fault.subject)[0].gemm_size
                products = (one for one in self.loaded.kinds.figures.values() if one.products)
                figures = []
                for kind in (one for one in products if one.precision in card.precisions()):
                    rate = card.steady_tflops(kind.precision) / (1 - (fault.by or 0.0))
                    runs = tuple(EarlierRate(f"simulated x {one}", rate * one) for one in EARLIER)
                    figures.append(EarlierRates(kind.name, kind.unit, {"size": [size]}, runs))
                yield earlier_event(fault.subject, Earlier(tuple(figures)), t_s)

    def uuid_of(self, subject: str) -> str:
        """The UUID of a promised GPU's card."""
        return self.node(subject.partition("/")[0]).cards[subject].uuid


class SimulatedNode:
    """A node: `cards` by subject, the `driver` that lists the present ones, and the `host`."""

    def __init__(self, rig: SimulatedRig, name: str) -> None:
        self.name = name
        self.rig = rig
        self.stages: Sequence[StageWindow] = ()
        self.cards: dict[str, SimulatedCard] = {}
        self.host = SimulatedHost(rig.loaded, name, rig.faults_of(name), seed=rig.seed)
        self.driver = SimulatedDriver()
        self.own_pids: list[int] = []  # of our workers, in the order in which they started
        self._raised: set[tuple[str, str]] = set()  # subject and fault
        self._fills: dict[str, dict[str, Fill]] = {}
        self._held: dict[tuple[str, str], float] = {}  # by our workers, by card and stage
        devices = [
            device for device in rig.loaded.devices() if device.node == name and device.gpu.device == "cuda"
        ]
        for device in devices:
            assert device.sku is not None, "a simulated card has a known SKU"
            card = SimulatedCard(
                device, device.sku, rig.faults_of(device.subject), rig=rig.loaded.rig.name, seed=rig.seed
            )
            card.work = timetable(rig.plan.stages, rig.forms, CardWork(rig.loaded, device))
            self.cards[device.subject] = card
            if "gpu-missing" not in card.faults:
                nvml_name = device.sku.nvml_names[0]
                self.driver.gpus.append(idle_gpu(card, nvml_name, foreign_mib=self._foreign_mib(card)))
        self.cards = _as_found(devices, self.cards)
        self._places = self._places_of_workers()
        if rig.fault("driver-mismatch", name) is not None:
            self.driver.inject(Fault("nvmlInitWithFlags", code=Code.LIB_RM_VERSION_MISMATCH))
        self.library = Switch(self.driver)

    @property
    def visible_devices(self) -> str | None:
        """CUDA_VISIBLE_DEVICES of its Ray; None if it is not set."""
        hidden = {card.uuid for card in self.cards.values() if "gpu-hidden" in card.faults}
        shown = [str(index) for index, gpu in enumerate(self.driver.gpus) if gpu.uuid not in hidden]
        return ",".join(shown) if hidden else None

    @property
    def may_hang(self) -> bool:
        """Whether a call of its driver may never return."""
        return any("nvml-hang" in card.faults for card in self.cards.values())

    def show(self, t_s: float) -> None:
        """Set the driver's readings to the state at `t_s`, and raise the Xids due by then."""
        present = {gpu.uuid: gpu for gpu in self.driver.gpus}
        for card in self.cards.values():
            if card.uuid in present:
                stage = card.at(t_s, self.stages).stage
                own_mib = self._held_mib(card, stage)
                loaded = stage is not None and card.acting("gpu-idle", t_s, self.stages) is None
                present[card.uuid].processes = self._processes(card, t_s, own_mib, loaded=loaded)
                show(card, present[card.uuid], t_s, self.stages, own_mib)
                self._raise(card, t_s)

    def who(self, pid: int) -> Who:
        """The owner and program of a process on this node."""
        return Who() if pid in self.own_pids else WHO

    def strangers(self, subject: str, t_s: float) -> tuple[InjectedStranger, ...]:
        """The foreign processes on a promised GPU's card."""
        return strangers_at(self.cards[subject].faults, t_s, self.stages)

    def _places_of_workers(self) -> dict[str, slice]:
        """Where the workers of each card stand among our processes, by the card's subject."""
        places, first = {}, 0
        for subject in self.cards:
            number = len(self.rig.plan.workers_of(subject))
            places[subject] = slice(first, first + number)
            first += number
        return places

    def _processes(
        self, card: SimulatedCard, t_s: float, own_mib: float, *, loaded: bool
    ) -> list[SimulatedProcess]:
        own = tuple(self.own_pids[self._places[card.subject]])
        foreign_mib = self._foreign_mib(card)
        foreign = [SimulatedProcess(FOREIGN_PID, foreign_mib)] if foreign_mib else []
        free_mib = Vram(card.memory_mib, foreign_mib).free_mib(0, own_mib)
        strangers = strangers_at(card.faults, t_s, self.stages)
        return [*foreign, *listed(own, own_mib, strangers, free_mib, loaded=loaded)]

    def _raise(self, card: SimulatedCard, t_s: float) -> None:
        no_remap = "row_remap" in card.sku.unsupported_sensors
        memory_error = (DOUBLE_BIT_XID,) if no_remap else (DOUBLE_BIT_XID, UNCONTAINED_XID)
        xids = {"xid": (DOUBLE_BIT_XID,), "gpu-lost": (DRIVER_LOST_XID,), "ecc-uncorrected": memory_error}
        for name in (*xids, "nvml-hang") if card.faults else ():
            fault = card.begun(name, t_s, self.stages)
            if fault is None or (card.subject, name) in self._raised:
                continue
            self._raised.add((card.subject, name))
            if name == "nvml-hang":
                self.driver.inject(Fault("nvmlDeviceGetFieldValues", uuid=card.uuid, hang=Event()))
            for xid in (fault.code,) if fault.code is not None else xids.get(name, ()):
                self.driver.raise_xid(card.uuid, xid)
        crash = card.faults.get(CRASHES)
        window = crash.window(self.stages) if crash is not None else None
        if window is not None and window[1] <= t_s and (card.subject, CRASHES) not in self._raised:
            self._raised.add((card.subject, CRASHES))
            self.driver.raise_xid(card.uuid, ILLEGAL_ACCESS_XID)

    def silent(self, subject: str, t_s: float) -> bool:
        """Whether that GPU's samples are lost at that moment."""
        return self.cards[subject].acting("telemetry-gap", t_s, self.stages) is not None

    def pcie_errors(self, t_s: float, subject: str) -> PcieErrors:
        """What the host's kernel has counted for a promised GPU's card by then."""
        return pcie_errors(self.cards[subject], t_s, subject, self.stages)

    def vram(self, subject: str) -> Vram:
        """The memory of a promised GPU's card."""
        card = self.cards[subject]
        vram = Vram(card.memory_mib, self._foreign_mib(card))
        plans = self.rig.plan.workers_of(subject)
        taken = card.faults.get("memory-taken")
        if taken is not None:
            spare_mib = vram.free_mib(len(plans), sum(plan.vram_mib for plan in plans))
            vram = replace(vram, taken_mib=taken.to or max(0.0, spare_mib - LEFT_MIB))
        if "oom" not in card.faults:
            return vram
        available_mib = FRAGMENTED_SHARE * sum(plan.vram_mib for plan in plans)
        return replace(vram, fragments_mib=max(0.0, vram.room_mib(len(plans)) - available_mib))

    def fills(self, subject: str) -> dict[str, Fill]:
        """What each worker of a card gets of its memory when all of them fill it, by name."""
        if subject not in self._fills:
            plans = self.rig.plan.workers_of(subject)
            precision = self.cards[subject].half_precision
            begun_s = next(
                (stage.start_s for stage in self.stages if self.rig.forms[stage.name].holds == "each"), 0.0
            )
            room_mib = self.vram(subject).room_mib(len(plans))
            taken_mib = sum(held_mib(self.strangers(subject, begun_s), room_mib).values())
            vram = self.vram(subject)
            remaining = replace(vram, foreign_mib=vram.foreign_mib + taken_mib)
            self._fills[subject] = fill_together(remaining, plans, precision)
        return self._fills[subject]

    def _held_mib(self, card: SimulatedCard, stage: str | None) -> float:
        """Memory held by our workers in a stage, including their contexts."""
        if stage is None:
            return 0.0
        held_mib = self._held.get((card.subject, stage))
        if held_mib is None:
            held_mib = self._held[card.subject, stage] = self._held_in(card, stage)
        return held_mib

    def _held_in(self, card: SimulatedCard, stage: str) -> float:
        workers = self.rig.plan.workers_of(card.subject)
        contexts_mib = len(workers) * CONTEXT_MIB
        holds = self.rig.forms[stage].holds
        if holds in ("each", "together"):
            return contexts_mib + sum(fill.held_mib for fill in self.fills(card.subject).values())
        if holds == "most":
            return min(MOST_SHARE * card.memory_mib, self.vram(card.subject).room_mib(0))
        return contexts_mib + min(LITTLE_MIB, self.vram(card.subject).room_mib(len(workers)))

    def _foreign_mib(self, card: SimulatedCard) -> float:
        """Memory held by a foreign process; by default so much that the plan does not fit beside it."""
        fault = card.faults.get("foreign-memory")
        if fault is None:
            return 0.0
        planned_mib = sum(worker.vram_mib for worker in self.rig.plan.workers_of(card.subject))
        return fault.to or card.memory_mib - 0.5 * planned_mib


def _as_found(
    devices: Sequence[PromisedDevice], cards: Mapping[str, SimulatedCard]
) -> dict[str, SimulatedCard]:
    """The card matched to each promised GPU: of equal ones without UUID, the last ones count as missing."""
    matched = dict(cards)
    for stem in {device.sku_stem for device in devices}:
        alike = [device.subject for device in devices if device.sku_stem == stem and device.gpu.uuid is None]
        present_first = sorted(alike, key=lambda subject: not ABSENT.isdisjoint(cards[subject].faults))
        matched |= {subject: cards[other] for subject, other in zip(alike, present_first, strict=True)}
    return matched
