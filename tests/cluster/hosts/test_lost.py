"""A host that is lost while the rig is under load: named, the others judged, the run ended."""

from support.network_hosts import wait_for
from support.ray_hosts import PATIENT_START_S, RayHosts, ended_after

STALL_S = 16  # lost after half of it
SUSTAINED_S = 10


def test_a_cable_pulled_out_under_load_fails_that_host_and_the_other_is_judged(own_hosts: RayHosts) -> None:
    own_hosts.up()
    pc2 = own_hosts.network["pc2"]
    profile = own_hosts.profile(sustained_s=SUSTAINED_S, stall_s=STALL_S, start_s=PATIENT_START_S)
    run = own_hosts.accept(profile)
    run.until(lambda: run.working("sustained", "pc2/cpu0"), "load on pc2")
    ended = ended_after(run, "cable out", STALL_S, lambda: own_hosts.network.pull_out("pc2"))
    result = ended.run
    assert result.status == 1, result.output
    assert result.outcome("cluster.nodes_present", "pc2") == "fail", result.output
    assert "nothing answers at 10.77.0.2" in result.criteria["cluster.nodes_present", "pc2"]["detail"]
    assert result.outcome("cluster.no_timeouts", "rig") == "fail"
    assert result.outcome("cluster.nodes_present", "pc1") == "pass"
    assert result.outcome("throughput.sustained", "pc1/cpu0") in ("pass", "no_limit"), result.output
    assert "Traceback" not in result.output
    # What it ran there ends with the run, once the host can be told.
    own_hosts.network.put_back("pc2")
    ours = ("ray::NodeAgent", "ray::Worker")
    wait_for(lambda: not any(title.startswith(ours) for title in pc2.titles()), "their end")
