"""Processes of a real run are killed and frozen: the right criterion fails, the others are judged."""

import signal

import pytest

from support.real_runs import EVERY_SIGNAL
from support.small_rigs import small_rig

STALL_S = 6
LOAD_S = 9  # what is frozen is noticed while the others work


def test_three_processes_hurt_at_once_are_all_named_and_the_third_device_is_judged(start_run, tmp_path):
    # The third one works as long as the others are waited for, so that the run uses some of a busy machine's
    # CPU: without the agent's samples that alone tells a hang from a lack of CPU time.
    run = start_run(small_rig(tmp_path, devices=3, sustained_s=LOAD_S, stall_s=STALL_S))
    run.wait_for_stage("sustained")
    agent = run.agent()
    run.hurt(run.worker("here/cpu0"), signal.SIGKILL)
    run.hurt(run.worker("here/cpu1"), signal.SIGSTOP)
    run.hurt(agent, signal.SIGKILL)

    assert run.finish() == 1, run.text()

    outcomes = run.outcomes()
    assert outcomes["cluster.no_timeouts", "rig"] == "fail"
    assert outcomes["activity.gpu_active", "here/cpu0"] == "fail"
    assert outcomes["activity.gpu_active", "here/cpu1"] == "fail"
    assert outcomes["activity.gpu_active", "here/cpu2"] == "pass"
    assert outcomes["throughput.sustained", "here/cpu2"] == "no_limit"
    assert {event["subject"] for event in run.events("worker_died")} == {"here/cpu0"}
    assert {event["subject"] for event in run.events("worker_hung")} == {"here/cpu1"}
    assert {event["subject"] for event in run.events("agent_died")} == {"here"}
    assert "here/cpu0 activity.gpu_active" in run.text()
    assert "here/cpu1 activity.gpu_active" in run.text()
    run.check_recording()
    run.check_nothing_is_left()
    for fault, outcome in (
        ("worker, SIGKILL", "`activity.gpu_active` of its device"),
        ("worker, SIGSTOP", "`activity.gpu_active` of its device"),
        ("agent, SIGKILL", "`cluster.no_timeouts`"),
    ):
        run.record(fault, "sustained stage", deadline_s=STALL_S, outcome=f"REJECTED: {outcome}")


GONE = {
    "gcs_server": (("cluster.no_timeouts", "rig"), (signal.SIGSTOP, signal.SIGKILL)),
    "raylet": (("cluster.nodes_present", "here"), (signal.SIGKILL, signal.SIGSTOP)),
}
# The agent is killed above, and frozen in tests/cluster/test_two_nodes.py.
GONE |= {"agent": (("cluster.no_timeouts", "rig"), (signal.SIGSTOP,))} if EVERY_SIGNAL else {}


@pytest.mark.parametrize(
    ("program", "number"),
    [
        pytest.param(program, number, id=f"{program}-{number.name}")
        for program, (_, numbers) in GONE.items()
        for number in (numbers if EVERY_SIGNAL else numbers[:1])
    ],
)
def test_a_process_of_ray_that_goes_or_freezes_fails_the_run(start_run, tmp_path, program, number):
    run = start_run(small_rig(tmp_path, sustained_s=LOAD_S, stall_s=STALL_S))
    run.wait_for_stage("sustained", inside_s=0.3)
    run.hurt(run.agent() if program == "agent" else run.of_ray(program), number)

    assert run.finish() == 1, run.text()

    criterion, subject = failed = GONE[program][0]
    assert run.outcomes()[failed] == "fail"
    assert f"{subject} {criterion}" in run.text()
    if program == "agent":  # another one takes its place
        assert f"here: the node agent is gone: no answer for {STALL_S} s" in run.text()
        assert run.outcomes()["activity.gpu_active", "here/cpu0"] == "pass"
    run.check_recording()
    run.check_nothing_is_left()
    run.record(
        f"{program}, {number.name}", "sustained stage", deadline_s=LOAD_S, outcome=f"REJECTED: `{criterion}`"
    )
