"""How the workers took memory, and what they did where it did not suffice, as tables."""

from collections import defaultdict
from collections.abc import Iterator

from rigproof.records.measurements import Event, MemoryReading
from rigproof.records.recording import Recording
from rigproof.records.verdict import figure
from rigproof.stages.tables import StageTable

# Decisions that answer a failed allocation; all others are settings, told at the begin and end of a stage.
ANSWERS = ("target", "matrix_size", "batch_size", "emergency", "cpu_fallback")
ROWS_SHOWN = 40
MIB_PER_GIB = 1024


def memory_tables(recording: Recording) -> Iterator[StageTable]:
    """Each worker's memory in each stage, then its answers to failures in the order of time."""
    section = "Memory"
    yield StageTable(
        section=section,
        title="What each worker held",
        columns=("Worker", "Stage", "Most held", "Least free", "Failed allocations"),
        rows=tuple(_held(recording)),
        labels=2,
        note="Held: reserved by torch's allocator. Free: on the whole device, while the worker worked.",
    )
    answers = [one for one in _decisions(recording) if one.data.get("technique") in ANSWERS]
    shown = answers[:ROWS_SHOWN]
    left = len(answers) - len(shown)
    yield StageTable(
        section=section,
        title="What was done where memory did not suffice",
        columns=("Worker", "Decision", "Why", "At"),
        rows=tuple(
            (one.worker or one.subject, _change(one), str(one.data.get("reason", "")), f"{one.t_s:.1f} s")
            for one in shown
        ),
        labels=3,
        note=f"{left} more are in recording.jsonl." if left else "",
    )


def _held(recording: Recording) -> Iterator[tuple[str, ...]]:
    readings: dict[tuple[str, str], list[MemoryReading]] = defaultdict(list)
    for one in recording.memory:
        readings[one.worker, one.stage].append(one)
    failures: dict[tuple[str, str], int] = defaultdict(int)
    for event in recording.events:
        if event.kind == "oom" and event.worker and event.stage:
            failures[event.worker, event.stage] += 1
    for (worker, stage), own in readings.items():
        free = [one.device_free_mib for one in own if one.device_free_mib is not None]
        yield (
            worker,
            stage,
            figure(max(one.reserved_mib for one in own) / MIB_PER_GIB, "GiB"),
            figure(min(free) / MIB_PER_GIB, "GiB") if free else "not told",
            str(failures[worker, stage]),
        )


def _decisions(recording: Recording) -> list[Event]:
    found = [event for event in recording.events if event.kind == "memory_policy"]
    return sorted(found, key=lambda event: event.t_s)


def _change(event: Event) -> str:
    data = event.data
    values = [_text(data.get(key)) for key in ("before", "after") if data.get(key) is not None]
    words = str(data.get("technique", "")).replace("_", " ")
    return f"{words}: {' → '.join(values)} {data.get('unit') or ''}".strip()


def _text(value: object) -> str:
    return figure(value) if isinstance(value, float) else str(value)
