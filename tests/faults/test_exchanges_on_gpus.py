"""Two real GPUs that exchange data, or four, and what is done to one of them: the verdict, and whom it names.

The others are judged by a later stage, too. With RIGPROOF_WRITE_FAULT_TIMES=1 the module writes
docs/exchange-faults.md, or of four docs/exchange-faults-four.md.
"""

import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from rigproof.host import processes
from rigproof.profiles.auto import rig_of
from rigproof.stages.registry import KINDS
from rigproof.telemetry.inventory import inventory
from support import fault_times
from support.two_devices import gpus_here, needs_gpus

pytestmark = needs_gpus(2)

PROFILE = """
name = "gpus"
[cpu]
enabled = false
[stages.collective]
length_s.quick = 8
[stages.ddp]
length_s.quick = 12
[stages.replay]
length_s.quick = 4
[[nodes]]
name = "here"
"""
GPU = """
[[nodes.gpus]]
sku = "{sku}"
"""
NUMBER, COUNT = (4, "four") if gpus_here() >= 4 else (2, "two")
SECOND = "here/gpu1"
TABLE = (
    Path(__file__).parents[2]
    / "docs"
    / ("exchange-faults.md" if NUMBER == 2 else f"exchange-faults-{COUNT}.md")
)
HEAD = """# {title} GPUs that exchange data, and what was done to one of them

Each row is a run on {count} real GPUs, `{test}`.
The fault is done by software, to GPU 1 unless all are named.
Each run judges some criteria only, so it ends INCOMPLETE, even without a fault, unless something fails.
A rank is named where the fault showed, which may be another one.
`NCCL_NVLS_ENABLE=0` is what these hosts set by themselves.

| Fault | Verdict | Criterion | What it says |
|---|---|---|---|
"""


@dataclass(frozen=True)
class Case:
    """A fault of a run of some criteria: how it is done, and what it has to lead to."""

    fault: str
    criterion: str
    verdict: str
    outcome: str
    names: str
    variables: tuple[tuple[str, str], ...] = ()
    sent: signal.Signals | None = None


ALL_REDUCE, TRAINING, REPLAY = "collective.all_reduce", "collective.training", "training.replay"
HURT = "RIGPROOF_HURT_RANK"
CASES = (
    Case("none", ALL_REDUCE, "INCOMPLETE", "pass", ""),  # a run of one criterion alone
    Case(
        *("P2P off for all", ALL_REDUCE, "REJECTED", "fail", "NCCL_P2P_DISABLE=1 is set"),
        (("NCCL_P2P_DISABLE", "1"),),
    ),
    Case(
        *("P2P off for one rank", ALL_REDUCE, "REJECTED", "fail", f"NCCL_P2P_DISABLE=1 on {SECOND} alone"),
        ((HURT, f"{SECOND}=p2p"),),
    ),
    Case(
        *("one element changed in one rank's answers", ALL_REDUCE, "REJECTED", "fail", SECOND),
        ((HURT, f"{SECOND}=element"),),
    ),
    Case(*("one bit of one gradient", TRAINING, "REJECTED", "fail", SECOND), ((HURT, f"{SECOND}=gradient"),)),
    Case(
        *("every CUDA call of one rank fails", ALL_REDUCE, "REJECTED", "fail", f"{SECOND} is to blame"),
        ((HURT, f"{SECOND}=bounds"),),
    ),
    Case("rank killed", ALL_REDUCE, "INCOMPLETE", "not_measured", SECOND, sent=signal.SIGKILL),
    Case("rank stopped", ALL_REDUCE, "INCOMPLETE", "not_measured", SECOND, sent=signal.SIGSTOP),
)


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    """The option that names a profile of this machine's first two GPUs, or four."""
    (device, *_) = rig_of(inventory(), KINDS).devices()
    path = tmp_path_factory.mktemp("rig") / "gpus.toml"
    path.write_text(PROFILE + NUMBER * GPU.format(sku=device.gpu.sku))
    return f"--hwprofile={path}"


@pytest.fixture(scope="module")
def rows():
    """The rows of the table, which are written at the module's end."""
    found: list[str] = []
    yield found
    if fault_times.writing():
        head = HEAD.format(title=COUNT.title(), count=COUNT, test=f"tests/faults/{Path(__file__).name}")
        TABLE.write_text(head + "".join(found))


def _figure(found):
    """What was measured, and what was asked for."""
    if found["measured"] is None:
        return ""
    limit = "" if found["limit"] is None else f", limit {found['limit']:.3g}"
    return f"{found['measured']:.3g} {found['unit']}{limit}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.fault)
def test_the_verdict_is_right_and_names_the_right_one(start_run, profile, case, rows):
    test = "test_training" if case.criterion == "collective.training" else "test_all_reduce"
    run = start_run(profile, "-k", f"{test} or test_replay", variables=dict(case.variables))
    if case.sent is not None:
        run.wait_for_stage("collective", inside_s=9.0)
        worker = run.worker(SECOND)
        (rank,) = (one for one in processes.descendants({worker.pid}) if one.pid != worker.pid)
        run.hurt(rank, case.sent)
    run.finish()
    verdict = run.verdict()
    (found,) = (one for one in verdict["criteria"] if one["criterion"] == case.criterion)
    said = "; ".join(filter(None, (_figure(found), found["detail"])))
    rows.append(f"| {case.fault} | {verdict['verdict']} | `{case.criterion}` {found['outcome']} | {said} |\n")
    assert (verdict["verdict"], found["outcome"]) == (case.verdict, case.outcome), run.text()
    assert case.names in said
    assert "\n" not in said  # an error of torch has five lines
    assert not [one for one in run.events("not_told") if one["message"].startswith("looking for")], said
    later = {one["subject"]: one["outcome"] for one in verdict["criteria"] if one["criterion"] == REPLAY}
    assert later == {f"here/gpu{place}": "pass" for place in range(NUMBER)}, run.text()
    run.check_nothing_is_left()
