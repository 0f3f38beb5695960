"""Judge a recorded run again: the same criteria on the same data, perhaps with other limits."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

from rigproof.criteria.judge import judge_all
from rigproof.profiles.load import load_rig
from rigproof.records.recording import Recording
from rigproof.records.store import RecordingError, read_recording
from rigproof.records.verdict import Decision, decide
from rigproof.report.files import write_reports
from rigproof.report.terminal import print_summary

EXIT_STATUS = {Decision.ACCEPTED: 0, Decision.REJECTED: 1, Decision.INCOMPLETE: 6}


def _interrupted(recording: Recording) -> bool:
    return any(event.kind == "interrupted" for event in recording.events)


def rejudge(run: Path, hwprofile: str | None, echo: Callable[[str], None]) -> int:
    """Print the verdicts of `run` by its own or another profile; returns the exit status. Writes nothing."""
    recording = read_recording(run)
    if hwprofile is not None:
        recording.run = dataclasses.replace(recording.run, rig=load_rig(hwprofile).dump())
    verdicts = judge_all(recording)
    decision = decide(verdicts, interrupted=_interrupted(recording))
    print_summary(decision, verdicts, run, problems=[], write_line=echo)
    return EXIT_STATUS[decision]


def rewrite(run: Path, echo: Callable[[str], None]) -> None:
    """Write the files of `run` again from what it recorded."""
    recording = read_recording(run)
    verdicts = judge_all(recording)
    interrupted = _interrupted(recording)
    problems = write_reports(
        run,
        recording,
        verdicts,
        decision=decide(verdicts, interrupted=interrupted),
        elapsed_s=_elapsed_s(run, recording),
        interrupted=interrupted,
    )
    for problem in problems:
        echo(problem)
    echo(f"written: {run}")


def _elapsed_s(run: Path, recording: Recording) -> float:
    """What the first report said; else up to the last thing recorded."""
    try:
        return float(json.loads((run / "verdict.json").read_text())["elapsed_s"])
    except (OSError, ValueError, KeyError, TypeError):
        last_s = recording.last_s()
        if last_s is None:
            raise RecordingError(f"{run}: nothing was recorded; there is nothing to report") from None
        return last_s
