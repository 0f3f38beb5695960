"""Faults through the whole of `pytest -m hardware --hw-simulate-inline`: exit status and verdict.json."""

import pytest

from support.acceptance import Run, rigproof, run_pytest
from support.fault_matrix import FIRST, LEVEL, OTHER, PROFILE


def simulated(tmp_path, *options):
    reports = tmp_path / "reports"
    done = run_pytest(
        "-m",
        "hardware",
        "--hw-simulate-inline",
        f"--hwprofile={PROFILE}",
        f"--hw-level={LEVEL}",
        f"--hw-report-dir={reports}",
        *options,
    )
    return Run(done.returncode, done.stdout + done.stderr, reports)


ENDS = {
    f"gpu-lost@{OTHER}": (1, "inventory.gpus_present", OTHER, "fail"),
    "node-missing@n2": (1, "cluster.nodes_present", "n2", "fail"),
    "worker-killed": (1, "cluster.no_timeouts", "rig", "fail"),
    "nvml-hang": (1, "cluster.no_timeouts", "rig", "fail"),
    "early-heat": (0, "thermal.core_temperature", FIRST, "warn"),
    "sensor-missing": (6, "thermal.core_temperature", FIRST, "not_measured"),
}


@pytest.mark.parametrize("fault", ENDS)
def test_a_fault_decides_the_exit_status_and_is_named_in_verdict_json(tmp_path, fault):
    status, criterion, subject, outcome = ENDS[fault]
    run = simulated(tmp_path, f"--hw-inject={fault}")
    assert run.status == status, run.output
    assert run.outcome(criterion, subject) == outcome


def test_two_faults_at_once_are_both_named(tmp_path):
    run = simulated(
        tmp_path, f"--hw-inject=overheat@{FIRST}:to=82", f"--hw-inject=pcie-degraded@{OTHER}:after=20%"
    )
    assert run.status == 1
    failed = {key for key, one in run.criteria.items() if one["outcome"] == "fail"}
    slow = {(f"transfer.{way}", OTHER) for way in ("link", "h2d", "d2h", "both")}  # to the end of the run
    assert failed == {("thermal.core_temperature", FIRST), *slow}


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("overheet", "did you mean 'overheat'?"),
        ("overheat@n1/gpu9", "write one of n1/gpu0, n1/gpu1, n2/gpu0"),
        ("straggler:by=200%", "over 0% and under 100%"),
        ("power-limit-off", "nothing could notice"),
    ],
)
def test_what_cannot_be_injected_is_refused_before_any_load(tmp_path, fault, expected):
    run = simulated(tmp_path, f"--hw-inject={fault}")
    assert run.status == 4
    assert expected in run.output
    assert "Traceback" not in run.output
    assert not run.reports.exists() or not list(run.reports.glob("runs/*"))


def test_a_fault_without_a_simulated_rig_is_refused(tmp_path):
    done = run_pytest("-m", "hardware", f"--hw-report-dir={tmp_path}", "--hw-inject=overheat")
    assert done.returncode == 4
    assert "add --hw-simulate" in done.stdout + done.stderr


def test_lint_lists_the_faults_with_keys_defaults_and_what_each_trips():
    done = rigproof("lint", "--faults")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    at = lines.index("straggler[@GPU]:stage=…,after=…,for=…,by=10%")
    assert lines[at + 2].strip() == "fails: throughput.peer_outlier"
