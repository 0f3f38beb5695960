"""Ray's objects between the stores of three hosts: they come, unless the port for them is eaten."""

import shutil

import pytest

from rigproof.records.disk.store import read_recording
from rigproof.records.measurements import Round
from support.network_hosts import Network
from support.ray_hosts import PATIENT_START_S, RayHosts

OBJECT_PORT = 8076
RAY = "ray_s.quick = 0.2\nlink_mbit = 1000\n"


def test_a_firewall_that_eats_the_object_managers_port_is_told_from_a_cable():
    """pc3 answers TCP on every port but that one; Ray runs, and all else that it sends comes through."""
    if shutil.which("iptables") is None:
        pytest.skip("no `iptables` here")
    with Network("pc1", "pc2", "pc3") as network:
        hosts = RayHosts.of(network)
        for host in network.hosts.values():
            started = hosts.ray_start(host, f"--object-manager-port={OBJECT_PORT}")
            assert started.returncode == 0, started.stdout
        network.firewall("pc3", "-i", "eth0", "-p", "tcp", "--dport", str(OBJECT_PORT), "-j", "DROP")
        profile = hosts.profile(start_s=PATIENT_START_S, more={"lan": RAY}, lan=0.6)
        run = hosts.accept(profile, "--hw-level=quick", "-k", "lan").end()
        assert run.status == 1, run.output
        found = {subject: one for (key, subject), one in run.criteria.items() if key == "lan.bandwidth"}
        for pair in ("pc2+pc3", "pc1+pc3"):
            assert found[pair]["outcome"] == "fail", found
            assert "though TCP came through: the port of its object manager" in found[pair]["detail"]
        sound = found["pc1+pc2"]
        busy = any(words in sound["detail"] for words in ("for a CPU", "one core of"))
        assert sound["outcome"] == "pass" or busy, sound["detail"]
        rounds = read_recording(run.folder).of(Round).of("pc1+pc2")
        objects = [one for one in rounds if one.label("traffic") == "ray"]
        assert len(objects) == 16  # there, back, and both at once
        assert all(one.verified for one in objects)
