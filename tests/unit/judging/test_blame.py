"""The table of docs/verdict.md that says whose doing what is: every row is tried on a healthy recording."""

import re
from pathlib import Path

import pytest

from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.expected_outcomes import shown_by
from rigproof.records.verdict import Decision, Outcome, decide
from support.fault_changes import (
    GPU,
    OTHER,
    WORKER,
    gpu_is_hidden,
    gpu_is_missing,
    hold_memory,
    node_is_missing,
)

PAGE = Path(__file__).resolve().parents[3] / "docs" / "verdict.md"
KINDS = {"node_missing", "node_lost", "gpu_missing", "gpu_taken", "gpu_skipped", "gpu_lost", "agent_died"}
KINDS |= {"worker_failed", "worker_died", "worker_hung", "timeout", "oom"}
WANTED = "CUDA out of memory. Tried to allocate 2.00 GiB."


def rows():
    """By the first cell: the second to the last."""
    section = PAGE.read_text(encoding="utf-8").partition("## Who is to blame")[2].partition("\n## ")[0]
    cells = [re.split(r"\s*\|\s*", line)[1:-1] for line in section.splitlines() if line.startswith("| `")]
    return {first: others for first, *others in cells}


ROWS = rows()
OF_CRITERIA = [row for row in ROWS if "." in row.partition(":")[0]]


def lost_for_others(kind, worker=WORKER):
    return lambda b: b.event(kind, GPU, "it is gone", 50, worker, disturbed="do something about it")


def without_cluster(bench):
    node_is_missing(bench)
    marked = [e for e in bench.recording.events if e.kind in ("node_missing", "gpu_missing")]
    for event in marked:
        event.data["disturbed"] = "join the machines"


def taken(bench):
    gpu_is_missing(bench)
    bench.recording.events = [one for one in bench.recording.events if one.kind != "gpu_missing"]
    bench.event("gpu_taken", GPU, "another job holds it", 3)


def skipped(bench):
    hold_memory(bench, 60_000)
    bench.event("gpu_skipped", GPU, "not loaded", 3)


def killed(bench):
    for t_s, number in ((3.0, 7), (50.5, 8)):
        bench.event("oom_kills", "pc1", "", t_s, killed=number)
    bench.lose(WORKER, "worker_died", "the process is gone", 50)


def starved(bench):
    bench.host("pc1", 10, 50, cpu_percent=100, own_percent=2)
    bench.sampled_late("pc1", 10, 50)
    for kind in ("worker_hung", "timeout", "worker_died"):
        bench.event(kind, GPU, "no answer", 50, WORKER, limit_s=30)
    for kind in ("agent_died", "node_lost"):
        bench.event(kind, "pc1", "no answer", 50, limit_s=30)


def crowded(bench):
    bench.stranger(0.5, used_mib=[3174])
    bench.event("oom", GPU, WANTED, 40)


def without_memory(bench):
    bench.stranger(0.5, used_mib=[3174])
    bench.event("oom", GPU, WANTED, 40, WORKER)
    bench.event("worker_failed", GPU, "its task failed: MemoryError: no room", 41, WORKER)


CASES = {
    "`node_missing`: the run was given no cluster": without_cluster,
    "`node_missing`: not in the cluster": node_is_missing,
    "`node_lost`": lambda b: b.event("node_lost", "pc2", "no heartbeat", 50),
    "`gpu_missing`: not listed by the driver": gpu_is_missing,
    "`gpu_missing`: hidden by CUDA_VISIBLE_DEVICES": gpu_is_hidden,
    "`gpu_taken`": taken,
    "`gpu_skipped`": skipped,
    "`gpu_lost`": lambda b: b.event("gpu_lost", OTHER, "it does not answer", 50),
    "`agent_died`: never started, or another version": lambda b: b.event(
        "agent_died", "pc1", "it did not start", 3, disturbed="install it"
    ),
    "`agent_died`: in the run, cause unknown": lambda b: b.event("agent_died", "pc1", "it is gone", 50),
    "`worker_failed`: never started, or cannot load torch": lost_for_others("worker_failed"),
    "`worker_failed`: a process that it had started was killed (SIGKILL)": lost_for_others("worker_failed"),
    "`worker_failed`: its task found no memory, since others held the card's": without_memory,
    "`worker_failed`: its device or its task failed": lambda b: b.lose(WORKER, "worker_failed", "CUDA", 50),
    "`worker_died`: by the kernel's OOM killer, or Ray's memory monitor": killed,
    "`worker_died`: cause unknown": lambda b: b.lose(WORKER, "worker_died", "signal 9", 50),
    "`worker_hung`: no process of it in time": lost_for_others("worker_hung"),
    "`worker_hung`: no answer, or no progress": lambda b: b.lose(WORKER, "worker_hung", "no answer", 50),
    "`timeout`": lambda b: b.event("timeout", "rig", "processes did not end", 73),
    "`worker_hung`, `timeout`, or an agent or node that did not answer, "
    "[while others had the CPU](#when-others-took-the-cpu)": starved,
    "`oom`: others held what was missing": crowded,
    "`oom`: the card was the run's own": lambda b: b.event("oom", GPU, WANTED, 40),
}


def test_every_loss_and_every_criterion_about_settings_is_a_row():
    assert set(CASES) == set(ROWS) - set(OF_CRITERIA)
    assert {re.findall(r"`(\w+)`", row)[0] for row in CASES} == KINDS
    named = {name for row in OF_CRITERIA for name in re.findall(r"`([\w.]+)`", row)}
    assert named <= set(CATALOGUE)
    assert named >= {name for name, one in CATALOGUE.items() if one.severity == "config" or one.surroundings}


@pytest.mark.parametrize("row", CASES)
def test_a_run_that_lost_something_ends_as_the_table_says(bench, row):
    CASES[row](bench)
    assert decide(bench.verdicts()) is Decision(ROWS[row][1])


@pytest.mark.parametrize("row", OF_CRITERIA)
def test_a_criterion_rejects_a_rig_only_where_the_table_says_so(row):
    outcome = Decision(ROWS[row][1])
    if ":" in row:  # of a criterion that has further rows of its own
        return
    for name in re.findall(r"`([\w.]+)`", row):
        fails = bool(shown_by(CATALOGUE[name], Outcome.FAIL))
        assert fails is (outcome is Decision.REJECTED), name
        assert CATALOGUE[name].surroundings is (outcome is not Decision.REJECTED), name


def test_the_cause_is_reported_once_where_a_node_is_missing(bench):
    node_is_missing(bench)
    verdicts = [v for v in bench.verdicts() if v.subject.startswith("pc2")]
    failed = {v.criterion for v in verdicts if v.outcome is Outcome.FAIL}
    assert failed == {"cluster.nodes_present", "inventory.gpus_present"}
    others = [v for v in verdicts if v.outcome is not Outcome.FAIL]
    assert {v.outcome for v in others} == {Outcome.NOT_MEASURED}
    assert {v.detail for v in others} == {"pc2 was not found", "pc2/gpu0 was not found"}


def test_a_worker_that_the_kernel_killed_for_lack_of_memory_leaves_the_rig_unproven(bench):
    for t_s, killed in ((3.0, 7), (50.5, 8)):
        bench.event("oom_kills", "pc1", "", t_s, killed=killed)
    bench.lose(WORKER, "worker_died", "the process is gone: signal 9", 50)
    verdicts = bench.verdicts()
    assert Outcome.FAIL not in {one.outcome for one in verdicts}
    assert decide(verdicts) is Decision.INCOMPLETE
    (losses,) = [one for one in verdicts if one.criterion == "cluster.no_timeouts"]
    assert "the kernel's OOM killer ended a process of" in losses.detail
    assert losses.remedy.startswith("free RAM of that node")
