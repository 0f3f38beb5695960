"""The verdicts of earlier runs, as their verdict.json say. Imports neither torch, Ray, NVML nor pydantic."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from rigproof.records.limits import RECORDING_BYTES_MAX, VERDICT_BYTES_MAX, FileRefusedError, open_plain

SCHEMA_VERSION = 1
HEAD_BYTES_MAX = 64 * 2**20  # before the criteria: some 1.5 kB for each GPU and node
RUN = re.compile(r"\d{8}T\d{6}Z-")
RECORDING = "recording.jsonl"  # as `records.disk.reading` has it, which imports numpy
HEARD_BYTES = 2**24  # of a recording: its nodes come after its plan
CRITERIA = b'\n "criteria": ['


def verdicts(report_dir: Path) -> Iterator[tuple[Path, dict[str, Any] | None]]:
    """All runs, the newest first, with what their verdict.json says; None if it is not there, or unreadable.

    A run's folder begins with the time of its start; what is called otherwise is no run's. Raises OSError.
    """
    try:
        names = [one.name for one in (report_dir / "runs").iterdir() if RUN.match(one.name)]
    except FileNotFoundError:
        return
    for name in sorted(names, reverse=True):
        run = report_dir / "runs" / name
        yield run, _head(run / "verdict.json")


def was_on(run: Path, hostname: str) -> bool:
    """Whether the recording of a run without a verdict says that this host was in it, for real."""
    try:
        with open_plain(run / RECORDING, RECORDING_BYTES_MAX) as file:
            begun = file.read(HEARD_BYTES)
    except (FileRefusedError, OSError):
        return False
    return b'"simulated":true' not in begun and f'"hostname":{json.dumps(hostname)}'.encode() in begun


def _head(file: Path) -> dict[str, Any] | None:
    """What a verdict.json says before its criteria; None if it cannot be read, or is none of ours."""
    try:
        with open_plain(file, VERDICT_BYTES_MAX) as opened:
            text, end = bytearray(), -1
            while end < 0 and len(text) < HEAD_BYTES_MAX and (part := opened.read(2**20)):
                text += part
                end = text.find(CRITERIA, max(0, len(text) - len(part) - len(CRITERIA)))
        head: dict[str, Any] = json.loads(text[: max(0, end)].rstrip().removesuffix(b",") + b"}")
        ended_at(head)
        return head if _is_ours(head) else None
    except (FileRefusedError, OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def _is_ours(head: Mapping[str, Any]) -> bool:
    """Whether what others read of it is of the right kind."""
    rig, nodes = head["rig"], head["rig"]["nodes"]
    gpus = (gpu for one in nodes for gpu in one["gpus"])
    tables = (rig.get("profile", {}), head.get("counts", {}), *nodes, *gpus)
    arrays = (nodes, head.get("problems", []))
    of_kind = all(isinstance(one, dict) for one in tables) and all(isinstance(one, list) for one in arrays)
    return of_kind and bool(head["schema_version"] == SCHEMA_VERSION)


def ended_at(head: Mapping[str, Any]) -> datetime:
    """When the run ended."""
    ended = datetime.fromisoformat(head["started_at"]) + timedelta(seconds=float(head["elapsed_s"]))
    return ended.astimezone()
