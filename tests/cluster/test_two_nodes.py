"""A cluster of two nodes that was there before us: joined, loaded, hurt, and left as it was.

One cluster is joined once for all these tests; each runs a stage of its own on it.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rigproof.cluster.driver.rig_cluster import HostLoad, RigCluster
from rigproof.host.processes import process_id
from rigproof.profiles.planning.plan import StagePlan
from rigproof.stages.gemm.specs import GemmSpec

NAMES = "import ray; ray.init(address='{address}', log_to_driver=False); "
NAMES += "print([a['name'] for a in ray.util.list_named_actors(all_namespaces=True)]); "
NAMES += "print(ray.util.placement_group_table())"


@pytest.fixture(scope="module")
def joined(two_nodes: Any, with_token: None, two_node_rig: Any) -> Iterator[RigCluster]:
    with two_node_rig.cluster(two_nodes.address) as cluster:
        yield cluster


def once(action: Callable[[], object], when: Callable[[], bool]) -> Callable[[], None]:
    """A tick that does `action` at the first tick at which `when` holds."""
    done: list[object] = []

    def tick() -> None:
        if not done and when():
            done.append(action())

    return tick


def test_both_nodes_work_and_are_sampled(joined: RigCluster, two_node_rig: Any) -> None:
    rig = two_node_rig
    plan, specs = rig.sustained("calm", 3)
    load = {"pc1": HostLoad(primary_threads=1, secondary_threads=0, target_percent=50)}
    stage = joined.run_stage(plan, specs, host_load=load)
    recording = rig.recording
    assert set(recording.nodes) == {"pc1", "pc2"}
    assert set(recording.gpus) == {"pc1/cpu0", "pc2/cpu0"}
    assert sorted(worker.subject for worker in recording.workers) == ["pc1/cpu0", "pc2/cpu0"]
    assert len({worker.pid for worker in recording.workers}) == 2
    assert stage.status == "finished"
    assert recording.stages["calm"] == stage
    assert stage.loaded_from_s is not None
    assert stage.loaded_to_s is not None
    assert stage.start_s < stage.loaded_from_s < stage.loaded_to_s < stage.end_s
    for subject in ("pc1/cpu0", "pc2/cpu0"):
        assert rig.rounds("calm", subject) > 0
    assert {sample.subject for sample in recording.host_samples} == {"pc1", "pc2"}
    assert rig.events("host_load")
    assert not rig.events("worker_died", "worker_hung", "agent_died", "timeout", "node_missing")


def test_nodes_of_one_host_agree_on_the_time(joined: RigCluster, two_node_rig: Any) -> None:
    nodes = two_node_rig.recording.nodes.values()
    for node in nodes:  # both share this host's clock, so each offset is the run's own beginning
        assert node.clock_offset_s == pytest.approx(-two_node_rig.begun_s, abs=0.5 + node.clock_error_s)


def test_a_killed_worker_is_replaced_and_the_other_finishes(joined: RigCluster, two_node_rig: Any) -> None:
    rig = two_node_rig
    victim = rig.pid_of("pc1/cpu0")
    plan, specs = rig.sustained("kill", 4)
    kill = once(lambda: os.kill(victim, signal.SIGKILL), lambda: rig.rounds("kill", "pc1/cpu0") > 0)
    stage = joined.run_stage(plan, specs, on_tick=kill)
    assert stage.status == "partial"
    (died,) = rig.events("worker_died", stage="kill")
    assert (died.subject, died.data["pid"]) == ("pc1/cpu0", victim)
    assert rig.rounds("kill", "pc2/cpu0") > 0

    plan, specs = rig.sustained("after", 2)
    stage = joined.run_stage(plan, specs)
    assert stage.status == "finished"
    assert rig.rounds("after", "pc1/cpu0") > 0
    assert rig.pid_of("pc1/cpu0") != victim
    assert rig.recording.workers[-1].generation == 1
    assert [event.subject for event in rig.events("worker_replaced")] == ["pc1/cpu0"]


def test_a_frozen_worker_is_killed_and_replaced(joined: RigCluster, two_node_rig: Any) -> None:
    rig = two_node_rig
    victim = rig.pid_of("pc2/cpu0")
    plan, specs = rig.sustained("freeze", 3)
    freeze = once(lambda: os.kill(victim, signal.SIGSTOP), lambda: rig.rounds("freeze", "pc2/cpu0") > 0)
    stage = joined.run_stage(plan, specs, on_tick=freeze)
    assert stage.status == "partial"
    (hung,) = rig.events("worker_hung", stage="freeze")
    assert (hung.subject, hung.data["pid"]) == ("pc2/cpu0", victim)
    rig.wait_for(lambda: process_id(victim) is None, "the frozen worker's end")
    plan, specs = rig.sustained("thawed", 2)
    assert joined.run_stage(plan, specs).status == "finished"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_an_agent_that_goes_is_started_again_and_the_workers_go_on(
    joined: RigCluster, two_node_rig: Any, how: signal.Signals
) -> None:
    rig, name = two_node_rig, f"agent-{how.name}"
    node = "pc1" if how is signal.SIGKILL else "pc2"  # each agent is started again once
    victim = rig.recording.nodes[node].agent_pid
    plan, specs = rig.sustained(name, 3 if how is signal.SIGKILL else 15)
    hurt = once(lambda: os.kill(victim, how), lambda: rig.rounds(name, f"{node}/cpu0") > 0)
    stage = joined.run_stage(plan, specs, on_tick=hurt)
    assert stage.status == "finished"
    (died,) = [event for event in rig.events("agent_died") if event.subject == node]
    plan, specs = rig.sustained(f"{name}-after", 2)
    assert joined.run_stage(plan, specs).status == "finished"
    assert rig.recording.nodes[node].agent_pid != victim
    later = [sample.t_s for sample in rig.recording.host_samples if sample.subject == node]
    assert max(later) > died.t_s
    assert process_id(victim) is None


def test_a_task_that_raises_fails_its_worker_alone(joined: RigCluster, two_node_rig: Any) -> None:
    rig = two_node_rig
    plan, specs = rig.sustained("raise", 2)
    specs["pc1/cpu0#0"] = GemmSpec("raise", 256, ("no-such-precision",), 1, 1, 0.05)
    stage = joined.run_stage(plan, specs)
    assert stage.status == "partial"
    (failed,) = rig.events("worker_failed", stage="raise")
    assert failed.subject == "pc1/cpu0"
    assert "no-such-precision" in failed.data["error"]


def test_a_stage_past_its_deadline_is_ended(joined: RigCluster, two_node_rig: Any) -> None:
    rig = two_node_rig
    _, specs = rig.sustained("late", 600)
    del specs["pc2/cpu0#0"]
    plan = StagePlan("late", expected_s=1 - 30 + 2, settle_s=0.1, measure_s=1, round_s=0.05)  # task_s is 30
    stage = joined.run_stage(plan, specs)
    assert stage.status == "failed"
    assert [event.subject for event in rig.events("timeout", stage="late")] == ["pc1/cpu0"]
    assert rig.events("worker_hung", stage="late")


def test_a_stage_can_be_stopped(joined: RigCluster, two_node_rig: Any) -> None:
    rig = two_node_rig
    plan, specs = rig.sustained("stop", 600)
    stage = joined.run_stage(plan, specs, should_stop=lambda: rig.rounds("stop", "pc2/cpu0") > 0)
    assert stage.status == "interrupted"
    assert not rig.events("worker_hung", "timeout", stage="stop")


def test_ctrl_c_ends_a_stage_as_interrupted(joined: RigCluster, two_node_rig: Any) -> None:
    rig = two_node_rig
    plan, specs = rig.sustained("ctrl-c", 600)

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        joined.run_stage(plan, specs, on_tick=once(interrupt, lambda: rig.rounds("ctrl-c", "pc2/cpu0") > 0))
    assert rig.recording.stages["ctrl-c"].status == "interrupted"


def test_the_cluster_is_left_as_it_was(joined: RigCluster, two_nodes: Any, two_node_rig: Any) -> None:
    """Runs last: it closes what the others used."""
    joined.close()
    assert all(process.poll() is None for process in two_nodes.processes)
    for worker in two_node_rig.recording.workers:
        assert process_id(worker.pid) is None
    for node in two_node_rig.recording.nodes.values():
        assert process_id(node.agent_pid) is None
    environment = {**os.environ, **two_nodes.client_environment}
    seen = subprocess.run(
        [sys.executable, "-c", NAMES.format(address=two_nodes.address)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    assert seen.stdout.splitlines() == ["[]", "{}"]
