"""Faults through the whole of `pytest -m hardware --hw-simulate-inline`: exit status and verdict.json."""

import re

import pytest

from support.acceptance import Run, rigproof, run_pytest
from support.fault_matrix import FIRST, LEVEL, OTHER, PROFILE

# Of the matrix's rig, in which no fault below has to show.
LEFT_OUT = ("lan", "collective", "ddp", "sharing", "replay", "shapes", "bandwidth", "ram", "disk")


def simulated(tmp_path, *options):
    reports = tmp_path / "reports"
    profile = tmp_path / "fewer-stages.toml"
    length = rf"^(({'|'.join(LEFT_OUT)})\.length_s\.{LEVEL}) = [\d.]+"
    text, found = re.subn(length, r"\1 = 0", PROFILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert found == len(LEFT_OUT)
    profile.write_text(text, encoding="utf-8")
    done = run_pytest(
        "-m",
        "hardware",
        "--hw-simulate-inline",
        f"--hwprofile={profile}",
        f"--hw-level={LEVEL}",
        f"--hw-report-dir={reports}",
        *options,
    )
    return Run(done.returncode, done.stdout + done.stderr, reports)


ENDS = {
    "node-missing@n2": (1, "cluster.nodes_present", "n2", "fail"),
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


def test_lint_lists_the_faults_with_keys_defaults_and_what_each_trips():
    done = rigproof("lint", "--faults")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    at = lines.index("straggler[@GPU]:stage=…,after=…,for=…,by=10%")
    assert lines[at + 2].strip() == "fails: throughput.peer_outlier"
