"""The tables of summary.md and report.html: what stages measured, and why clocks were lowered."""

from collections.abc import Iterator

from rigproof.criteria.evidence.counters import COUNTERS, NAMES, counted_s
from rigproof.records.measurements import GpuCounters
from rigproof.records.recording import Recording
from rigproof.records.verdict import figure
from rigproof.report.content.memory import memory_tables
from rigproof.stages.registry import KINDS
from rigproof.stages.tables import StageTable

ROWS_SHOWN = 40  # of the table of lowered clocks


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
