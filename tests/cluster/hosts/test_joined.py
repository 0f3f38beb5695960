"""Hosts joined by `ray start`: found, accepted, and judged as what they are when a cable is bad or out.

The same hosts for all of it, in this order, over IPv6. pc2 was lost and came back before the first run: Ray
lists it twice for a while. It came back with CUDA_VISIBLE_DEVICES=0. pc3 joins in the middle.
"""

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rigproof.profiles.lint.rig import lint_rig
from rigproof.profiles.loading.load import load_rig
from rigproof.records.disk.store import read_recording
from rigproof.stages.registry import KINDS
from rigproof.stages.route.stage import LanArm
from support.acceptance import CHECKOUT
from support.network_hosts import Network, kill_all
from support.ray_hosts import CPU_DEVICE, PATIENT_START_S, RayHosts, Running, ended_after
from support.real_runs import INSIDE
from support.waiting import wait_for

BOTH = ("pc1", "pc2")
DEVICES = ("pc1/cpu0", "pc2/cpu0")
SUSTAINED_S = 6
STALL_S = 12  # lost after half of it
MBIT = 100.0  # of the cables, from the first run on in which the hosts train together
EXCHANGES = {"route": 1, "lan": 3, "collective": 3, "ddp": 4}  # lengths, s
OPERATIONS = ("all_gather", "reduce_scatter", "broadcast", "all_to_all")
TOGETHER = r"(slower )?together:? \d[\d.]* × pc\d/cpu0 alone.*; the LAN costs \d+ % of each step"
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
    """pc1 (head), pc2, which came back, and pc3, which has no Ray yet.

    Each look reads what drivers a host has from its own file.
    """
    with Network(*BOTH, "pc3", ip=6, named=True, first=True) as network:
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


def accept(
    hosts: RayHosts,
    rig: str,
    *names: str,
    level: str = "quick",
    stall_s: int = 60,
    library_s: float = 0.0,
    **length_s: float,
) -> Running:
    """A run with all the patience that a busy machine needs; its profile spells pc2 as Ray does not.

    Its cables carry MBIT, which no driver of them reports.
    """
    lengths = {"sustained": SUSTAINED_S} | length_s
    shares = "tcp_share = 0.5\nboth_share = 0.55\n"  # all hosts' packets go through this machine's CPUs
    more = {"lan": f"link_mbit = {MBIT}\nlibrary_s.{level} = {library_s}\nray_s.{level} = 0\n{shares}"}
    profile = hosts.profile(
        *(names or BOTH),
        rig=rig,
        stall_s=stall_s,
        start_s=PATIENT_START_S,
        level=level,
        more=more,
        **lengths,
    )
    profile.write_text(profile.read_text().replace('"fd00:77::2"', '"[FD00:77:0::2]"'))
    return hosts.accept(profile, f"--hw-level={level}")


def cables(hosts: RayHosts, *names: str, mbit: float = MBIT) -> None:
    """Let these hosts' cables carry so much."""
    for name in names:
        hosts.network.carry(name, mbit=mbit)


def test_two_pcs_are_accepted_though_one_came_back_and_its_cable_is_slow_and_out_for_some_seconds(
    hosts: RayHosts,
) -> None:
    """With ways, rates, all collectives and one model on both, over a link that is slower than the devices.

    Of pc2 the entry that answers is taken. What was measured while the cable was bad arrives later: nothing
    is lost, and nobody is given up.
    """
    cables(hosts, *BOTH)
    running = accept(hosts, "pcs", level="extended", library_s=0.6, **EXCHANGES | {"sustained": 9})
    running.until(lambda: all(running.working("sustained", device) for device in DEVICES), "load on both")

    # The cable is out, and late or narrow for a while when it is back.
    hosts.network.pull_out("pc2")
    hosts.network.slow_down("pc2", delay_ms=100, rate_kbit=2000)
    time.sleep(3)
    hosts.network.put_back("pc2")
    time.sleep(1)
    cables(hosts, "pc2")
    run = running.end()
    assert run.status == 0, run.output
    assert run.result["verdict"] == "ACCEPTED"
    assert run.result["not_tested_together"] == []
    assert run.outcome("cluster.no_timeouts", "rig") == "pass", run.output
    for host, device in zip(BOTH, DEVICES, strict=True):
        assert run.outcome("cluster.nodes_present", host) == "pass", run.output
        assert run.outcome("inventory.gpus_present", device) == "pass", run.output
        assert run.outcome("throughput.sustained", device) in ("pass", "no_limit"), run.output
        assert run.outcome("lan.route", host) == "pass"
    assert run.outcome("lan.bandwidth", "pc1+pc2") == "pass", run.output
    assert run.outcome("collective.all_reduce", "rig") == "pass", run.output
    assert {run.outcome(f"collective.{one}", "rig") for one in OPERATIONS} == {"no_limit"}, run.output
    assert run.outcome("collective.training", "rig") == "no_limit"
    said = run.criteria["collective.training", "rig"]["detail"]
    assert re.match(TOGETHER, said), said
    assert f"; {said}\n" in run.output  # the verdict line
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
    profile = hosts.profile(*BOTH, start_s=PATIENT_START_S)
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


def test_a_host_that_vanishes_while_all_train_together_is_named_and_nobody_else_is(hosts: RayHosts) -> None:
    """Its Ray and its workers at once, as by a power cut. It is there again for the next test."""
    pc2 = hosts.network["pc2"]
    running = accept(hosts, "vanishes", stall_s=STALL_S, sustained=1, ddp=30, replay=1)
    running.until(lambda: running.working("ddp", "rig"), "training together")
    fault = "host without power, inside training together"
    run = ended_after(running, fault, STALL_S, lambda: kill_all(pc2)).run
    assert hosts.ray_start(pc2).returncode == 0
    assert run.status == 1, run.output
    assert run.outcome("cluster.nodes_present", "pc2") == "fail"
    assert run.outcome("cluster.nodes_present", "pc1") == "pass"
    found = run.criteria["collective.training", "rig"]
    assert (found["outcome"], "it lost pc2/cpu0#0" in found["detail"]) == ("not_measured", True), found
    assert run.outcome("training.replay", "pc1/cpu0") == "pass", run.output
    assert "Traceback" not in run.output


def test_a_slow_host_names_on_loopback_and_hosts_lost_inside_an_operation_are_told_apart(
    hosts: RayHosts,
) -> None:
    """Runs last: Ray gives up pc2, whose cable is pulled out, and pc3, which was slow and loses its power.

    Ray does not mind the names; gloo fails as it is, and not pinned. The operations would go on for minutes:
    nothing but the deadlines of those that are left ends them.
    """
    network = hosts.network
    pc2, pc3 = network["pc2"], network["pc3"]
    assert hosts.ray_start(pc3).returncode == 0
    for name in network.hosts:
        network.resolve(name, **{name: "127.0.1.1"})
    cables(hosts, *BOTH)
    cables(hosts, "pc3", mbit=MBIT / 4)
    lengths = EXCHANGES | {"sustained": 1, "collective": 600, "replay": 1}
    running = accept(hosts, "lost", *network.hosts, stall_s=STALL_S, **lengths)
    running.until(lambda: running.working("collective", "rig"), "an all-reduce")

    def lose() -> None:
        network.pull_out("pc2")
        kill_all(pc3)

    run = ended_after(running, "cable out, and a host without power, inside an all-reduce", STALL_S, lose).run
    assert run.status == 1, run.output
    for name in ("pc2", "pc3"):
        assert run.outcome("cluster.nodes_present", name) == "fail", run.output
    assert "no answer from [fd00:77::2]:" in run.criteria["cluster.nodes_present", "pc2"]["detail"]
    assert run.outcome("cluster.no_timeouts", "rig") == "fail"
    # Whoever waited for them is not to blame, what was measured before is judged, and so is what came later.
    found = run.criteria["collective.all_reduce", "rig"]
    assert (found["outcome"], "it lost pc" in found["detail"]) == ("not_measured", True), found
    assert run.outcome("cluster.nodes_present", "pc1") == "pass"
    assert run.outcome("training.replay", "pc1/cpu0") == "pass", run.output
    slow = {("lan.bandwidth", "pc2+pc3"), ("lan.bandwidth", "pc1+pc3")}
    lan = {key for key, one in run.criteria.items() if key[0].startswith("lan.") and one["outcome"] == "fail"}
    assert lan == slow | {("lan.route", name) for name in network.hosts}, run.output
    for key in slow:
        assert "all to or from pc3 is slow, all else is not" in run.criteria[key]["detail"]
    assert run.outcome("lan.bandwidth", "pc1+pc2") == "pass", run.output
    assert "Set `fd00:77::2 pc2` in /etc/hosts on pc2 in place of the line with 127.0.1.1" in run.output
    every = list(read_recording(run.folder).of(LanArm))
    assert [one.outcome for one in every if one.library == "Ray"] == ["done"] * 3
    arms = sorted((one.arm, one.outcome) for one in every if one.library == "gloo")
    assert arms[3:] == [("pinned", "done")] * 3
    assert {outcome for _, outcome in arms[:3]} <= {"failed", "hung"}
    assert "Traceback" not in run.output
    # What it ran there ends with the run, once the host can be told.
    network.put_back("pc2")
    ours = ("ray::NodeAgent", "ray::RigproofWorker")
    wait_for(lambda: not any(title.startswith(ours) for title in pc2.titles()), "their end")
    again = hosts.python(hosts.head, "-m", "rigproof", "judge", run.folder)
    assert again.returncode == 1
    assert "in /etc/hosts on pc2" in again.stdout
