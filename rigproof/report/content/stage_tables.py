"""What the stages measured besides verdicts, as tables of summary.md and report.html.

A stage that has something to show adds its function to STAGE_TABLES. The function gets the Recording and
gives its tables in the order in which they are read: none where the stage did not run.
"""

from collections.abc import Callable, Iterable

from rigproof.records.recording import Recording
from rigproof.report.content.memory import memory_tables
from rigproof.report.content.table import StageTable
from rigproof.report.feeding import feeding_tables
from rigproof.report.sharing import sharing_tables
from rigproof.report.training import training_tables

STAGE_TABLES: tuple[Callable[[Recording], Iterable[StageTable]], ...] = (
    training_tables,
    feeding_tables,
    sharing_tables,
    memory_tables,
)


def tables_of(recording: Recording) -> list[StageTable]:
    """All tables that have a row."""
    return [table for tables in STAGE_TABLES for table in tables(recording) if table.rows]
