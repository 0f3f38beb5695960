"""Simulated collectives: the bus bandwidths that real cards reached, and ranks that hang, die or lie."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from rigproof.criteria.evidence.fronts import KILLED
from rigproof.criteria.evidence.link import link_gbps
from rigproof.profiles.kinds.stages import StagePlan
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.planning.subjects import subjects
from rigproof.records.measurements import GB, Event, Labels, Round
from rigproof.simulation.faults.injected import InjectedFault
from rigproof.simulation.faults.kinds import FaultKind
from rigproof.simulation.silicon.readings import link_of
from rigproof.simulation.stage import CardWork, Records, SimulatedForm
from rigproof.simulation.timetable import Segment, Work
from rigproof.simulation.work.task import Task
from rigproof.stages.collective.stage import (
    ALL_REDUCE,
    ARMS,
    BROADCAST,
    OPERATIONS,
    STAGE,
    WORD_BYTES,
    Case,
    CollectiveSpec,
    share_of_time,
)


def _without_team(loaded: LoadedRig, device: PromisedDevice) -> str:
    """Why a device cannot spoil a group: it is in none."""
    teams = subjects(loaded, "team")
    return "" if any(device.subject in one.members for one in teams) else "the rig has no other device"


def team_of(loaded: LoadedRig, subject: str) -> tuple[str, ...]:
    """The members of that team, in the order of its ring; none if there is no such team."""
    return next((one.members for one in subjects(loaded, "team") if one.text == subject), ())


def opposite(loaded: LoadedRig, subject: str) -> str:
    """The device across the ring of its node; empty if that ring passes each two, as it does of three."""
    members = team_of(loaded, subject.rpartition("/")[0])
    apart = len(members) // 2
    return members[members.index(subject) - apart] if apart > 1 else ""


def _without_opposite(loaded: LoadedRig, device: PromisedDevice) -> str:
    """Lacks a device that it does not follow in the ring of its node."""
    return "" if opposite(loaded, device.subject) else "the ring of its node passes each two of its devices"


EVERY = tuple(f"collective.{one}" for one in OPERATIONS)
FIRST = f"collective.{ALL_REDUCE}"
WRONG, HANG, SLOW = "collective-wrong", "collective-hang", "collective-slow"
PAIR_SLOW, RANK_KILLED, RANK_FROZEN = "pair-slow", "rank-killed", "rank-frozen"
FAULTS = (
    FaultKind(
        WRONG,
        "elements of the card's answers are wrong, without any driver event; `to`: from that size, MiB, on; "
        "`field`: of that operation alone",
        EVERY,
        keys=("stage", "to", "field"),
        fields=OPERATIONS,
        stage=STAGE,
        lacks=_without_team,
    ),
    FaultKind(
        HANG,
        "the card does not enter an operation that the others wait in; `field`: which one",
        (FIRST,),
        keys=("stage", "field"),
        fields=OPERATIONS,
        stage=STAGE,
        lacks=_without_team,
    ),
    FaultKind(
        SLOW,
        "the card's part of each operation takes longer, although its links are as fast as they should",
        (FIRST,),
        keys=("stage", "by", "field"),
        defaults={"by": "80%"},
        fields=OPERATIONS,
        stage=STAGE,
        lacks=_without_team,
    ),
    FaultKind(
        PAIR_SLOW,
        "what the card exchanges with the one across its node's ring takes longer, although the two copy as "
        "fast as they should; every level takes it, but only a soak looks for it",
        (FIRST,),
        keys=("stage", "by"),
        defaults={"by": "80%"},
        stage=STAGE,
        lacks=_without_opposite,
        soak=True,
    ),
    FaultKind(
        RANK_KILLED,
        "somebody kills the process of the card's rank in the middle of an operation",
        EVERY,
        keys=("stage",),
        ends="not measured",
        stage=STAGE,
        lacks=_without_team,
    ),
    FaultKind(
        RANK_FROZEN,
        "a signal stops the process of the card's rank between two operations",
        EVERY,
        keys=("stage",),
        ends="not measured",
        stage=STAGE,
        lacks=_without_team,
    ),
)

EXCHANGING = Work(1.0, 0.22, 0.01, 0.0)  # lead: a card that reduces what comes over its links
SETUP_S = 2.5  # two H100: context, group, first operations; four cards take no longer
# Two H100 over NVLink (NCCL 2.28.9, torch 2.11), GB/s: all-reduce 20, 217, 277, 318 at 1, 16, 128 MiB, 1 GiB.
LINK_GBPS = 17.7  # of an all-reduce at 1 GiB for each of 18 links
HOST_SHARE = 0.41  # of the PCIe link's nominal rate, through host memory: 26 of 63
SOCKETS_GBPS = 4.0  # two H200 without P2P and shared memory
LAN_GBPS = 0.111  # 1 GbE, as in the stage that measures it
LAN_AT_SIZE = ((1, 0.5), (16, 0.9))  # lead: a message takes 0.35 ms; and 0.97 for more
AT_SIZE = ((1, 0.063), (16, 0.68), (32, 0.75), (128, 0.87))  # and 1 for more
KIND_SHARE = {ALL_REDUCE: 1.0, BROADCAST: 1.13}
OTHER_SHARE = 0.53  # all-gather 170 of 318
LATENCY_S = 50e-6
ROUNDS = 3  # of each case
BUSY_SHARE = 0.3  # of a case; the rest is making and comparing numbers
NOISE = 0.004


def segments(plan: StagePlan, _work: CardWork) -> Iterator[Segment]:
    """Some work in every turn from beginning to end."""
    yield Segment(0.0, plan.expected_s, EXCHANGING)


@dataclass(frozen=True)
class Rank:
    """A rank with the members of its group."""

    task: Task
    spec: CollectiveSpec
    members: tuple[str, ...]

    def hits(self, name: str, operation: str = "") -> list[InjectedFault]:
        """The faults of its members in this lap, in the operation if given."""
        rig, stages = self.task.node.rig, self.task.node.stages
        every = (rig.fault(name, one) for one in self.members)
        found = [one for one in every if one is not None and one.hits_task(stages)]
        return [one for one in found if one.field in (None, operation or one.field)]

    def rate_gbps(self, case: Case) -> float:
        """Its bus bandwidth: as fast as its links, its slowest member and the slowest two in its ring are."""
        loaded, after = self.task.node.rig.loaded, (*self.members[1:], self.members[0])
        ring = [{one, other} for one, other in zip(self.members, after, strict=True)]
        pairs = [one for one in self.hits(PAIR_SLOW) if {one.subject, opposite(loaded, one.subject)} in ring]
        slow = [*self.hits(SLOW, case.operation), *pairs]
        return self._linked_gbps(case) * min((1 - (one.by or 0.0) for one in slow), default=1.0)

    def _linked_gbps(self, case: Case) -> float:
        """That of the SKU file, or of its slowest link."""
        task, card = self.task, self.task.card
        inside = len({one.rpartition("/")[0] for one in self.members}) == 1
        stated = {(one.operation, one.gpus, one.mib): one.gbps for one in card.sku.group_rates}
        share = next((share for mib, share in AT_SIZE if case.mib <= mib), 1.0)
        if self.spec.arm in ARMS:
            by_sockets = "NCCL_SHM_DISABLE" in ARMS[self.spec.arm]
            return share * (SOCKETS_GBPS if by_sockets else HOST_SHARE * self._slowest_link_gbps())
        share *= KIND_SHARE.get(case.operation, OTHER_SHARE)
        if not inside:
            lan_share = next((share for mib, share in LAN_AT_SIZE if case.mib <= mib), 0.97)
            return LAN_GBPS * lan_share * KIND_SHARE.get(case.operation, OTHER_SHARE)
        if self.hits("nvlink-down") or card.sku.nvlinks is None:
            return HOST_SHARE * self._slowest_link_gbps() * share
        known = stated.get((case.operation, task.crew.size, case.mib))
        return known or LINK_GBPS * card.sku.nvlinks * share

    def _slowest_link_gbps(self) -> float:
        """The PCIe link of that card of the group, on this node, whose is the slowest."""
        node = self.task.node
        cards = [node.cards[one] for one in self.members if one in node.cards]
        return min(link_gbps(*link_of(one, self.task.start_s, node.stages)) for one in cards)

    def gb(self, case: Case) -> float:
        """10^9 bytes on the bus of one operation."""
        ranks = self.task.crew.size
        parts = 1 if case.operation in (ALL_REDUCE, BROADCAST) else ranks
        factor = {ALL_REDUCE: 2 * (ranks - 1) / ranks, BROADCAST: 1.0}.get(
            case.operation, (ranks - 1) / ranks
        )
        return WORD_BYTES * case.elements(ranks) * parts * (factor or 1.0) / 1e9

    def one_s(self, case: Case) -> float:
        """What one operation takes; alone there is nobody to exchange with."""
        return self.gb(case) / self.rate_gbps(case) if case.mib and self.task.crew.size > 1 else LATENCY_S

    def event(self, t_s: float, kind: str, message: str, data: dict[str, object]) -> Event:
        """An event about the group."""
        more = {"rank": self.task.crew.rank, "group": self.spec.group, "arm": self.spec.arm}
        made = self.task.event(t_s, kind, message, {**more, **data})
        return replace(made, subject=self.task.crew.subject)

    def halted(self, t_s: float, case: Case, sequence: int) -> Iterator[Event]:
        """What it reports if a fault ends the group in this operation; nothing if none does."""
        rank, subject = self.task.crew.rank, self.task.plan.subject
        for name in (HANG, RANK_KILLED, RANK_FROZEN):
            if not (faults := self.hits(name, case.operation)):
                continue
            fault = faults[0]
            own = subject == fault.subject
            died = own and name == RANK_KILLED
            inside = not own or died
            data = {
                "sequence": sequence if inside else sequence - 1,
                "operation": case.operation,
                "mib": case.mib,
                "inside": inside,
                "held": own and name == RANK_FROZEN,
                "status": KILLED if died else None,
                "size": self.task.crew.size,
            }
            where = f"rank {rank} ({subject}) {'inside' if inside else 'after'} {case.operation}"
            if died:
                yield self.event(t_s, "rank_died", f"{where}: it ended with status {KILLED}", data)
            else:
                late_s = self.spec.least_s
                yield self.event(t_s + late_s, "rank_stuck", f"{where}: it was silent for {late_s:g} s", data)
            return


def records(task: Task, spec: CollectiveSpec) -> Records:
    """The records of the team as it is, then of each planned arm; or of the one that is asked for."""
    begin_s = task.start_s
    for one in spec.of_team(task.crew.subject):
        begin_s += SETUP_S
        yield from _of_arm(task, one, begin_s)
        begin_s += one.seconds


def _of_arm(task: Task, spec: CollectiveSpec, begin_s: float) -> Records:
    """Rounds of each case, as far as the faults of the group's cards let it get."""
    rank = Rank(task, spec, task.crew.devices)
    wrong = task.fault(WRONG)
    cases = list(spec.cases())
    end_s = begin_s + spec.seconds
    for number, case in enumerate(cases):
        if number:  # a group gets stuck in its first real operation
            halted = list(rank.halted(begin_s, case, 2 * number))
            yield from halted
            if halted:
                return
        left_s, needed_s = end_s - begin_s, (1 + ROUNDS) * rank.one_s(case)
        if not (case.due or spec.thorough) and needed_s > left_s:  # as a real group foresees
            if task.crew.rank == 0:
                message = f"{case.operation} of {case.mib} MiB was left out: it takes too long"
                yield rank.event(begin_s, "size_left_out", message, asdict(case))
            continue
        each_s = max(left_s * share_of_time(cases, number), needed_s)
        lies = wrong is not None and case.mib >= (wrong.to or 1) and wrong.field in (None, case.operation)
        if lies:
            elements = case.elements(task.crew.size)
            message = (
                f"{case.operation} of {case.mib} MiB on rank {task.crew.rank} ({task.subject}): "
                f"1 of {elements} elements are wrong, from {elements - 1} on; the first is 7, not 8"
            )
            yield rank.event(begin_s, "wrong_result", message, {"operation": case.operation, "mib": case.mib})
        for one in range(ROUNDS):
            yield replace(
                _round(rank, case, begin_s + (one + 1) * each_s / ROUNDS, each_s),
                verified=not (lies and not one),
            )
        begin_s += each_s


def _round(rank: Rank, case: Case, t_s: float, each_s: float) -> Round:
    task, one_s = rank.task, rank.one_s(case)
    repeats = max(1, int(BUSY_SHARE * each_s / ROUNDS / one_s))
    seconds = repeats * one_s / (1 + task.noise.gauss(0, NOISE))
    labels: Labels = {
        "operation": case.operation,
        "mib": case.mib,
        "elements": case.elements(task.crew.size),
        "backend": rank.spec.backend,
        "ranks": task.crew.size,
        "arm": rank.spec.arm,
        "group": rank.spec.group,
        "repeats": repeats,
    }
    done = task.round(t_s, "measure", seconds, repeats * rank.gb(case), unit=GB, labels=labels)
    return replace(done, subject=task.crew.subject)


def _left_out(fault: InjectedFault, spec: CollectiveSpec) -> str:
    """Operations, or sizes, that are not done."""
    done = [one.mib for one in spec.cases() if fault.field in (None, one.operation)]
    if not done:
        return f"the {STAGE} stage does no {fault.field}"
    if fault.to is not None and max(done) < fault.to:
        return f"the {STAGE} stage does {max(done)} MiB at most"
    return ""


SIMULATED = SimulatedForm(segments, records, left_out=_left_out)
