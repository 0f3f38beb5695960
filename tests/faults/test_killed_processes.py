"""Real processes of a real run are killed: the right criterion fails, the others are judged, the run ends."""

import os
import signal
from pathlib import Path

import pytest


def pid_of_worker(run, subject):
    return next(record["pid"] for record in run.records("worker") if record["subject"] == subject)


def test_killed_worker_fails_its_device_and_the_other_is_judged(start_run, two_devices):
    profile, (first, second) = two_devices
    run = start_run(profile, "--level=quick")
    run.wait_for(lambda run: run.in_stage("sustained"))
    os.kill(pid_of_worker(run, first), signal.SIGKILL)

    assert run.finish() == 1, run.text()

    outcomes = run.outcomes()
    assert outcomes["cluster.no_timeouts", "rig"] == "fail"
    assert outcomes["activity.gpu_active", first] == "fail"
    assert outcomes["activity.gpu_active", second] == "pass"
    assert outcomes["throughput.sustained", second] in ("no_limit", "pass")
    assert any(event["kind"] == "worker_died" and event["subject"] == first for event in run.records("event"))
    assert f"{first} activity.gpu_active" in run.text()


def test_killed_agent_is_reported_and_workers_are_judged(start_run, two_devices):
    profile, (first, second) = two_devices
    run = start_run(profile, "--level=quick")
    run.wait_for(lambda run: run.in_stage("sustained"))
    os.kill(run.records("node")[0]["agent_pid"], signal.SIGKILL)

    status = run.finish()

    outcomes = run.outcomes()
    assert status == 1, run.text()
    assert outcomes["cluster.no_timeouts", "rig"] == "fail"
    assert "here: the node agent is gone" in run.text()
    for subject in (first, second):
        assert outcomes["throughput.sustained", subject] in ("no_limit", "pass")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_interrupted_run_reports_incomplete_and_leaves_no_process(start_run, two_devices, number):
    profile, (first, _) = two_devices
    run = start_run(profile, "--level=quick")
    run.wait_for(lambda run: run.in_stage("sustained"))
    worker, agent = pid_of_worker(run, first), run.records("node")[0]["agent_pid"]
    run.process.send_signal(number)

    assert run.finish() == 2, run.text()
    assert run.verdict()["verdict"] == "INCOMPLETE"
    outcomes = run.outcomes()
    assert outcomes["host.responsiveness", "here"] == "not_measured"
    assert outcomes["cluster.nodes_present", "here"] == "pass"
    assert outcomes["throughput.gemm_fp32", first] in ("no_limit", "pass")
    for pid in (worker, agent):
        assert not is_alive(pid)


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
