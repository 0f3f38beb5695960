"""A table of a report, as text."""

from collections.abc import Iterable
from dataclasses import dataclass

from rigproof.records.recording import Recording


@dataclass(frozen=True, slots=True)
class StageTable:
    """One table. `section` is the heading above it; tables with the same one are grouped.

    The first `labels` columns are text, all others numbers. A row has a cell for each column.
    """

    section: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: int = 1
    note: str = ""  # a sentence below it


def without_tables(_recording: Recording) -> Iterable[StageTable]:
    """For a stage whose verdicts show everything."""
    return ()
