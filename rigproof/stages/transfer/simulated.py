"""Simulated transfers: the shares of their link's nominal rate that real cards reached."""

from collections.abc import Iterator
from dataclasses import replace

from rigproof.criteria.evidence.link import link_gbps
from rigproof.profiles.kinds.stages import StagePlan
from rigproof.records.measurements import GB, Labels
from rigproof.simulation.faults.kinds import FaultKind, unreported
from rigproof.simulation.silicon.readings import link_of
from rigproof.simulation.stage import CardWork, Records, SimulatedForm
from rigproof.simulation.timetable import Segment, Work
from rigproof.simulation.work.task import Task
from rigproof.stages.transfer.stage import BOTH, D2H, H2D, MEANINGS, TOGETHER, TransferSpec

FAULTS = (
    FaultKind(
        "pcie-slow",
        "transfers are slow although the link reads what it should",
        ("transfer.h2d", "transfer.d2h", "transfer.both"),
        keys=("stage", "by"),
        defaults={"by": "50%"},
        stage="transfer",
        lacks=unreported("pcie", "its link to the host is not PCIe, so that its copies have no floor"),
    ),
    FaultKind(
        "pcie-corrupt",
        "what arrives differs from what was sent, without any driver event",
        ("transfer.h2d", "transfer.d2h", "transfer.both", "compute.exact", "activity.gpu_active"),
        keys=("stage",),
        stage="transfer",
    ),
)


COPYING = Work(1.0, 0.18, 0.01, 0.0)  # lead: a card whose cores rest, at its highest clock
# Of the nominal rate one way. An H200 on Gen5 x16, 64 MiB and more: 55.5, 55.4 and 101 GB/s of 63.0; an H100
# on another host: 54.9, 55.2 and 77.8.
SHARES = {H2D: 0.881, D2H: 0.879, BOTH: 1.60}
IN_COMPANY = 0.97  # lead: each card has lanes of its own
ROUNDS = 5  # of a slot
NOISE = 0.002
COPIED_SHARE = 0.5  # of a slot; the rest is verification


def segments(plan: StagePlan, _work: CardWork) -> Iterator[Segment]:
    """Some traffic from beginning to end: also a card that waits for its shift is kept awake."""
    yield Segment(0.0, plan.expected_s, COPYING)


def records(task: Task, spec: TransferSpec) -> Records:
    """Rounds of each direction, alone and together."""
    slow = task.fault("pcie-slow")
    speed = 1.0 if slow is None else 1 - (slow.by or 0.0)
    corrupt = task.fault("pcie-corrupt") is not None
    for slot in (*spec.alone(0.0), *spec.together()):
        each_s = (slot.to_s - slot.from_s) / ROUNDS
        nominal_gbps = link_gbps(*link_of(task.card, task.start_s + slot.from_s, task.node.stages))
        rate_gbps = speed * SHARES[slot.direction] * nominal_gbps
        rate_gbps *= IN_COMPANY if slot.company == TOGETHER and spec.shifts > 1 else 1.0
        for number in range(ROUNDS):
            t_s = task.start_s + slot.from_s + (number + 1) * each_s
            seconds = COPIED_SHARE * each_s
            work = rate_gbps * (1 + task.noise.gauss(0, NOISE)) * seconds
            labels: Labels = {"direction": slot.direction, "company": slot.company, "mib": spec.mib}
            wrong = corrupt and not number
            if wrong:
                message = f"{MEANINGS[slot.direction]}: 3 words differ, the first at 4711"
                yield task.event(t_s, "wrong_result", message, {"direction": slot.direction})
            done = task.round(t_s, "measure", seconds, work, unit=GB, labels=labels)
            yield replace(done, verified=not wrong)


SIMULATED = SimulatedForm(segments, records)
