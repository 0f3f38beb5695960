"""A table of a report, as text: what a stage measured, row by row."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StageTable:
    """One table. `section` is the heading that it stands under, together with others of the same one.

    The first `labels` columns are words, all others figures. A row has a cell for each column.
    """

    section: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: int = 1
    note: str = ""  # a sentence below it
