"""The sharing stage: one process works on the card, then several together."""

from rigproof.records.measurements import Phase
from rigproof.simulation.work.task import Records, Task
from rigproof.workloads.specs import SharingSpec

TOGETHER = 0.92  # of one process's rate; measured on an H200
ROUNDS, WARM_UP = 10, 2


def sharing(task: Task, spec: SharingSpec) -> Records:
    """For each number of processes an allocation, and rounds of each of them."""
    collapse = task.fault("sharing-collapse")
    segments = task.segments()
    for segment in segments:
        number, t_s = segment.number, segment.from_s
        room_mib = task.node.vram(task.plan.subject).room_mib(task.workers + number)
        filled_mib = min(spec.vram_mib, room_mib)
        data = {"workers": number, "target_mib": spec.vram_mib, "allocated_mib": filled_mib}
        if segment is segments[0]:
            yield task.references(t_s, segment.precision)
        yield task.event(t_s, "allocation", f"{number} × {filled_mib / number:.0f} MiB", data)
        share = 1.0 if number == 1 else TOGETHER
        if collapse is not None and number == max(spec.workers) and number > 1:
            share *= 1 - (collapse.by or 0.0)
        seconds = (segment.to_s - segment.from_s) / ROUNDS
        for one in range(ROUNDS):
            t_s += seconds
            phase: Phase = "warmup" if one < WARM_UP else "measure"
            for process in range(number):
                tflop = task.rate(segment.precision, t_s - seconds, t_s) * share * seconds / number
                part = f"workers={number}#{process}"
                yield task.round(t_s, segment.precision, phase, seconds, tflop, part=part)
