"""A cluster of two nodes that was there before us: watched, joined, loaded, hurt, and left as it was.

One cluster serves all these tests. From some test on it stays joined, and each test runs a stage of its own.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rigproof.cluster.driver.rig_cluster import ClusterUnreachable, HostLoad, RigCluster
from rigproof.host import processes
from rigproof.host.processes import process_id
from rigproof.profiles.kinds.stages import StagePlan
from rigproof.stages.gemm.stage import GemmSpec
from support.waiting import wait_for

NAMES = "import ray; ray.init(address='{address}', log_to_driver=False); "
NAMES += "print([a['name'] for a in ray.util.list_named_actors(all_namespaces=True)]); "
NAMES += "print(ray.util.placement_group_table())"
# A shell may have started the tests with SIGINT ignored.
MAIN = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from rigproof.cli.main import main
main()
"""
PROFILE = """
name = "three"
[[nodes]]
name = "pc1"
[[nodes.gpus]]
sku = "unknown"
device = "cpu"
[[nodes]]
name = "pc2"
[[nodes.gpus]]
sku = "rtx-3070"
[[nodes]]
name = "pc3"
"""


# Who may join


@pytest.mark.parametrize(
    ("mode", "token", "said"),
    [
        pytest.param("token", "0" * 64, "RAY_AUTH_TOKEN", id="wrong"),
        pytest.param("disabled", "", "RAY_AUTH_TOKEN", id="disabled"),
        # Ray's own C++ code would abort.
        pytest.param("token", "", r"there is none here.*RAY_AUTH_TOKEN", id="none"),
    ],
)
def test_who_has_not_the_clusters_token_is_refused_with_the_way_out(
    two_nodes: Any,
    rig_of: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    mode: str,
    token: str,
    said: str,
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    if token:
        monkeypatch.setenv("RAY_AUTH_TOKEN", token)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ClusterUnreachable, match=said), rig_of("pc1").cluster(two_nodes.address):
        pytest.fail("came up without the cluster's token")


def test_where_nobody_listens_nothing_is_started(rig_of: Callable[..., Any]) -> None:
    rig = rig_of("pc1")
    with pytest.raises(ClusterUnreachable, match="no answer from there"), rig.cluster("127.0.0.1:9"):
        pytest.fail("joined nothing")
    assert rig.recording.events == []


@pytest.fixture(scope="module")
def token_file(two_nodes: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The cluster's token in its user's home alone, for its owner."""
    home = tmp_path_factory.mktemp("home")
    path = home / ".ray" / "auth_token"
    path.parent.mkdir()
    path.write_text(two_nodes.environment["RAY_AUTH_TOKEN"])
    path.chmod(0o600)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        for key in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
            patch.delenv(key, raising=False)
        yield path


def test_a_token_file_that_all_may_read_is_refused(
    two_nodes: Any, rig_of: Callable[..., Any], token_file: Path
) -> None:
    """One for its owner alone lets in all the tests below."""
    token_file.chmod(0o644)
    with (
        pytest.raises(ClusterUnreachable, match="mode 0644"),
        rig_of("pc1").cluster(two_nodes.address),
    ):
        pytest.fail("took a token that everybody knows")
    token_file.chmod(0o600)


# Watched by the monitor


def agents(cluster: Any) -> list[str]:
    """Command lines of the node agents that Ray runs in this cluster."""
    family = processes.descendants({process.pid for process in cluster.processes})
    lines = []
    for process in family:
        try:
            lines.append(Path(f"/proc/{process.pid}/cmdline").read_text())
        except OSError:
            continue
    return [line for line in lines if "NodeAgent" in line]


def test_nodes_are_shown_next_to_their_limits_and_the_cluster_is_left_as_it_was(
    two_nodes: Any, two_node_rig: Any, tmp_path: Path
) -> None:
    """`rigproof monitor` loads none of them."""
    profile = tmp_path / "three.toml"
    profile.write_text(PROFILE)
    options = [f"--hwprofile={profile}", f"--ray-address={two_nodes.address}", "--json", "--interval=0.3"]
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, "monitor", *options],
        cwd=tmp_path,
        env={**os.environ, **two_nodes.client_environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None

        def frame() -> dict[str, Any] | None:
            """The next frame in which both nodes have been read."""
            found = json.loads(process.stdout.readline())
            here = {node["name"] for node in found["nodes"] if node["presence"] == "here"}
            return found if here == {"pc1", "pc2"} else None

        found = wait_for(frame, "both nodes")
        assert len(agents(two_nodes)) == 2
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=240)
    finally:
        process.kill()
    assert (process.returncode, complaints) == (0, "")
    wait_for(lambda: not agents(two_nodes), "the agents' end")
    assert all(one.poll() is None for one in two_nodes.processes)

    assert (found["rig"], found["source"]) == ("three", f"cluster {two_nodes.address}")
    pc1, pc2, pc3 = found["nodes"]
    for node in (pc1, pc2):
        assert (node["cpus"] or 0) > 0
        assert node["cpu_percent"] is not None
        assert node["limits"]["cpu_warn_percent"] == 90
        assert node["gpus_found"] == 0
    assert pc1["gpus"] == []
    missing = {sign["subject"]: sign["text"] for sign in found["warnings"] if sign["kind"] == "missing"}
    assert missing.keys() == {"pc2/gpu0", "pc3"}
    assert "type there: `env RAY_AUTH_MODE=token ray start --address=" in missing["pc3"]
    assert (pc3["presence"], pc3["cpu_percent"]) == ("missing", None)


# Joined


@pytest.fixture(scope="module")
def joined(two_nodes: Any, token_file: Path, two_node_rig: Any) -> Iterator[RigCluster]:
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
    bad = ("worker_died", "worker_hung", "agent_died", "timeout", "node_missing", "open_cluster")
    assert not rig.events(*bad)


def test_nodes_of_one_host_agree_on_the_time(joined: RigCluster, two_node_rig: Any) -> None:
    nodes = two_node_rig.recording.nodes.values()
    for node in nodes:  # both share this host's clock, so each offset is the run's own beginning
        assert node.clock_offset_s == pytest.approx(-two_node_rig.begun_s, abs=0.5 + node.clock_error_s)


def hurt_both(
    joined: RigCluster, rig: Any, name: str, load_s: float, hurts: dict[str, tuple[int, signal.Signals]]
) -> Any:
    """A stage in which these processes get these signals, each once its node's worker works."""
    plan, specs = rig.sustained(name, load_s)
    ticks = [
        once(partial(os.kill, pid, number), partial(rig.rounds, name, f"{node}/cpu0"))
        for node, (pid, number) in hurts.items()
    ]

    def tick() -> None:
        for each in ticks:
            each()

    return joined.run_stage(plan, specs, on_tick=tick)


def all_work_again(joined: RigCluster, rig: Any, name: str) -> None:
    plan, specs = rig.sustained(name, 1)
    assert joined.run_stage(plan, specs).status == "finished"
    for subject in ("pc1/cpu0", "pc2/cpu0"):
        assert rig.rounds(name, subject) > 0


def agent_is_another_one(joined: RigCluster, rig: Any, node: str, victim: int) -> None:
    """The other one has sampled; it may take some stages until it is up."""

    def sampled() -> bool:
        all_work_again(joined, rig, "another agent")
        died = [event for event in rig.events("agent_died") if event.subject == node]
        later = [sample.t_s for sample in rig.recording.host_samples if sample.subject == node]
        return len(died) == 1 and max(later) > died[0].t_s

    wait_for(sampled, "samples of the other agent")
    assert rig.recording.nodes[node].agent_pid != victim
    wait_for(lambda: process_id(victim) is None, "the agent's end")  # on another node Ray sees to it


def test_a_killed_worker_is_replaced_and_a_frozen_agent_started_again_and_the_other_worker_finishes(
    joined: RigCluster, two_node_rig: Any
) -> None:
    rig = two_node_rig
    worker, agent = rig.pid_of("pc1/cpu0"), rig.recording.nodes["pc2"].agent_pid
    hurts = {"pc1": (worker, signal.SIGKILL), "pc2": (agent, signal.SIGSTOP)}
    stage = hurt_both(joined, rig, "hurt", 9, hurts)  # longer than the agent may be silent
    assert stage.status == "partial"
    (died,) = rig.events("worker_died", stage="hurt")
    assert (died.subject, died.data["pid"]) == ("pc1/cpu0", worker)
    assert rig.rounds("hurt", "pc2/cpu0") > 0
    assert not [event for event in rig.events("worker_died", "worker_hung") if event.subject == "pc2/cpu0"]

    all_work_again(joined, rig, "replaced")  # on a busy machine the other worker is only up after the stage
    assert rig.pid_of("pc1/cpu0") != worker
    assert rig.recording.workers[-1].generation == 1
    assert [event.subject for event in rig.events("worker_replaced")] == ["pc1/cpu0"]
    agent_is_another_one(joined, rig, "pc2", agent)


def test_a_frozen_worker_is_killed_and_replaced_and_a_killed_agent_started_again(
    joined: RigCluster, two_node_rig: Any
) -> None:
    rig = two_node_rig
    worker, agent = rig.pid_of("pc2/cpu0"), rig.recording.nodes["pc1"].agent_pid
    hurts = {"pc2": (worker, signal.SIGSTOP), "pc1": (agent, signal.SIGKILL)}
    stage = hurt_both(joined, rig, "freeze", 3, hurts)
    assert stage.status == "partial"
    (hung,) = rig.events("worker_hung", stage="freeze")
    assert (hung.subject, hung.data["pid"]) == ("pc2/cpu0", worker)
    wait_for(lambda: process_id(worker) is None, "the frozen worker's end")
    agent_is_another_one(joined, rig, "pc1", agent)


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
    workers = {worker.pid for worker in two_node_rig.recording.workers}
    wait_for(lambda: not any(map(process_id, workers)), "the workers' end")
    pids = {node.agent_pid for node in two_node_rig.recording.nodes.values()}
    wait_for(lambda: not any(map(process_id, pids)), "the agents' end")
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
