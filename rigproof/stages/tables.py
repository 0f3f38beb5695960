"""Tables of a report, as text; the default one has the rates that a stage measured."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from rigproof.criteria.evidence.rounds import Rounds
from rigproof.profiles.kinds.stages import StageFacts
from rigproof.records.recording import Recording
from rigproof.records.verdict import figure

NO_RATE = "–"


@dataclass(frozen=True, slots=True)
class StageTable:
    """One table. `section` is the heading above it; tables with the same one are grouped.

    The first `labels` columns are text, all others numbers. A row has a cell for each column.
    A table without rows is not shown.
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


def verified_rounds(recording: Recording, stage: str) -> Iterator[tuple[str, Rounds]]:
    """Each device that has verified rounds of the stage, and these, its warm-up included."""
    for subject in recording.rounds.subjects():
        rounds = Rounds.of_subject(recording.rounds, subject)
        verified = rounds.only(rounds.same("stage", stage)).verified
        if len(verified):
            yield subject, verified


def rate_of(rounds: Rounds, **labels: str | int) -> str:
    """The rate of the rounds with these labels, without a unit; a dash if there is none."""
    chosen = rounds.having(**labels) if labels else rounds
    return figure(chosen.rate()) if len(chosen) else NO_RATE


def rates(
    recording: Recording, kind: StageFacts[Any], *, section: str, title: str, note: str = ""
) -> StageTable:
    """A row for each device with the rate that it measured of each figure of the stage."""
    rows = []
    for subject, verified in verified_rounds(recording, kind.name):
        if len(measured := verified.measured):
            rows.append((subject, *(rate_of(measured, **one.labels) for one in kind.figures)))
    columns = (f"{' '.join(map(str, one.labels.values())) or 'rate'}, {one.unit}" for one in kind.figures)
    return StageTable(section, title, ("Device", *columns), tuple(rows), note=note)
