"""How long each fault took from its injection to the verdict, and the table of it: docs/fault-times.md.

Every test of a real fault records its row; on a busy machine nothing more. With RIGPROOF_WRITE_FAULT_TIMES=1
it also asserts that the end came within SLACK_S of the fault's deadline, and the session's end writes the
table, from a run on one quiet machine.
"""

import json
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path

import ray

CHECKOUT = Path(__file__).resolve().parents[2]
ROWS = CHECKOUT / "reports" / "fault-times"  # not kept by git; one file a row, as tests run side by side
TABLE = CHECKOUT / "docs" / "fault-times.md"
SLACK_S = 15.0
WRITING = "RIGPROOF_WRITE_FAULT_TIMES"

HEAD = """# From fault to verdict

Real processes and hosts of a real acceptance run, with the CPU as the device, are hurt while it goes on;
`tests/faults` and `tests/cluster/hosts` do it.
*Deadline* is when, after the fault, it has to be noticed at the latest: the profile's limit for it,
or the planned end of the load that goes on elsewhere, whichever is later; 0 for what ends the run at once.
*Verdict* is how long after the fault the run had ended, reports written and everything taken down: within
{slack:.0f} s of the deadline.

Machine: {machine}.

| Fault | Where | Deadline, s | Verdict, s | After the deadline, s | Outcome |
|---|---|---:|---:|---:|---|
"""
FOOT = """
`RIGPROOF_WRITE_FAULT_TIMES=1 RIGPROOF_EVERY_SIGNAL=1 pytest tests/faults tests/cluster/hosts` writes this
file; the {slack:.0f} s are asserted then.

A rank that is killed inside a collective operation ends its group at once. One that is stopped, or whose
cable is out, ends it at the operation's own deadline: `stages.collective.patience` times what it took before,
between `least_s` and `first_s`, 3 and 20 s; one that is stopped after 10 s at the latest. Each rank then
sees, within 2 s, whether it still reaches the host where the group met. Kill, stop, a cable that is pulled
out and a host without power are shown for each of the five operations by `tests/unit/stages/collective` and
`tests/cluster/hosts/test_ranks.py`.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One fault of the table."""

    fault: str
    where: str
    deadline_s: float
    took_s: float
    outcome: str

    @property
    def late_s(self) -> float:
        """How long after the deadline the verdict came; 0 where it came before."""
        return max(0.0, self.took_s - self.deadline_s)


def writing() -> bool:
    """Whether this session writes the table, and asserts its times."""
    return os.environ.get(WRITING) == "1"


def record(fault: str, where: str, *, deadline_s: float, took_s: float, outcome: str) -> None:
    """Keep a row. Only where the table is written does a time that is too long fail the test."""
    row = Row(fault, where, deadline_s, took_s, outcome)
    ROWS.mkdir(parents=True, exist_ok=True)
    name = "".join(c if c.isalnum() else "-" for c in f"{fault}-{where}")
    (ROWS / f"{name}.json").write_text(json.dumps(asdict(row)))
    if writing():
        assert row.late_s <= SLACK_S, f"{fault} ({where}): {row.late_s:.1f} s after its deadline"


def forget() -> None:
    """Begin a table without the rows of earlier sessions."""
    for path in ROWS.glob("*.json"):
        path.unlink()


def rows() -> list[Row]:
    """What was recorded, by fault and place."""
    found = [Row(**json.loads(path.read_text())) for path in sorted(ROWS.glob("*.json"))]
    return sorted(found, key=lambda row: (row.fault, row.where))


def table(found: list[Row], machine: str) -> str:
    """The table's text."""
    lines = [
        f"| {row.fault} | {row.where} | {row.deadline_s:.0f} | {row.took_s:.1f} | {row.late_s:.1f} "
        f"| {row.outcome} |\n"
        for row in found
    ]
    return HEAD.format(slack=SLACK_S, machine=machine) + "".join(lines) + FOOT.format(slack=SLACK_S)


def machine() -> str:
    """What the times depend on. The load counts what the faults' own runs do, one after the other: 1 to 3."""
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[2]
    python = platform.python_version()
    return f"{cores} CPU cores, load {load:.1f} over 15 minutes, Python {python}, Ray {ray.__version__}"


def write_table() -> None:
    """Write docs/fault-times.md from the rows."""
    TABLE.write_text(table(rows(), machine()))
