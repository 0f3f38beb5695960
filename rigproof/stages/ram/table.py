"""The RAM stage as a table."""

from collections.abc import Iterator

from rigproof.criteria.evidence.rounds import Rounds
from rigproof.records.recording import Recording
from rigproof.records.verdict import figure
from rigproof.stages.ram.criteria import UNIT
from rigproof.stages.ram.records import RamTest
from rigproof.stages.ram.settings import COPY, FILL, STAGE, VERIFY
from rigproof.stages.tables import StageTable

OPERATIONS = (COPY, FILL, VERIFY)


def ram_tables(recording: Recording) -> Iterator[StageTable]:
    """One row per host: its rates, and how much was tested; a dash for what was not measured."""
    rows = []
    for subject in recording.nodes:
        rounds = Rounds.of_subject(recording.rounds, subject)
        rounds = rounds.only(rounds.same("stage", STAGE) & rounds.same("phase", "measure")).verified
        tests = recording.of(RamTest).of(subject)
        if len(rounds) or tests:
            rows.append((subject, *(_rate(rounds, one) for one in OPERATIONS), *_tested(tests)))
    if rows:
        yield StageTable(
            section="Hosts",
            title="RAM",
            columns=(
                "Host",
                *(f"{one}, {UNIT}" for one in OPERATIONS),
                "tested, GiB",
                "of, GiB",
                "wrong words",
            ),
            rows=tuple(rows),
            note="Copies count bytes read and written, by a thread on each CPU; patterns are written (fill) "
            "and read back (verify).",
        )


def _rate(rounds: Rounds, operation: str) -> str:
    own = rounds.only(rounds.labelled("operation", operation))
    return figure(own.rate()) if len(own) else "–"


def _tested(tests: list[RamTest]) -> tuple[str, str, str]:
    if not tests:
        return "–", "–", "–"
    last = tests[-1]
    return f"{last.tested_mib / 1024:.1f}", f"{last.total_mib / 1024:.1f}", str(last.wrong)
