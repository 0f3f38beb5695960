"""Simulated copies between GPUs: shares of what connects them, as real cards reached."""

from collections.abc import Iterator
from dataclasses import replace

from rigproof.criteria.evidence.link import link_gbps
from rigproof.profiles.kinds.stages import StagePlan
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.records.measurements import GB, Labels
from rigproof.simulation.faults.injected import InjectedFault
from rigproof.simulation.faults.kinds import FaultKind
from rigproof.simulation.silicon.card import SimulatedCard
from rigproof.simulation.silicon.readings import link_of, nvlinks_of
from rigproof.simulation.stage import CardWork, Records, SimulatedForm
from rigproof.simulation.timetable import Segment, Work
from rigproof.simulation.work.task import Task
from rigproof.stages.peer.stage import (
    BOTH,
    ENGINE,
    KERNEL,
    STAGE,
    WORDS,
    PeerLink,
    PeerSettings,
    PeerSpec,
)


def _without_peer(loaded: LoadedRig, device: PromisedDevice) -> str:
    """Lacks another GPU on its node."""
    return "" if len(_on_node(loaded, device)) > 1 else f"{device.node} has no other GPU"


def _on_node(loaded: LoadedRig, device: PromisedDevice) -> list[str]:
    """The GPUs of its node."""
    return [one.subject for one in loaded.devices() if one.node == device.node and one.gpu.device == "cuda"]


def _without_links(loaded: LoadedRig, device: PromisedDevice) -> str:
    stated = device.sku is not None and device.sku.nvlinks is not None
    return _without_peer(loaded, device) or ("" if stated else "its SKU file states no nvlinks")


FAULTS = (
    FaultKind(
        "peer-zeros",
        "copies to the card's neighbours arrive as zeros, without any driver event",
        ("transfer.peer",),
        keys=("stage",),
        stage=STAGE,
        lacks=_without_peer,
    ),
    FaultKind(
        "peer-slow",
        "copies between the card and its neighbours are slow, although its links read what they should",
        ("transfer.peer",),
        keys=("stage", "by"),
        defaults={"by": "70%"},
        stage=STAGE,
        lacks=_without_peer,
    ),
    FaultKind(
        "nvlink-down",
        "all NVLinks of the card are down from the beginning, so that copies go over PCIe",
        ("transfer.peer", "health.nvlink"),
        lacks=_without_links,
    ),
)

Cards = tuple[SimulatedCard, ...]  # of a pair
COPYING = Work(1.0, 0.18, 0.01, 0.0)  # lead: a card whose cores rest, at its highest clock
# Two H100 (torch 2.11): 392 GB/s one way and 703 both ways of 450 nominal, 371 by a kernel's stores; lead: by
# these both ways as by copy engine.
NVLINK_SHARE, BOTH_SHARE, KERNEL_SHARE = 0.87, 1.79, 0.946
HOST_SHARE = 0.70  # lead: of the link, through the host's memory
BRIDGED = 4  # links of a bridge, at most; more lead to a switch
COPIES = 8  # of each arm
NOISE = 0.002
COPIED_SHARE = 0.4  # of the time; the rest is verification
OF_WORKERS = ("hung-kernel", "worker-killed", "worker-frozen", "timeout")  # the last also if it does nothing
NOT_OFFERED = "its driver does not offer it for these GPUs"


def segments(plan: StagePlan, _work: CardWork) -> Iterator[Segment]:
    """Some traffic from beginning to end."""
    yield Segment(0.0, plan.expected_s, COPYING)


def records(task: Task, spec: PeerSpec) -> Records:
    """Of the host's first worker: each pair's connection, and copies of each arm."""
    if task.crew.rank:
        return
    cards = [card for card in task.node.cards.values() if card.uuid in spec.uuids]
    cards.sort(key=lambda card: spec.uuids.index(card.uuid))
    # From the beginning on: of a process that starts there is nothing to simulate, and nothing to hit.
    each_s = spec.pair_s + spec.setup_s / len(spec.pairs)
    for number, (subject, first, second) in enumerate(spec.pairs):
        from_s = task.start_s + number * each_s
        yield from _pair(task, spec, subject, (cards[first], cards[second]), from_s=from_s, pair_s=each_s)


def _pair(task: Task, spec: PeerSpec, subject: str, cards: Cards, *, from_s: float, pair_s: float) -> Records:
    """One pair, over `pair_s` from run time `from_s` on."""
    links = min(0 if "nvlink-down" in one.faults else nvlinks_of(one) for one in cards)
    rate_gbps = HOST_SHARE * min(link_gbps(*link_of(one, from_s, task.node.stages)) for one in cards)
    if links:
        rate_gbps = NVLINK_SHARE * links * _link_gbps(task, cards[0])
    slow, zeros = (_fault(task, cards, name) for name in ("peer-slow", "peer-zeros"))
    rate_gbps *= 1.0 if slow is None else 1 - (slow.by or 0.0)
    begun = task.event(from_s, "pair_begun", f"{subject} begin to copy to each other", {})
    yield replace(begun, subject=subject)
    yield PeerLink(
        t_s=from_s,
        stage=spec.stage,
        worker=task.plan.worker,
        subject=subject,
        there=bool(links),
        back=bool(links),
        why="" if links else NOT_OFFERED,
        nvlinks=links,
        switched=any(nvlinks_of(one) > BRIDGED and "nvlink-down" not in one.faults for one in cards),
        path="one NUMA node",
        mib=spec.mib,
    )
    arms = [(by, way) for by, way in spec.arms if by == ENGINE or links]
    each_s = pair_s / len(arms) / COPIES
    t_s = from_s
    for by, way in arms:
        for number in range(COPIES):
            t_s += each_s
            wrong = zeros is not None
            if wrong and (by, way, number) == (*arms[0], 0):
                message = f"{WORDS[by, way]}: 67108857 of 67108857 words differ, first at 0: "
                message += "0000000000000000, not 1e3779b97f4a7c17"
                event = task.event(t_s, "wrong_result", message, {"way": way, "by": by})
                yield replace(event, subject=subject)
            seconds = COPIED_SHARE * each_s
            share = (BOTH_SHARE if way == BOTH else 1.0) * (KERNEL_SHARE if by == KERNEL else 1.0)
            work = share * rate_gbps * (1 + task.noise.gauss(0, NOISE)) * seconds
            labels: Labels = {"way": way, "by": by, "mib": spec.mib}
            done = task.round(t_s, "measure", seconds, work, unit=GB, labels=labels)
            yield replace(done, subject=subject, verified=not wrong)


def _fault(task: Task, cards: Cards, name: str) -> InjectedFault | None:
    """The fault of that name of either card, if it hits tasks in this lap."""
    found = (one.faults.get(name) for one in cards)
    return next((one for one in found if one is not None and one.hits_task(task.node.stages)), None)


def _link_gbps(task: Task, card: SimulatedCard) -> float:
    """Nominal, one way, as the profile states it for the card's compute capability."""
    own = task.node.rig.loaded.stages[STAGE]
    assert isinstance(own, PeerSettings)
    name = "cc_" + (card.sku.compute_capability or "").replace(".", "_")
    gbps: float = getattr(own.nvlink_gbps, name, 25.0)
    return gbps


def unnoticed(fault: InjectedFault, work: CardWork) -> str:
    """A worker that has nothing to do, or is over at once, shows no fault of its process."""
    first, *others = _on_node(work.loaded, work.device)
    if fault.name in OF_WORKERS and not others:
        return _without_peer(work.loaded, work.device)
    if fault.name in OF_WORKERS[:-1] and work.device.subject != first:
        return f"a worker of {first} has the copies made"
    return ""


SIMULATED = SimulatedForm(segments, records, unnoticed=unnoticed)
