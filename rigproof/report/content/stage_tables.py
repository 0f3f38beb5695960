"""The tables of summary.md and report.html: what stages measured, memory, and why clocks were lowered."""

from collections import Counter
from collections.abc import Iterator

from rigproof.criteria.evidence.counters import COUNTERS, NAMES, counted_s
from rigproof.records.grouping import grouped
from rigproof.records.measurements import Event, GpuCounters
from rigproof.records.recording import Recording
from rigproof.records.verdict import figure
from rigproof.stages.registry import KINDS
from rigproof.stages.tables import StageTable

# Decisions after a failed allocation; all others are settings, recorded at the beginning and end of a stage.
ANSWERS = ("target", "matrix_size", "batch_size", "emergency", "cpu_fallback")
ROWS_SHOWN = 40  # of a table
MIB_PER_GIB = 1024


def tables_of(recording: Recording) -> list[StageTable]:
    """All tables that have rows, stage by stage; those about memory and clocks come last."""
    of_stages = [table for stage in KINDS for table in stage.tables(recording)]
    others = (*memory_tables(recording), *reason_tables(recording))
    return [table for table in (*of_stages, *others) if table.rows]


def reason_tables(recording: Recording) -> Iterator[StageTable]:
    """How long each reason lasted on each card, as NVML counts it."""
    before = {one.subject: one for one in reversed(recording.counters) if one.moment == "before"}
    after = {one.subject: one for one in recording.counters if one.moment == "after"}
    rows = [row for subject in recording.gpus if (row := _row(subject, before, after))]
    left = len(rows) - ROWS_SHOWN
    yield StageTable(
        section="Clocks",
        title="How long the driver lowered each clock, and why",
        columns=("GPU", *(NAMES[bit] for bit in COUNTERS)),
        rows=tuple(rows[:ROWS_SHOWN]),
        note="From before the load to after it, in seconds; a power cap is usual under load."
        + (f" {left} more are in recording.jsonl." if left > 0 else ""),
    )


def _row(
    subject: str, before: dict[str, GpuCounters], after: dict[str, GpuCounters]
) -> tuple[str, ...] | None:
    """A card's row; None if NVML does not count there."""
    counted = counted_s(before.get(subject), after.get(subject))
    if not counted:
        return None
    return (subject, *(figure(counted[bit], "s") if bit in counted else "" for bit in COUNTERS))


def memory_tables(recording: Recording) -> Iterator[StageTable]:
    """Each worker's memory in each stage, then the decisions after failures in the order of time."""
    section = "Memory"
    yield StageTable(
        section=section,
        title="What each worker held",
        columns=("Worker", "Stage", "Most held", "Least free", "Failed allocations"),
        rows=tuple(_held(recording)),
        labels=2,
        note="Held: reserved by torch's allocator. Free: on the whole device, while the worker worked.",
    )
    answers = [event for event in _decisions(recording) if event.data.get("technique") in ANSWERS]
    shown = answers[:ROWS_SHOWN]
    left = len(answers) - len(shown)
    yield StageTable(
        section=section,
        title="Decisions when memory did not suffice",
        columns=("Worker", "Decision", "Why", "At"),
        rows=tuple(
            (
                event.worker or event.subject,
                _change(event),
                str(event.data.get("reason", "")),
                f"{event.t_s:.1f} s",
            )
            for event in shown
        ),
        labels=3,
        note=f"{left} more are in recording.jsonl." if left else "",
    )


def _held(recording: Recording) -> Iterator[tuple[str, ...]]:
    readings = grouped(recording.memory, lambda reading: (reading.worker, reading.stage))
    failures = Counter((event.worker, event.stage) for event in recording.events if event.kind == "oom")
    for (worker, stage), own in readings.items():
        free = [reading.device_free_mib for reading in own if reading.device_free_mib is not None]
        yield (
            worker,
            stage,
            figure(max(reading.reserved_mib for reading in own) / MIB_PER_GIB, "GiB"),
            figure(min(free) / MIB_PER_GIB, "GiB") if free else "unknown",
            str(failures[worker, stage]),
        )


def _decisions(recording: Recording) -> list[Event]:
    decisions = [event for event in recording.events if event.kind == "memory_policy"]
    return sorted(decisions, key=lambda event: event.t_s)


def _change(event: Event) -> str:
    data = event.data
    values = [_text(data.get(key)) for key in ("before", "after") if data.get(key) is not None]
    words = str(data.get("technique", "")).replace("_", " ")
    return f"{words}: {' → '.join(values)} {data.get('unit') or ''}".strip()


def _text(value: object) -> str:
    return figure(value) if isinstance(value, float) else str(value)
