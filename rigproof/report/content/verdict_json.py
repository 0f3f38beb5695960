"""verdict.json: the run's result for programs."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from rigproof.records.disk.clean import plain
from rigproof.records.disk.durable import replacing
from rigproof.records.verdict import Verdict, counts
from rigproof.report.content.facts import left_out
from rigproof.report.content.result import RunResult

VERDICT_SCHEMA_VERSION = 1
FIELDS = (
    *("criterion", "subject", "outcome", "measured", "limit", "direction", "unit", "limit_source"),
    *("detail", "remedy"),
)
OPTIONAL = ("severity", "from_s", "length_s")
NO_CRITERIA = b'\n "criteria": []'
AT_ONCE = 1000  # verdicts formatted together; all of a large rig would take much memory


def write_verdict(path: Path, result: RunResult) -> None:
    """Write the file in one step: a reader finds the whole file or none. Raises OSError."""
    before, criteria, after = _formatted(_without_criteria(result)).partition(NO_CRITERIA)
    with replacing(path) as file:
        file.write(before + criteria.removesuffix(b"]"))
        for start in range(0, len(result.verdicts), AT_ONCE):
            file.write(b"," if start else b"")
            some = [criterion_json(verdict) for verdict in result.verdicts[start : start + AT_ONCE]]
            text = _formatted({"criteria": some})
            file.write(text.removeprefix(b'{\n "criteria": [').removesuffix(b"\n ]\n}"))
        file.write((b"\n ]" if result.verdicts else b"]") + after + b"\n")


def _formatted(content: dict[str, Any]) -> bytes:
    """The value as JSON; numbers that are not finite are null."""
    try:
        return to_json(content, indent=1, inf_nan_mode="null")
    except PydanticSerializationError:  # text that is not valid Unicode
        return to_json(plain(content), indent=1)


def _without_criteria(result: RunResult) -> dict[str, Any]:
    run = result.recording.run
    content: dict[str, Any] = {
        "schema_version": VERDICT_SCHEMA_VERSION,
        "run_id": run.run_id,
        "verdict": result.decision.value,
        **({"problems": list(result.problems)} if result.problems else {}),
        "simulated": run.simulated,
        **({"judged_again": True} if result.again else {}),
        "interrupted": result.interrupted,
        "exit_status": result.exit_status,
        "level": run.level,
        **({"tags": list(run.tags)} if run.tags else {}),
        "shortened": [asdict(shortfall) for shortfall in result.shortfalls],
        "not_tested_together": [team.text for team in result.not_together],
        "started_at": run.started_at,
        "elapsed_s": round(result.elapsed_s, 3),
        "rigproof_version": run.rigproof_version,
        "rig": result.facts.as_json(),
        "counts": counts(result.verdicts),
        "criteria": [],
    }
    if found := left_out(result.recording):
        content["not_tested"] = [asdict(one) for one in found]
    if result.remarks:
        content["remarks"] = list(result.remarks)
    if result.write_error:
        content["write_error"] = result.write_error
    return content


def criterion_json(verdict: Verdict) -> dict[str, Any]:
    """A verdict for JSON; what is OPTIONAL is only there if it has it."""
    optional = {name: getattr(verdict, name) for name in OPTIONAL}
    return {
        **{name: getattr(verdict, name) for name in FIELDS},
        **{name: value for name, value in optional.items() if value is not None},
    }
