"""The transfer stage as a table."""

from collections.abc import Iterator, Sequence

from rigproof.criteria.evidence.rounds import Rounds
from rigproof.records.recording import Recording
from rigproof.records.verdict import figure
from rigproof.stages.tables import StageTable
from rigproof.stages.transfer.criteria import UNIT
from rigproof.stages.transfer.settings import ALONE, MEANINGS, STAGE, TOGETHER


def transfer_tables(recording: Recording) -> Iterator[StageTable]:
    """One row per device: each direction alone, together, and the ratio; a dash without verified rounds."""
    rows = []
    for subject in recording.rounds.subjects():
        rounds = Rounds.of_subject(recording.rounds, subject)
        rounds = rounds.only(rounds.same("stage", STAGE) & rounds.same("phase", "measure")).verified
        if len(rounds):
            rows.append((subject, *(cell for one in MEANINGS for cell in _cells(rounds, one))))
    if rows:
        yield StageTable(
            section="Transfers",
            title="Transfers",
            columns=(
                "Device",
                *(
                    column
                    for one in MEANINGS
                    for column in (f"{one} alone, {UNIT}", f"all at once, {UNIT}", "ratio")
                ),
            ),
            rows=tuple(rows),
            note="Pinned memory, by the device's own clock; what arrived was verified each time. GPUs behind "
            "one PCIe switch share its lanes, so a ratio below 1 is no fault by itself.",
        )


def _cells(rounds: Rounds, direction: str) -> Sequence[str]:
    own = rounds.only(rounds.labelled("direction", direction))
    alone, together = (own.only(own.labelled("company", one)) for one in (ALONE, TOGETHER))
    ratio = f"{together.rate() / alone.rate():.2f}" if len(alone) and len(together) else "–"
    return (*(figure(one.rate()) if len(one) else "–" for one in (alone, together)), ratio)
