"""Simulated gemm: each precision warms up, then is measured."""

from collections.abc import Iterator
from itertools import count

from rigproof.profiles.kinds.stages import StagePlan
from rigproof.records.measurements import Labels, Phase
from rigproof.simulation.faults.kinds import FaultKind
from rigproof.simulation.stage import CardWork, Records, SimulatedForm
from rigproof.simulation.timetable import BOOST_S, FILL_S, ROUND_S, Segment, Work
from rigproof.simulation.work.task import Task
from rigproof.stages.gemm.stage import EXACT_EVERY, FEWEST_ROUNDS, LATER_SETTLE_SHARE, GemmSpec

# Two H200: bf16 1455 MHz (1410 to 1485), 687 W (639 to 725), fp16 1410, tf32 1478, and
# fp32 1950 MHz at 704 W (661 to 734); two H100: 1395, 1335, 1380 and 1950 MHz, up to 774 W.
WORK = {
    "bf16": Work(0.735, 0.99, 0.022, 0.009),
    "fp16": Work(0.71, 0.99, 0.022, 0.009),
    "tf32": Work(0.745, 0.99, 0.025, 0.012),
    "fp32": Work(0.985, 0.99, 0.022, 0.007),
    "fp8": Work(0.68, 0.99, 0.022, 0.012),  # an H200: 1320 to 1365 MHz
}
GOLDEN_SPEED = 1.03  # of normal data's: an H200 at its power cap does more of them


def segments(plan: StagePlan, work: CardWork) -> Iterator[Segment]:
    """One precision after the other, each for its settling and measuring time."""
    from_s = 0.0
    for number, precision in enumerate(work.precisions):
        settle_s = plan.settle_s * (LATER_SETTLE_SHARE if number else 1.0)
        to_s = from_s + settle_s + measured_s(plan.round_s, plan.measure_s)
        first_s, boost_s = (0.0, 0.0) if number else (FILL_S, min(BOOST_S, max(0.0, settle_s - FILL_S)))
        yield Segment(from_s + first_s, to_s, WORK[precision], precision=precision, boost_s=boost_s)
        from_s = to_s


def round_s(aimed_s: float, measure_s: float) -> float:
    """Length of a round of the gemm stage."""
    return max(aimed_s, min(ROUND_S, measure_s / FEWEST_ROUNDS))


def measured_s(aimed_s: float, measure_s: float) -> float:
    """How long a precision is measured."""
    return max(measure_s, FEWEST_ROUNDS * round_s(aimed_s, measure_s))


def records(task: Task, spec: GemmSpec) -> Records:
    """Rounds of every precision of the card, one after the other."""
    seconds, t_s = round_s(spec.round_s, spec.measure_s), task.start_s
    for segment in task.segments():
        t_s = segment.from_s
        yield task.references(t_s, segment.precision, golden=False)
        yield task.references(t_s, segment.precision)
        settled_s = segment.to_s - measured_s(spec.round_s, spec.measure_s) - 1e-6
        for number in count():
            if t_s + seconds > segment.to_s + 1e-6:
                break
            t_s += seconds
            phase: Phase = "warmup" if t_s - seconds < settled_s else "measure"
            tflop = task.rate(segment.precision, t_s - seconds, t_s) * seconds
            if number % EXACT_EVERY == 0:
                phase, tflop = "exact", GOLDEN_SPEED * tflop
            labels: Labels = {"precision": segment.precision, "size": task.plan.gemm_size}
            yield task.round(t_s, phase, seconds, tflop, labels=labels)
    yield task.memory(t_s, 0.0)


# Floors are 0.75 to 0.92 of the steady rate, and rates exceed that by a few percent.
SIMULATED = SimulatedForm(segments, records, least_by={"throughput-sag": 0.25})

FAULTS: tuple[FaultKind, ...] = ()
