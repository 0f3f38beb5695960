"""Simulated patterns: lap after lap at the memory's rate, then the pauses of bit-fade."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, islice
from typing import Literal

from rigproof.profiles.kinds.stages import StagePlan
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.records.measurements import GB, Labels, Phase
from rigproof.simulation.faults.kinds import FROM, FaultKind
from rigproof.simulation.stage import CardWork, Records, SimulatedForm, paced_by_memory
from rigproof.simulation.timetable import FILL_S, ROUND_S, Segment, Work
from rigproof.simulation.work.task import Task
from rigproof.stages.pattern.stage import (
    COLD,
    FADE,
    HOT,
    OPERATIONS,
    PAUSES,
    STAGE,
    WORD_BYTES,
    PatternSpec,
    VramError,
    patterns_with,
)


def _has_sensor(_loaded: LoadedRig, device: PromisedDevice) -> str:
    known = device.sku is not None and "memory_temperature" not in device.sku.unsupported_sensors
    return "its memory's own sensor is judged" if known else ""


FAULTS = (
    FaultKind(
        "vram-stuck-bit",
        "a bit of its memory is stuck: a word is wrong again when it is read again",
        ("memory.pattern",),
        keys=FROM,
        duties=("continuous", "bursts", "arms"),
        in_memory=True,
    ),
    FaultKind(
        "vram-soft-error",
        "a word of its memory is read wrong once, and right when it is read again",
        ("memory.pattern",),
        keys=("stage", "after"),
        defaults={"after": "50%"},
        stage=STAGE,
    ),
    FaultKind(
        "vram-hot",
        "its memory gets too hot and lowers its clock, which no sensor reports",
        ("memory.hot",),
        keys=("stage", "by"),
        defaults={"by": "20%"},
        stage=STAGE,
        lacks=_has_sensor,
    ),
)


# As the writes and reads of the bandwidth stage, which do the same: 472 and 596 W of 700 on an H200.
WORK = Work(1.0, 0.76, 0.02, 0.0)
# Of the printed bandwidth: 4697, 3470 and 4615 GB/s on an H200.
SHARES = {"write": 0.98, "invert": 0.72, "check": 0.96}
NOISE = 0.002
SWEPT = patterns_with(0.0)
PROBES = 3
FEWEST_PASSES = PROBES + (len(SWEPT) + 1) * len(OPERATIONS) + PROBES
FADE_PASSES_S = 0.5  # of writing and reading, beside its pauses
STUCK_BIT, FLIPPED_BIT = 17, 41
STUCK_WORD, SOFT_WORD = 0x123456789, 0x2468ACE0
BASE = 0x7F2A40000000
CHUNK_WORDS = 2**27

Step = tuple[str, str, str]  # pattern, operation, heat
Kind = Literal["hard", "soft"]


def segments(plan: StagePlan, _work: CardWork) -> Iterator[Segment]:
    """The passes without a break; then short ones between the pauses."""
    yield Segment(FILL_S, plan.measure_s, WORK)
    pause_s = (plan.expected_s - plan.measure_s) / PAUSES
    for number in range(1, PAUSES + 1) if pause_s else ():
        end_s = plan.measure_s + number * pause_s
        yield Segment(end_s - FADE_PASSES_S, end_s, WORK)


def records(task: Task, spec: PatternSpec) -> Records:
    """What is filled, the passes, their errors, and the result."""
    begin_s, end_s = task.start_s + FILL_S, task.start_s + spec.duration_s
    free_mib = task.memory(task.start_s, 0.0).device_free_mib or 0.0
    cap_mib = spec.memory.cap_mib
    available_mib = free_mib if cap_mib is None else min(free_mib, cap_mib)
    left_mib = max(free_mib - spec.reserve_mib, spec.least_share * available_mib)
    held_mib = min(spec.free_share * available_mib, left_mib)
    chunks = int(held_mib // 1024) + 1
    message = f"{held_mib:.0f} of {available_mib:.0f} MiB in {chunks} chunks"
    data = {
        "target_mib": held_mib,
        "allocated_mib": held_mib,
        "available_mib": available_mib,
        "free_mib": free_mib,
        "total_mib": task.card.memory_mib,
        "chunks": chunks,
    }
    yield task.event(task.start_s + FILL_S / 2, "allocation", message, data)
    yield task.event(begin_s, "pattern_kernels", "passes by Triton", {"by": "Triton", "reason": ""})
    t_s, passes, bad, soft = begin_s, 0, 0, False  # soft: whether the soft error has happened
    for t_s, seconds, step, phase in _passes(spec, begin_s, end_s):
        pattern, operation, heat = step
        kinds: list[Kind] = []
        if operation != "write":
            passes += 1
            if task.acting("vram-stuck-bit", t_s) is not None:
                kinds.append("hard")
            if task.acting("vram-soft-error", t_s) is not None and not soft:
                soft = True
                kinds.append("soft")
        for kind in kinds:
            yield from _wrong(task, t_s, kind, step, held_mib)
        bad += bool(kinds)
        labels: Labels = {"pattern": pattern, "operation": operation, "size": round(held_mib)}
        labels = {**labels, "heat": heat} if heat else labels
        work = _rate_gbps(task, operation, heat) * seconds
        made = task.round(t_s, phase, seconds, work, unit=GB, labels=labels)
        yield replace(made, verified=False) if kinds else made
    gib = passes * held_mib / 1024
    result = {"passes": passes, "bad_passes": bad, "most": int(bad > 0), "compared_gib": gib}
    message = f"wrong words in {bad} of {passes} passes, {gib:.0f} GiB compared"
    yield task.memory(t_s, held_mib)
    yield task.event(t_s, "pattern_result", message, result)


def _passes(spec: PatternSpec, begin_s: float, end_s: float) -> Iterator[tuple[float, float, Step, Phase]]:
    """Each pass: its end, its seconds, what it does, its phase; those of bit-fade come last."""
    seconds = min(ROUND_S, (end_s - begin_s) / FEWEST_PASSES)
    t_s = begin_s
    for place, step in enumerate(_steps(int((end_s - begin_s) / seconds + 1e-6))):
        t_s += seconds
        yield t_s, seconds, step, "warmup" if place < len(OPERATIONS) else "measure"
    for pause, operations in enumerate((("write", "invert"), ("check",)) if spec.fade_s else (), 1):
        t_s = end_s + pause * spec.fade_s - FADE_PASSES_S
        for operation in operations:
            t_s += FADE_PASSES_S / 2
            yield t_s, FADE_PASSES_S / 2, (FADE, operation, ""), "measure"


def _rate_gbps(task: Task, operation: str, heat: str) -> float:
    rate_gbps = SHARES[operation] * task.card.sku.memory_bandwidth_gbps
    hot = task.fault("vram-hot")
    if hot is not None and heat == HOT:
        rate_gbps *= 1 - (hot.by or 0.0)
    return rate_gbps * (1 + task.noise.gauss(0, NOISE))


def _wrong(task: Task, t_s: float, kind: Kind, step: Step, held_mib: float) -> Records:
    """One wrong word, and the event about its pass."""
    pattern, operation, _ = step
    number, bit = (STUCK_WORD, STUCK_BIT) if kind == "hard" else (SOFT_WORD, FLIPPED_BIT)
    words = int(held_mib * 2**20) // WORD_BYTES
    number %= words
    expected = f"{(number * WORD_BYTES) & ~(1 << bit):016x}"
    read = f"{int(expected, 16) | 1 << bit:016x}"
    address = f"{BASE + number * WORD_BYTES:x}"
    yield VramError(
        t_s=t_s,
        stage=task.spec.stage,
        worker=task.plan.worker,
        subject=task.plan.subject,
        pattern=pattern,
        operation=operation,
        chunk=number // CHUNK_WORDS,
        word=number % CHUNK_WORDS,
        offset=number * WORD_BYTES,
        address=address,
        expected=expected,
        read=read,
        again=read if kind == "hard" else expected,
        bits=str(bit),
        kind=kind,
        mended=kind == "soft",
    )
    data = {"pattern": pattern, "operation": operation, "words": 1, "hard": 0, "soft": 0, kind: 1}
    yield task.event(t_s, "wrong_result", f"{pattern}: 1 of {words} words, the first at 0x{address}", data)


def _steps(number: int) -> Iterator[Step]:
    """So many passes: a lap, reading cold, laps of all patterns, a lap, reading hot."""
    first = [(SWEPT[0], operation, "") for operation in OPERATIONS]
    others = cycle((pattern, operation, "") for pattern in (*SWEPT[1:], SWEPT[0]) for operation in OPERATIONS)
    yield from first
    yield from [(SWEPT[0], "check", COLD)] * PROBES
    yield from islice(others, number - 2 * (len(first) + PROBES))
    yield from first
    yield from [(SWEPT[0], "check", HOT)] * PROBES


SIMULATED = SimulatedForm(segments, records, holds="most", verifies_memory=True, unnoticed=paced_by_memory)
