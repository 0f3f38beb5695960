"""Simulated bandwidth: each operation in turn, at its share of the printed bandwidth."""

from collections.abc import Iterator

from rigproof.profiles.kinds.stages import StagePlan
from rigproof.records.measurements import GB, Labels, Phase
from rigproof.simulation.faults.kinds import FaultKind
from rigproof.simulation.stage import CardWork, Records, SimulatedForm, paced_by_memory
from rigproof.simulation.timetable import Segment, Work
from rigproof.simulation.work.task import Task
from rigproof.stages.bandwidth.stage import FIGURES, BandwidthSpec

FAULTS = (
    FaultKind(
        "vram-slow",
        "the card's memory is slower than that of its model",
        ("memory.bandwidth",),
        keys=("stage", "by"),
        defaults={"by": "40%"},
        stage="bandwidth",
    ),
)


# An H200 with buffers of 1 GiB: 472, 596, 567 and 562 W of 700 at 1980 MHz.
WORK = {
    "write": Work(1.0, 0.675, 0.01, 0.0),
    "read": Work(1.0, 0.85, 0.01, 0.0),
    "copy": Work(1.0, 0.81, 0.01, 0.0),
    "triad": Work(1.0, 0.80, 0.01, 0.0),
}
# Of the printed bandwidth, for a model without a measured figure: those of an H200.
SHARES = {"write": 0.97, "read": 0.92, "copy": 0.88, "triad": 0.91}
ROUNDS, WARM_UP = 10, 2  # of an operation
NOISE = 0.002
VERIFYING_SHARE = 0.01  # additional, of an operation's time


def segments(plan: StagePlan, _work: CardWork) -> Iterator[Segment]:
    """One operation after the other."""
    each_s = (1 + VERIFYING_SHARE) * plan.expected_s / len(WORK)
    for place, (operation, work) in enumerate(WORK.items()):
        yield Segment(place * each_s, (place + 1) * each_s, work, part=operation)


def records(task: Task, spec: BandwidthSpec) -> Records:
    """Rounds of each operation."""
    slow = task.fault("vram-slow")
    speed = 1.0 if slow is None else 1 - (slow.by or 0.0)
    for segment in task.segments():
        steady = task.card.sku.steady.figure(FIGURES[segment.part].name)
        printed_gbps = SHARES[segment.part] * task.card.sku.memory_bandwidth_gbps
        rate_gbps = speed * (printed_gbps if steady is None else steady.value)
        seconds, t_s = (segment.to_s - segment.from_s) / ROUNDS, segment.from_s
        for number in range(ROUNDS):
            t_s += seconds
            phase: Phase = "warmup" if number < WARM_UP else "measure"
            work = rate_gbps * (1 + task.noise.gauss(0, NOISE)) * seconds
            labels: Labels = {"operation": segment.part, "size": spec.size}
            yield task.round(t_s, phase, seconds, work, unit=GB, labels=labels)


SIMULATED = SimulatedForm(segments, records, unnoticed=paced_by_memory)
