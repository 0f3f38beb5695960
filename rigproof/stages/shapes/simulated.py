"""Simulated shapes: each candidate in turn, slower the worse its hidden size is aligned."""

from collections.abc import Iterator

from rigproof.profiles.kinds.stages import StagePlan
from rigproof.records.measurements import Labels, Phase
from rigproof.simulation.faults.kinds import FaultKind
from rigproof.simulation.stage import CardWork, Records, SimulatedForm
from rigproof.simulation.timetable import MULTIPLYING, Segment
from rigproof.simulation.work.task import Task
from rigproof.stages.shapes.candidates import Candidate, alignment, candidates
from rigproof.stages.shapes.stage import ShapesSpec

SETUP_S, SETUP_SHARE = 0.5, 0.5  # at most that share of the stage
WIDTH = 2496  # of the model that an H200 trains
FASTEST = 0.95  # of plain products: these are smaller
# Not measured: only that shares fall with the alignment, as NVIDIA's guide to matrix products says.
SHARES = {256: 1.0, 128: 0.98, 64: 0.96, 32: 0.92, 16: 0.88, 8: 0.80, 1: 0.35}
ATTENTION_SHARE = 0.5  # of a product's rate
ROUND_S, PASSES = 0.05, 4  # the longest round; passes at least, the first of which is warm-up


def segments(plan: StagePlan, work: CardWork) -> Iterator[Segment]:
    """Products without a break."""
    setup_s = min(SETUP_S, SETUP_SHARE * plan.expected_s)
    yield Segment(setup_s, plan.expected_s, MULTIPLYING, precision=work.half)


def records(task: Task, spec: ShapesSpec) -> Records:
    """Passes over all candidates, a round of each."""
    [segment] = task.segments()
    those, t_s = candidates(WIDTH, spec.tokens), segment.from_s
    seconds = min(ROUND_S, (segment.to_s - t_s) / (PASSES * len(those)))
    for place in range(int((segment.to_s - t_s) / seconds + 1e-6)):
        one = those[place % len(those)]
        phase: Phase = "warmup" if place < len(those) else "measure"
        tflop = share(one, spec.tokens) * task.rate(segment.precision, t_s, t_s + seconds) * seconds
        t_s += seconds
        labels: Labels = {
            "precision": segment.precision,
            "size": one.size,
            "product": one.product,
            "tokens": one.tokens,
        }
        yield task.round(t_s, phase, seconds, tflop, labels=labels)
    yield task.memory(t_s, 0.0)


def share(one: Candidate, tokens: int) -> float:
    """The candidate's rate as a share of that of plain products."""
    if one.head:
        return FASTEST * ATTENTION_SHARE * (1.0 if one.head == 128 else 0.8)
    aligned = SHARES[min(alignment(one.size), alignment(one.n))]
    return FASTEST * aligned * min(1.0, 0.6 + 0.4 * one.tokens / tokens)


# Its rates are held against their best quarter, and the fastest against 0.70 of plain products.
SIMULATED = SimulatedForm(segments, records, least_by={"throughput-sag": 0.35})

FAULTS: tuple[FaultKind, ...] = ()
