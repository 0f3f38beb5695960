"""The conclusion of a run: every promised criterion's verdict, the decision, the exit status, the files."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from rigproof.host.garbage import without_collections
from rigproof.plugin.champions import keep_champions, may_become_champion
from rigproof.plugin.preparation import Prepared
from rigproof.plugin.run import Run
from rigproof.records.disk.reading import RECORDING_FILE
from rigproof.records.verdict import EXIT_STATUS, INTERRUPTED, Decision, Outcome, Verdict, decide, sentence
from rigproof.report.content.result import RunResult, result_of
from rigproof.report.files.files import write_reports
from rigproof.report.files.folders import keep_latest

Key = tuple[str, str]  # criterion, subject


@dataclass(frozen=True, slots=True)
class Judged:
    """The session's knowledge of its tests when it ends."""

    verdicts: Mapping[Key, Verdict]  # from the tests that judged
    interrupted: bool
    broken: bool  # an internal error of rigproof ended a stage or a test
    exit_status: int  # pytest's
    problems: tuple[str, ...] = ()  # not the rig's: what ended the session, files that could not be written


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The result of a run that has ended."""

    result: RunResult
    kept: tuple[str, ...] = ()  # a sentence for each new champion

    @property
    def exit_status(self) -> int:
        """The exit status of the session."""
        return self.result.exit_status


def conclude(prepared: Prepared, run: Run, folder: Path, judged: Judged, started_s: float) -> Conclusion:
    """Judge the whole recording once more, decide, and write the files of the run.

    `run` must be closed: the last records, such as an Xid or a process that did not end, also count.
    """
    # An aborted run is judged by what was recorded: a stage without an end can fail, but not pass.
    verdicts = list(run.verdicts().values())
    storage_error = run.writer.error
    problems = [*judged.problems, *([storage_error] if storage_error else []), *unexplained(verdicts, judged)]
    if not storage_error and not (folder / RECORDING_FILE).exists():
        problems.append(f"{folder}: somebody moved or removed what was recorded there; leave it alone")

    def write() -> tuple[RunResult, list[str]]:
        decision = decision_of(verdicts, judged, problems)
        # Lasting: pytest and Python, at their ends, would search the charts too.
        with without_collections(lasting=True):
            result = result_of(
                run.recording,
                verdicts,
                decision=decision,
                elapsed_s=time.monotonic() - started_s,
                interrupted=judged.interrupted,
                write_error=storage_error,
                exit_status=exit_status(decision, judged),
                problems=problems,
            )
            return result, write_reports(folder, result)

    result, found = write()
    latest = keep_latest(prepared.request.report_dir, folder)
    found += [latest] if latest else []
    kept: list[str] = []
    accepted = result.decision is Decision.ACCEPTED
    if accepted and not found and may_become_champion(prepared, run.recording, verdicts):
        kept, found = keep_champions(prepared, run.recording, verdicts)
    if found:
        problems += found
        result, _ = write()  # once more, with what could not be written
    return Conclusion(result, tuple(kept))


def unexplained(verdicts: Sequence[Verdict], judged: Judged) -> list[str]:
    """The failures of tests that are no longer there at the end, and not for want of a measurement.

    Later records may show that others caused a failure: it is then not measured. They make no card good.
    """
    failed = {key: one for key, one in judged.verdicts.items() if one.outcome is Outcome.FAIL}
    gone = (Outcome.PASS, Outcome.WARN, Outcome.NO_LIMIT, Outcome.NOT_APPLICABLE)
    return [
        f"{sentence(failed[one.criterion, one.subject])} So its test said, and the whole recording does not"
        for one in verdicts
        if one.outcome in gone and (one.criterion, one.subject) in failed
    ]


def decision_of(verdicts: Sequence[Verdict], judged: Judged, problems: Sequence[str]) -> Decision:
    """The decision on the rig. Only a session without a problem of its own ends with ACCEPTED."""
    decision = decide(verdicts, interrupted=judged.interrupted, problems=problems)
    if decision is Decision.ACCEPTED and (judged.broken or judged.exit_status != 0):
        return Decision.INCOMPLETE
    return decision


def exit_status(decision: Decision, judged: Judged) -> int:
    """The exit status of the session: the decision's; for INCOMPLETE, pytest's own if it says why."""
    if decision is not Decision.INCOMPLETE:
        return EXIT_STATUS[decision]
    if judged.interrupted or judged.exit_status == pytest.ExitCode.INTERRUPTED:
        return INTERRUPTED
    if judged.broken or judged.exit_status == pytest.ExitCode.INTERNAL_ERROR:
        return int(pytest.ExitCode.INTERNAL_ERROR)
    return EXIT_STATUS[decision]
