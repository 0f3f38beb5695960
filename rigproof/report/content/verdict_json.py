"""verdict.json: the run's result for programs."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from rigproof.judging.length import Shortfall, in_place_of_level
from rigproof.records.disk.clean import plain
from rigproof.records.disk.durable import replacing
from rigproof.records.recording import Recording
from rigproof.records.verdict import EXIT_STATUS, INTERRUPTED, Decision, Verdict, counts
from rigproof.report.content.facts import RunFacts
from rigproof.report.content.remarks import remarks

VERDICT_SCHEMA_VERSION = 1
NO_CRITERIA = '\n "criteria": []'
AT_ONCE = 1000  # verdicts that are laid out together


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
    shortfalls: tuple[Shortfall, ...] = ()  # stages that were shorter than the level promises

    @property
    def simulated(self) -> bool:
        """Whether no real device was measured."""
        return self.recording.run.simulated

    @property
    def short(self) -> str:
        """What was done in place of the level; empty for a whole run."""
        return in_place_of_level(self.shortfalls, self.recording.run.level)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What else must be known about the run (see `remarks`)."""
        return remarks(self.recording)

    @property
    def exit_status(self) -> int:
        """What the run's command ends with."""
        if self.command_status is not None:
            return self.command_status
        return INTERRUPTED if self.interrupted else EXIT_STATUS[self.decision]


def write_verdict(path: Path, result: RunResult) -> None:
    """Write it in one step: a reader finds the whole file or none. Raises OSError."""
    # There may be hundreds of thousands of verdicts: json's `indent` takes long, and all at once much memory.
    text = json.dumps(verdict_json(result, criteria=[]), indent=1, ensure_ascii=False) + "\n"
    before, after = text.split(NO_CRITERIA, maxsplit=1)
    with replacing(path) as file:
        file.write(before.encode())
        file.write(b'\n "criteria": [' if result.verdicts else NO_CRITERIA.encode())
        for start in range(0, len(result.verdicts), AT_ONCE):
            file.write(b"," if start else b"")
            file.write(_laid_out(result.verdicts[start : start + AT_ONCE]))
        file.write((f"\n ]{after}" if result.verdicts else after).encode())


def _laid_out(verdicts: Sequence[Verdict]) -> bytes:
    """As they stand in the file, between its brackets."""
    content = {"criteria": [criterion_json(one) for one in verdicts]}
    try:
        told = to_json(content, indent=1, inf_nan_mode="null")
    except PydanticSerializationError:  # text that is no Unicode
        told = to_json(plain(content), indent=1)
    return told.removeprefix(b'{\n "criteria": [').removesuffix(b"\n ]\n}")


def verdict_json(result: RunResult, criteria: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """The content, all numbers finite: what is not is null. `criteria` take the place of the verdicts."""
    run = result.recording.run
    content = {
        "schema_version": VERDICT_SCHEMA_VERSION,
        "run_id": run.run_id,
        "verdict": result.decision.value,
        "simulated": run.simulated,
        "interrupted": result.interrupted,
        "exit_status": result.exit_status,
        "level": run.level,
        "shortened": [asdict(one) for one in result.shortfalls],
        "started_at": run.started_at,
        "elapsed_s": round(result.elapsed_s, 3),
        "rigproof_version": run.rigproof_version,
        "rig": result.facts.as_json(),
        "counts": counts(result.verdicts),
        "criteria": [criterion_json(one) for one in result.verdicts] if criteria is None else criteria,
    }
    if result.remarks:
        content["remarks"] = list(result.remarks)
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
    }
    if verdict.from_s is not None:
        content["from_s"] = verdict.from_s
    if verdict.length_s is not None:
        content["length_s"] = verdict.length_s
    return content
