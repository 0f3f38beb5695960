"""The pattern stage as tables: the rate of each kind of pass, and the wrong words."""

from collections.abc import Iterator

from rigproof.criteria.evidence.rounds import Rounds
from rigproof.records.recording import Recording
from rigproof.records.verdict import figure
from rigproof.stages.pattern.records import VramError
from rigproof.stages.pattern.settings import MEANINGS, OPERATIONS, STAGE
from rigproof.stages.tables import StageTable

SECTION = "Memory patterns"
ROWS_SHOWN = 40
WRONG_COLUMNS = ("Device", "Pattern", "Address", "Byte", "Expected", "Read", "Again", "Bits", "Kind", "At")
NOTE = (
    "Bytes read and written, by the device's own clock. Write: the pattern is written; invert: compared, and "
    "overwritten with its complement; check: that is compared."
)


def pattern_tables(recording: Recording) -> Iterator[StageTable]:
    """Rates, a row for each device and pattern; then each wrong word that was recorded."""
    rows = []
    for subject in recording.rounds.subjects():
        rounds = Rounds.of_subject(recording.rounds, subject)
        rounds = rounds.only(rounds.same("stage", STAGE)).verified
        for name in MEANINGS if len(rounds) else ():
            own = rounds.only(rounds.labelled("pattern", name))
            if len(own):
                rows.append((subject, name, str(len(own)), *(_rate(own, one) for one in OPERATIONS)))
    if rows:
        columns = ("Device", "Pattern", "Passes", *(f"{one}, GB/s" for one in OPERATIONS))
        yield StageTable(SECTION, "Passes", columns, tuple(rows), labels=2, note=NOTE)
    errors = list(recording.of(VramError))
    if errors:
        left = len(errors) - ROWS_SHOWN
        yield StageTable(
            section=SECTION,
            title="Wrong words",
            columns=WRONG_COLUMNS,
            rows=tuple(map(_row, errors[:ROWS_SHOWN])),
            labels=len(WRONG_COLUMNS),
            note=f"{left} more are in vram_error.parquet." if left > 0 else "",
        )


def _rate(rounds: Rounds, operation: str) -> str:
    own = rounds.only(rounds.labelled("operation", operation))
    return figure(own.rate()) if len(own) else "–"


def _row(one: VramError) -> tuple[str, ...]:
    kind = f"{one.kind}, right once rewritten" if one.kind == "hard" and one.mended else one.kind
    words = (one.expected, one.read, one.again)
    place = (one.subject, one.pattern, f"0x{one.address}", str(one.offset))
    return (*place, *words, one.bits, kind, f"{one.t_s:.1f} s")
