"""A run's verdict.json, left in a folder of reports: `rigproof verdict` reads no more of a run."""

import json
import socket
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rigproof.host.proc import boot_id
from rigproof.records.verdict import EXIT_STATUS, Decision


def leave_verdict(reports: Path, decision: Decision = Decision.ACCEPTED, **changes: Any) -> Path:
    """Write verdict.json of a run of this machine that has just ended, after a minute; return its folder."""
    began = datetime.now(UTC) - timedelta(minutes=1)
    folder = reports / "runs" / f"{began:%Y%m%dT%H%M%SZ}-lab-{time.time_ns()}"
    folder.mkdir(parents=True)
    node = {"name": "lab", "hostname": socket.gethostname(), "boot_id": boot_id().value, "gpus": []}
    head = {
        "schema_version": 1,
        "verdict": decision,
        "exit_status": EXIT_STATUS[decision],
        "simulated": False,
        "level": "standard",
        "started_at": began.isoformat(),
        "elapsed_s": 60.0,
        "rig": {"name": "lab", "nodes": [node], "profile": {}},
        "counts": {"fail": 2 if decision is Decision.REJECTED else 0, "not_measured": 0},
        "problems": ["the driver hangs"] if decision is Decision.INCOMPLETE else [],
        **changes,
        "criteria": [],
    }
    (folder / "verdict.json").write_text(json.dumps(head, indent=1))
    return folder
