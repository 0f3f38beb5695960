"""The stages' measurements as tables of summary.md and report.html."""

from rigproof.records.recording import Recording
from rigproof.report.content.memory import memory_tables
from rigproof.report.content.reasons import reason_tables
from rigproof.stages.registry import STAGES
from rigproof.stages.tables import StageTable


def tables_of(recording: Recording) -> list[StageTable]:
    """All tables that have rows, stage by stage; those about memory and clocks come last."""
    of_stages = [table for stage in STAGES for table in stage.tables(recording)]
    others = (*memory_tables(recording), *reason_tables(recording))
    return [table for table in (*of_stages, *others) if table.rows]
