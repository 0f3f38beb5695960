"""The gemm stage: each precision warms up, then is measured."""

from rigproof.records.measurements import Phase
from rigproof.simulation.timetable import gemm_measured_s, gemm_round_s
from rigproof.simulation.work.task import Records, Task
from rigproof.workloads.specs import GemmSpec


def gemm(task: Task, spec: GemmSpec) -> Records:
    """Rounds of every precision of the card, one after the other."""
    seconds, t_s = gemm_round_s(spec.round_s, spec.measure_s), task.start_s
    for segment in task.segments():
        t_s = segment.from_s
        yield task.references(t_s, segment.precision)
        settled_s = segment.to_s - gemm_measured_s(spec.round_s, spec.measure_s) - 1e-6
        while t_s + seconds <= segment.to_s + 1e-6:
            t_s += seconds
            phase: Phase = "warmup" if t_s - seconds < settled_s else "measure"
            tflop = task.rate(segment.precision, t_s - seconds, t_s) * seconds
            yield task.round(t_s, segment.precision, phase, seconds, tflop)
    yield task.memory(t_s, 0.0)
