"""The disk stage as a table."""

from collections.abc import Iterator
from statistics import median

from rigproof.criteria.evidence.rounds import Rounds
from rigproof.records.recording import Recording
from rigproof.records.verdict import figure
from rigproof.stages.disk.criteria import HOW, UNIT
from rigproof.stages.disk.records import DiskTest
from rigproof.stages.disk.settings import READ, STAGE, WRITE
from rigproof.stages.tables import StageTable

OPERATIONS = (WRITE, READ)


def disk_tables(recording: Recording) -> Iterator[StageTable]:
    """One row per host: where its file was, its rates and its room; a dash for what was not measured."""
    rows = []
    for subject in recording.nodes:
        tests = recording.of(DiskTest).of(subject)
        if tests:
            test = tests[-1]
            rounds = Rounds.of_subject(recording.rounds, subject)
            rounds = rounds.only(rounds.same("stage", STAGE) & rounds.same("phase", "measure")).verified
            where = (subject, test.path, f"{test.filesystem} ({test.device})", HOW.get(test.how, test.how))
            room = (f"{test.written_mib:.0f}", f"{test.free_gib:.1f}", f"{100 * test.used_share:.0f}")
            rows.append((*where, *(_rate(rounds, one) for one in OPERATIONS), *room))
    if rows:
        yield StageTable(
            section="Hosts",
            title="Checkpoint disk",
            columns=(
                *("Host", "folder", "file system", "how"),
                *(f"{one}, {UNIT}" for one in OPERATIONS),
                *("written, MiB", "free, GiB", "in use, %"),
            ),
            rows=tuple(rows),
            labels=4,
            note="Medians of chunks of 16 MiB, which were compared when they were read back; the file has no "
            "name, and was gone with the process that wrote it.",
        )


def _rate(rounds: Rounds, operation: str) -> str:
    own = rounds.only(rounds.labelled("operation", operation))
    return figure(median((own.work / own.seconds).tolist())) if len(own) else "–"
