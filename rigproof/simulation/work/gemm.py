"""The gemm stage: each precision warms up, then is measured."""

from rigproof.profiles.plan import LATER_SETTLE_SHARE
from rigproof.simulation.work.task import FILL_S, ROUND_S, Records, Task
from rigproof.workloads.specs import GemmSpec

FEWEST = 4  # rounds to measure, however short the level is


def gemm(task: Task, spec: GemmSpec) -> Records:
    """Rounds of every precision of the card, one after the other."""
    t_s = task.start_s + FILL_S
    for number, precision in enumerate(spec.precisions or task.card.precisions()):
        settle_s = spec.settle_s * (1.0 if number == 0 else LATER_SETTLE_SHARE)
        seconds = max(spec.round_s, min(ROUND_S, spec.measure_s / FEWEST))
        settled_s = t_s + settle_s
        yield task.references(t_s, precision)
        end_s = settled_s + max(spec.measure_s, FEWEST * seconds)
        while t_s + seconds <= end_s + 1e-6:
            t_s += seconds
            tflop = task.rate(precision, t_s) * seconds
            phase = "warmup" if t_s - seconds < settled_s else "measure"
            yield task.round(t_s, precision, phase, seconds, tflop)  # type: ignore[arg-type]
    yield task.memory(t_s, 0.0)
