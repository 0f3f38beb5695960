"""Two hosts joined by `ray start`: found, accepted, and judged as what they are when a cable is bad or out.

One pair of hosts for all of it, in this order, over IPv6. pc2 was lost and came back before the first run:
Ray lists it twice for a while. It came back with CUDA_VISIBLE_DEVICES=0.
"""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rigproof.profiles.lint.rig import lint_rig
from rigproof.profiles.loading.load import load_rig
from rigproof.stages.registry import KINDS
from support.acceptance import CHECKOUT
from support.network_hosts import Network, kill_all
from support.ray_hosts import CPU_DEVICE, PATIENT_START_S, RayHosts, Running, ended_after
from support.real_runs import INSIDE
from support.waiting import wait_for

BOTH = ("pc1", "pc2")
DEVICES = ("pc1/cpu0", "pc2/cpu0")
SUSTAINED_S = 6
STALL_S = 12  # lost after half of it
LIST = """
import ray, sys
ray.init(address=sys.argv[1], log_to_driver=False)
print(sum(node["Alive"] for node in ray.nodes() if node["NodeName"] == "pc2"))
"""
# Pairs of three devices, of which one loses a worker.
FATAL = "pc1/cpu0-pc2/cpu1"
MEET = """
import json, sys, time
from rigproof.cluster.driver.rig_cluster import RigCluster
from rigproof.profiles.loading.load import load_rig
from rigproof.devices.further import Further
from rigproof.profiles.kinds.stages import StagePlan
from rigproof.profiles.planning.subjects import turns_of
from rigproof.profiles.planning.planning import make_plan
from rigproof.records.measurements import Event, Round
from rigproof.stages.registry import KINDS
from support.exchange import NAME, ROUND_S, ExchangeSpec

loaded = load_rig(sys.argv[1], KINDS)
plan, found = make_plan(loaded, "quick"), []
turns = turns_of("pairs", loaded, plan.workers)
asked = []  # how many records there were when a further turn was asked for
def once_more():
    asked.append(len(found))
    return Further(specs, turns[1]) if len(asked) == 1 else None
with RigCluster(loaded, plan, ray_address=sys.argv[2], sink=found.append, now_s=time.monotonic) as cluster:
    specs = {one.worker: ExchangeSpec(NAME, 0.5, fatal=sys.argv[3]) for one in plan.workers}
    planned = StagePlan(NAME, 0.5, 0.0, 0.5, ROUND_S).in_turns(len(turns))
    stage = cluster.run_stage(planned, specs, turns, further=once_more)
events = [one for one in found if isinstance(one, Event)]
print(json.dumps({
    "turns": [[crew.subject for crew in turn] for turn in turns],
    "status": stage.status,
    "died": [one.worker for one in events if one.kind == "worker_died"],
    "crews": [[one.subject, one.message] for one in events if one.kind == "crew_failed"],
    "bad": [one.kind for one in events if one.kind in ("worker_hung", "worker_failed", "timeout")],
    "further": [len(asked), sorted({one.subject for one in found[asked[0]:] if isinstance(one, Round)})],
    "rounds": sorted({(one.subject, one.worker) for one in found if isinstance(one, Round)}),
}))
"""


# Only the child that looks for GPUs gets the simulated library.
DRIVERS = """
import runpy, sys
from pathlib import Path
runpy.run_path({inside!r})
if "rigproof.telemetry.inventory" in sys.orig_argv:
    sys.path.append({checkout!r})
    from rigproof.host.nvidia import KernelDriver
    from rigproof.simulation.nvml.library import installed
    from rigproof.simulation.nvml.model import Fault, SimulatedDriver, SimulatedGpu
    driver = SimulatedDriver([])
    exec((Path({folder!r}) / "driver.txt").read_text())
    keep = installed(driver)
    keep.__enter__()
"""
NONE = "driver.inject(Fault('nvmlInitWithFlags', 12))"
BROKEN = "driver.kernel = KernelDriver(True, ('0000:65:00.0',))"
CARDS = {
    "pc1": "driver.gpus = [SimulatedGpu('GPU-pc1')]",
    "pc2": "driver.gpus = [SimulatedGpu('GPU-pc2-a'), SimulatedGpu('GPU-pc2-b', name='NVIDIA H200')]",
}


@pytest.fixture(scope="module")
def hosts() -> Iterator[RayHosts]:
    """pc1 (head) and pc2, which came back; each look reads what drivers a host has from its own file."""
    with Network(*BOTH, ip=6) as network:
        cluster = RayHosts.of(network)
        pc1, pc2 = network["pc1"], network["pc2"]
        for host, more in ((pc1, {}), (pc2, {}), (pc2, {"CUDA_VISIBLE_DEVICES": "0"})):
            kill_all(host)
            inside = str(Path(INSIDE) / "sitecustomize.py")
            text = DRIVERS.format(inside=inside, checkout=str(CHECKOUT), folder=str(host.folder))
            (host.folder / "sitecustomize.py").write_text(text)
            path = {"PYTHONPATH": f"{host.folder}:{CHECKOUT}:{CHECKOUT / 'tests'}"}
            assert cluster.ray_start(host, environment=path | more).returncode == 0
        yield cluster


# `auto` and `detect` mean every host of the cluster


@pytest.fixture
def have(hosts: RayHosts) -> Callable[..., None]:
    def drivers(**of_host: str) -> None:
        for name, code in of_host.items():
            (hosts.network[name].folder / "driver.txt").write_text(code)

    return drivers


def rigproof(hosts: RayHosts, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line on the head; its own shell says nothing about the cluster's GPUs."""
    return hosts.python(
        hosts.head,
        *("-m", "rigproof", *arguments, f"--ray-address={hosts.address}"),
        environment={"CUDA_VISIBLE_DEVICES": "-1"},
    )


def test_detect_writes_one_profile_of_every_host_with_its_address(
    hosts: RayHosts, have: Callable[..., None], tmp_path: Path
) -> None:
    have(**CARDS)
    done = rigproof(hosts, "detect")
    assert (done.returncode, done.stderr) == (0, "")
    saved = tmp_path / "found.toml"
    saved.write_text(done.stdout)
    loaded = load_rig(str(saved), KINDS)
    assert lint_rig(loaded, "quick") == []
    assert [(node.name, node.address) for node in loaded.rig.nodes] == [
        (name, hosts.network[name].address) for name in ("pc1", "pc2")
    ]
    assert [(one.subject, one.sku_stem) for one in loaded.devices()] == [
        ("pc1/gpu0", "rtx-3090"),
        ("pc2/gpu0", "rtx-3090"),
    ]
    assert "# Not in this rig: pc2 (1 of 2 GPUs hidden by CUDA_VISIBLE_DEVICES=0).\n" in done.stdout


def test_a_host_without_a_gpu_beside_one_with_a_gpu_is_said_to_be_left_out(
    hosts: RayHosts, have: Callable[..., None]
) -> None:
    have(pc1=NONE, pc2=CARDS["pc2"])
    left_out = "pc1 (no GPU), pc2 (1 of 2 GPUs hidden by CUDA_VISIBLE_DEVICES=0)"
    running = hosts.accept(Path("auto"), "--hw-level=quick", "-k", "nodes_present")  # no stage is needed
    run = running.end()
    assert [node["name"] for node in run.result["rig"]["nodes"]] == ["pc2"]
    assert [(one["node"], one["what"]) for one in run.result["not_tested"]] == [
        ("pc1", "no GPU"),
        ("pc2", "1 of 2 GPUs hidden by CUDA_VISIBLE_DEVICES=0"),
    ]
    assert run.output.count(f"not tested: {left_out}") == 2  # at the top, and in the verdict line
    assert f"; not tested: {left_out}\n" in run.output


def test_a_host_whose_gpus_cannot_be_seen_is_refused_by_name(
    hosts: RayHosts, have: Callable[..., None]
) -> None:
    have(pc1=CARDS["pc1"], pc2=BROKEN)
    done = rigproof(hosts, "accept", "--plan")
    assert done.returncode == 4
    complaint = done.stdout + done.stderr
    where = f"--ray-address {hosts.address}: the GPUs of pc2 ({hosts.network['pc2'].address})"
    assert f"{where} cannot" in complaint
    assert "0000:65:00.0" in complaint
    assert "NVRM" in complaint
    assert "Traceback" not in complaint


# Under load


def accept(hosts: RayHosts, rig: str, stall_s: int = 60, lan_s: float = 0) -> Running:
    """A run with all the patience that a busy machine needs; its profile spells pc2 as Ray does not."""
    profile = hosts.profile(
        rig=rig, sustained_s=SUSTAINED_S, stall_s=stall_s, start_s=PATIENT_START_S, lan_s=lan_s
    )
    profile.write_text(profile.read_text().replace('"fd00:77::2"', '"[FD00:77:0::2]"'))
    return hosts.accept(profile)


@pytest.fixture
def slow_cable(hosts: RayHosts) -> Iterator[str]:
    """pc2's cable carries 2 Mbit/s, or (where the kernel can) answers 100 ms late; how it is."""
    yield hosts.network.slow_down("pc2", delay_ms=100, rate_kbit=2000)
    hosts.network.mend("pc2")


def test_two_hosts_are_accepted_though_one_came_back_and_its_cable_is_slow_and_out_for_some_seconds(
    hosts: RayHosts, slow_cable: str
) -> None:
    """Of pc2 the entry that answers is taken. What was measured while the cable was out arrives later.

    Nothing is lost, and nobody is given up. The time counts from when both hosts are under load: a run's
    start has limits of its own.
    """
    running = accept(hosts, "bad")
    running.until(lambda: all(running.working("sustained", device) for device in DEVICES), "load on both")

    def blink() -> None:
        hosts.network.pull_out("pc2")
        time.sleep(3)
        hosts.network.put_back("pc2")

    run = ended_after(running, f"{slow_cable} cable, and out for 3 s", SUSTAINED_S, blink).run
    assert run.status == 0, run.output
    assert run.result["verdict"] == "ACCEPTED"
    assert run.outcome("cluster.no_timeouts", "rig") == "pass", run.output
    assert run.outcome("collective.all_reduce", "rig") == "no_limit", run.output
    for host, device in zip(BOTH, DEVICES, strict=True):
        assert run.outcome("cluster.nodes_present", host) == "pass", run.output
        assert run.outcome("inventory.gpus_present", device) == "pass", run.output
        assert run.outcome("throughput.sustained", device) in ("pass", "no_limit"), run.output
    assert [node["name"] for node in run.result["rig"]["nodes"]] == list(BOTH)
    nodes = {
        record["subject"] for record in run.result["criteria"] if record["criterion"].startswith("host.")
    }
    assert nodes == set(BOTH)
    pc1 = hosts.network["pc1"]
    listed = hosts.python(pc1, "-c", LIST, hosts.address).stdout
    assert listed.splitlines()[0] in ("1", "2"), listed  # Ray may add there that it has given one up


def test_pairs_meet_where_the_other_one_reaches_it_and_a_killed_worker_ends_its_own_pair_alone(
    hosts: RayHosts,
) -> None:
    """Turn by turn, and between hosts over the cable: neither knows the other's loopback."""
    profile = hosts.profile(start_s=PATIENT_START_S)
    profile.write_text(profile.read_text() + CPU_DEVICE)
    done = hosts.python(hosts.network["pc1"], "-c", MEET, profile, hosts.address, FATAL)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    whole = ["pc2/cpu0-pc2/cpu1", "pc1/cpu0-pc2/cpu0"]
    assert answer["turns"] == [whole[:1], [FATAL], whole[1:]]
    assert (answer["status"], answer["died"], answer["bad"]) == ("partial", ["pc1/cpu0#0"] * 2, [])
    # The further turn has the pair that lost one: by the worker that took its place, and is lost too.
    lost = [FATAL, "it lost pc1/cpu0#0; the others were told to stop"]
    assert answer["crews"] == [lost, lost]
    assert answer["further"] == [2, [FATAL]]
    rounds = [tuple(one) for one in answer["rounds"] if one[0] != FATAL]
    assert rounds == sorted((pair, f"{one}#0") for pair in whole for one in pair.split("-"))


def test_a_cable_pulled_out_under_load_fails_that_host_and_the_other_is_judged(hosts: RayHosts) -> None:
    """Runs last: Ray gives pc2 up. Before, the hosts exchange data."""
    pc2 = hosts.network["pc2"]
    run = accept(hosts, "lost", stall_s=STALL_S, lan_s=2.0)
    run.until(lambda: run.working("sustained", "pc2/cpu0"), "load on pc2")
    ended = ended_after(run, "cable out", STALL_S, lambda: hosts.network.pull_out("pc2"))
    result = ended.run
    assert result.status == 1, result.output
    assert result.outcome("cluster.nodes_present", "pc2") == "fail", result.output
    assert "no answer from [fd00:77::2]:" in result.criteria["cluster.nodes_present", "pc2"]["detail"]
    assert result.outcome("cluster.no_timeouts", "rig") == "fail"
    # While the cable was there, data went over it; its card has no speed to judge that by.
    assert result.outcome("lan.bandwidth", "pc1+pc2") == "no_limit", result.output
    assert "state `stages.lan.link_mbit`" in result.criteria["lan.bandwidth", "pc1+pc2"]["detail"]
    assert result.outcome("cluster.nodes_present", "pc1") == "pass"
    assert result.outcome("throughput.sustained", "pc1/cpu0") in ("pass", "no_limit"), result.output
    assert "Traceback" not in result.output
    # What it ran there ends with the run, once the host can be told.
    hosts.network.put_back("pc2")
    ours = ("ray::NodeAgent", "ray::RigproofWorker")
    wait_for(lambda: not any(title.startswith(ours) for title in pc2.titles()), "their end")
