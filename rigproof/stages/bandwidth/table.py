"""The bandwidth stage as a table."""

from collections.abc import Iterator

from rigproof.criteria.evidence.rounds import Rounds
from rigproof.records.recording import Recording
from rigproof.records.verdict import figure
from rigproof.stages.bandwidth.criteria import UNIT
from rigproof.stages.bandwidth.settings import FIGURES, STAGE
from rigproof.stages.tables import StageTable


def bandwidth_tables(recording: Recording) -> Iterator[StageTable]:
    """One row per device with the rate of each operation; a dash if it has no verified round."""
    rows = []
    for subject in recording.rounds.subjects():
        rounds = Rounds.of_subject(recording.rounds, subject)
        rounds = rounds.only(rounds.same("stage", STAGE) & rounds.same("phase", "measure")).verified
        if len(rounds):
            rows.append((subject, *(_rate(rounds, operation) for operation in FIGURES)))
    if rows:
        yield StageTable(
            section="Memory bandwidth",
            title="Bandwidth",
            columns=("Device", *(f"{operation}, {UNIT}" for operation in FIGURES)),
            rows=tuple(rows),
            note="Bytes read and written, by the device's own clock; each round's result was verified.",
        )


def _rate(rounds: Rounds, operation: str) -> str:
    own = rounds.only(rounds.labelled("operation", operation))
    return figure(own.rate()) if len(own) else "–"
