"""Simulated sustained load: memory is filled, then all workers of the card multiply until the end."""

from collections.abc import Iterator
from itertools import count
from typing import Any

from rigproof.devices.retreat import CPU
from rigproof.profiles.kinds.stages import StagePlan
from rigproof.records.measurements import Labels, Phase
from rigproof.simulation.faults.kinds import CONTINUOUS, TIMES, FaultKind, no_peer
from rigproof.simulation.silicon.vram import CONTEXT_MIB, Fill, Shortage
from rigproof.simulation.stage import CardWork, Records, SimulatedForm
from rigproof.simulation.timetable import BOOST_S, FILL_S, MULTIPLYING, ROUND_S, Segment
from rigproof.simulation.work.task import Task, TaskFailed
from rigproof.stages.sustained.stage import SETTLE_SHARE, SustainedSpec

FAULTS = (
    FaultKind(
        "straggler",
        "slower than its peers of the same SKU, within its floor",
        ("throughput.peer_outlier",),
        keys=(*TIMES, "by"),
        defaults={"by": "10%"},
        duties=CONTINUOUS,
        lacks=no_peer,
    ),
    FaultKind(
        "throughput-sag",
        "the rate falls during the run",
        ("throughput.stability",),
        keys=(*TIMES, "by"),
        defaults={"by": "12%", "after": "70%"},
        duties=("continuous", "bursts", "arms"),
    ),
)


MEMORY_EVERY = 4  # rounds
FAILED_ALLOCATIONS = 3  # of the fault cpu-fallback
CPU_SHARE = 1 / 1000  # of the card's rate, if the CPU does the work instead
NEXT_MATRIX_MIB = 128.0  # that a worker allocates repeatedly: 8192 × 8192 in 16 bits


def segments(plan: StagePlan, work: CardWork) -> Iterator[Segment]:
    """Products from the first filled matrix to the end."""
    yield Segment(FILL_S, plan.expected_s, MULTIPLYING, precision=work.half, boost_s=BOOST_S)


def records(task: Task, spec: SustainedSpec) -> Records:
    """An allocation, then rounds and readings of the memory until the stage's end."""
    precision = task.card.half_precision
    start_s = task.start_s
    fill = task.node.fills(task.plan.subject)[task.plan.worker]
    yield from _shortages(task, fill)
    if fill.failed:
        raise TaskFailed(f"MemoryError: no room for operands of size {fill.attempt.size}")
    held_mib, ooms = fill.held_mib, len(fill.shortages)
    data: dict[str, Any]
    if task.fault("cpu-fallback"):
        for ooms in range(1, FAILED_ALLOCATIONS + 1):
            data = {"requested_mib": spec.vram_mib, "recovered": True}
            message = f"CUDA out of memory: {spec.vram_mib:.0f} MiB requested"
            yield task.event(start_s + 0.1 * ooms, "oom", message, data)
    on_cpu = fill.on_cpu or task.fault("cpu-fallback") is not None
    if on_cpu:
        data = {"technique": "cpu_fallback", "before": "cuda", "after": "cpu", "unit": "", "reason": "oom"}
        yield task.event(start_s + 0.4, "memory_policy", "cpu_fallback: cuda -> cpu", data)
        held_mib = 0.0
    else:
        held_mib *= 0.5 if task.fault("half-filled") else 1.0
        yield task.references(start_s + FILL_S, precision)
        data = {"target_mib": spec.vram_mib, "allocated_mib": held_mib, "precision": precision}
        message = f"{held_mib:.0f} of {spec.vram_mib:.0f} MiB"
        yield task.event(start_s + FILL_S, "allocation", message, data)
    more = {"part": CPU} if on_cpu else {}
    settled_s = start_s + min(spec.settle_s, spec.duration_s * SETTLE_SHARE)
    seconds = max(spec.round_s, ROUND_S)
    t_s = start_s + FILL_S
    for number in count(1):
        t_s += seconds
        if t_s > start_s + spec.duration_s:
            break
        phase: Phase = "warmup" if t_s - seconds < settled_s else "measure"
        tflop = task.rate(precision, t_s - seconds, t_s) * seconds / task.workers
        labels: Labels = {"precision": precision, "size": task.plan.gemm_size, **more}
        work = tflop * (CPU_SHARE if on_cpu else 1.0)
        yield task.round(t_s, phase, seconds, work, labels=labels, device="cpu" if on_cpu else None)
        if number % MEMORY_EVERY == 0 or t_s + seconds > start_s + spec.duration_s:
            retries = 3 if task.begun("oom-retry", t_s) else 0
            reading = task.memory(t_s, held_mib, ooms=ooms, retries=retries)
            if (reading.device_free_mib or 0.0) < NEXT_MATRIX_MIB and task.node.strangers(
                reading.subject, t_s
            ):
                free_mib = reading.device_free_mib or 0.0
                shortage = Shortage(NEXT_MATRIX_MIB, free_mib, CONTEXT_MIB + held_mib, recovered=True)
                yield task.event(t_s, "oom", shortage.message(task.card.memory_mib), shortage.data)
                ooms += 1
            yield reading


def _shortages(task: Task, fill: Fill) -> Records:
    """Each allocation that failed while the card was filled."""
    for number, shortage in enumerate(fill.shortages, 1):
        t_s = task.start_s + FILL_S * number / (len(fill.shortages) + 1)
        yield task.event(t_s, "oom", shortage.message(task.card.memory_mib), shortage.data)


SIMULATED = SimulatedForm(segments, records, holds="each", verifies_memory=True)
