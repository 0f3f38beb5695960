"""verdict.json: the run's result for programs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rigproof.records.clean import plain
from rigproof.records.durable import replacing
from rigproof.records.recording import Recording
from rigproof.records.verdict import EXIT_STATUS, INTERRUPTED, Decision, Verdict, counts
from rigproof.report.facts import RunFacts

VERDICT_SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class RunResult:
    """What all files of a run are written from."""

    recording: Recording
    facts: RunFacts
    verdicts: Sequence[Verdict]
    decision: Decision
    elapsed_s: float
    interrupted: bool = False
    write_error: str | None = None
    command_status: int | None = None  # what the command ends with, where it is known

    @property
    def simulated(self) -> bool:
        """Whether no real device was measured."""
        return self.recording.run.simulated

    @property
    def exit_status(self) -> int:
        """What the run's command ends with."""
        if self.command_status is not None:
            return self.command_status
        return INTERRUPTED if self.interrupted else EXIT_STATUS[self.decision]


def write_verdict(path: Path, result: RunResult) -> None:
    """Write it in one step: a reader finds the whole file or none. Raises OSError."""
    with replacing(path) as file:
        file.write((json.dumps(verdict_json(result), indent=1, ensure_ascii=False) + "\n").encode())


def verdict_json(result: RunResult) -> dict[str, Any]:
    """The content, all numbers finite: what is not is null."""
    run = result.recording.run
    content = {
        "schema_version": VERDICT_SCHEMA_VERSION,
        "run_id": run.run_id,
        "verdict": result.decision.value,
        "simulated": run.simulated,
        "interrupted": result.interrupted,
        "exit_status": result.exit_status,
        "level": run.level,
        "started_at": run.started_at,
        "elapsed_s": round(result.elapsed_s, 3),
        "rigproof_version": run.rigproof_version,
        "rig": result.facts.as_json(),
        "counts": counts(result.verdicts),
        "criteria": [criterion_json(verdict) for verdict in result.verdicts],
    }
    if result.write_error:
        content["write_error"] = result.write_error
    json_content: dict[str, Any] = plain(content)
    return json_content


def criterion_json(verdict: Verdict) -> dict[str, Any]:
    """One verdict. `from_s` and `length_s` are there only where a fault has a moment."""
    content: dict[str, Any] = {
        "criterion": verdict.criterion,
        "subject": verdict.subject,
        "outcome": verdict.outcome.value,
        "measured": verdict.measured,
        "limit": verdict.limit,
        "unit": verdict.unit,
        "limit_source": verdict.limit_source,
        "detail": verdict.detail,
        "remedy": verdict.remedy,
        "required": verdict.required,
    }
    if verdict.from_s is not None:
        content["from_s"] = verdict.from_s
    if verdict.length_s is not None:
        content["length_s"] = verdict.length_s
    return content
