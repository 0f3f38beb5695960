"""Simulated sharing: one process works on the card, then several together."""

from collections.abc import Iterator

from rigproof.profiles.kinds.stages import StagePlan
from rigproof.records.measurements import Labels, Phase
from rigproof.simulation.faults.kinds import FaultKind
from rigproof.simulation.stage import CardWork, Records, SimulatedForm
from rigproof.simulation.timetable import BOOST_S, MULTIPLYING, Segment, Work
from rigproof.simulation.work.task import Task
from rigproof.stages.sharing.stage import SharingSettings, SharingSpec

FAULTS = (
    FaultKind(
        "sharing-collapse",
        "processes that share the card slow each other down",
        ("scaling.sharing",),
        keys=("stage", "by"),
        defaults={"by": "50%"},
        stage="sharing",
    ),
)


SHARED = Work(0.78, 0.985, 0.045, 0.02)  # two and three processes: 1545 MHz (1470 to 1620), 579 to 792 W
# Shares: of each number's time, for processes to start and fill their memory; of the rest, to settle.
PAUSE, WARM_UP_SHARE = 0.2, 0.2
TOGETHER = 0.92  # of one process's rate; measured on an H200
ROUNDS, WARM_UP = 10, 2


def segments(plan: StagePlan, work: CardWork) -> Iterator[Segment]:
    """One number of processes after the other; each begins with their start."""
    numbers = work.device.settings(SharingSettings).workers
    each_s = plan.expected_s / len(numbers)
    for place, number in enumerate(numbers):
        from_s, to_s = (place + PAUSE) * each_s, (place + 1) * each_s
        boost_s = min(BOOST_S, WARM_UP_SHARE * (to_s - from_s))
        yield Segment(
            from_s,
            to_s,
            MULTIPLYING if number == 1 else SHARED,
            precision=work.half,
            number=number,
            boost_s=boost_s,
        )


def records(task: Task, spec: SharingSpec) -> Records:
    """For each number of processes, an allocation and the rounds of each process."""
    collapse = task.fault("sharing-collapse")
    work = task.segments()
    for segment in work:
        number, t_s = segment.number, segment.from_s
        room_mib = task.node.vram(task.plan.subject).room_mib(task.workers + number)
        filled_mib = min(spec.vram_mib, room_mib)
        data = {"workers": number, "target_mib": spec.vram_mib, "allocated_mib": filled_mib}
        if segment is work[0]:
            yield task.references(t_s, segment.precision)
        yield task.event(t_s, "allocation", f"{number} × {filled_mib / number:.0f} MiB", data)
        share = 1.0 if number == 1 else TOGETHER
        if collapse is not None and number == max(spec.workers):
            share *= 1 - (collapse.by or 0.0)
        seconds = (segment.to_s - segment.from_s) / ROUNDS
        for place in range(ROUNDS):
            t_s += seconds
            phase: Phase = "warmup" if place < WARM_UP else "measure"
            for process in range(number):
                tflop = task.rate(segment.precision, t_s - seconds, t_s) * share * seconds / number
                labels: Labels = {
                    "precision": segment.precision,
                    "size": task.plan.gemm_size,
                    "processes": number,
                    "process": process,
                }
                yield task.round(t_s, phase, seconds, tflop, labels=labels)


SIMULATED = SimulatedForm(
    segments, records, holds="together", verifies_memory=True, least_by={"throughput-sag": 0.15}
)
