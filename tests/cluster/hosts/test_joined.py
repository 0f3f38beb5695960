"""Two hosts joined by `ray start`: accepted, and judged as what they are when their cable is bad."""

import time

import pytest

from support.acceptance import Run
from support.ray_hosts import PATIENT_START_S, RayHosts, Running, ended_after

BOTH = ("pc1", "pc2")
DEVICES = ("pc1/cpu0", "pc2/cpu0")
SUSTAINED_S = 8


def accept(hosts: RayHosts, rig: str) -> Running:
    """A run with all the patience that a busy machine needs."""
    profile = hosts.profile(rig=rig, sustained_s=SUSTAINED_S, stall_s=60, start_s=PATIENT_START_S)
    return hosts.accept(profile)


def working(run: Running) -> None:
    """Wait until both hosts are under load."""
    run.until(lambda: all(run.working("sustained", device) for device in DEVICES), "load on both hosts")


def went_on(run: Run) -> None:
    """Nobody was lost, and both hosts' devices worked to the end."""
    assert run.outcome("cluster.no_timeouts", "rig") == "pass", run.output
    for host, device in zip(BOTH, DEVICES, strict=True):
        assert run.outcome("cluster.nodes_present", host) == "pass", run.output
        assert run.outcome("throughput.sustained", device) in ("pass", "no_limit"), run.output


def test_two_hosts_are_accepted(hosts: RayHosts) -> None:
    run = accept(hosts, "hosts").end()
    went_on(run)
    assert run.status == 0, run.output
    assert run.result["verdict"] == "ACCEPTED"
    names = [node["name"] for node in run.result["rig"]["nodes"]]
    assert names == list(BOTH)
    nodes = {
        record["subject"] for record in run.result["criteria"] if record["criterion"].startswith("host.")
    }
    assert nodes == set(BOTH)


def test_a_cable_that_is_out_for_some_seconds_does_not_end_the_run(hosts: RayHosts) -> None:
    """What was measured meanwhile arrives later; nothing is lost, and nobody is given up."""
    run = accept(hosts, "blink")
    working(run)

    def blink() -> None:
        hosts.network.pull_out("pc2")
        time.sleep(3)
        hosts.network.put_back("pc2")

    ended = ended_after(run, "cable out for 3 s", SUSTAINED_S, blink).run
    went_on(ended)
    assert ended.status == 0, ended.output


@pytest.fixture
def slow_cable(hosts: RayHosts) -> str:
    """pc2's cable carries 2 Mbit/s, or (where the kernel can) answers 100 ms late; how it is."""
    return hosts.network.slow_down("pc2", delay_ms=100, rate_kbit=2000)


def test_a_slow_cable_is_no_fault_of_the_devices(hosts: RayHosts, slow_cable: str) -> None:
    """Runs last: the cable stays slow."""
    running = accept(hosts, "slow")
    run = ended_after(running, f"{slow_cable} cable", SUSTAINED_S).run
    went_on(run)
    assert run.status == 0, run.output
