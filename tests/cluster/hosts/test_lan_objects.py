"""Ray over the slower of two cables, by the bytes that each counts, and with its port for objects closed."""

import re
import shutil

import pytest

from rigproof.records.disk.store import read_recording
from rigproof.records.measurements import Round
from rigproof.stages.route.stage import LanArm
from support.network_hosts import SECOND, Network
from support.ray_hosts import PATIENT_START_S, RayHosts

OBJECT_PORT = 8076
MBIT = 100
TCP_S = 2  # as at quick: of 0.18 s each way a standstill of 0.12 s, as on a busy machine, leaves too little
RAY = f"ray_s.quick = 0.2\nlink_mbit = {MBIT}\n"


def test_ray_over_the_wrong_cable_and_a_firewall_that_eats_its_objects_are_told():
    """Ray was started with the addresses of slow cables, beside which there are fast ones.

    pc3 answers TCP on every port but the object manager's: all else that Ray sends comes through.
    """
    if shutil.which("iptables") is None:
        pytest.skip("no `iptables` here")
    with Network("pc1", "pc2", "pc3", named=True) as network:
        network.second_link("lan1")
        on_lan1 = {name: SECOND.format(number) for number, name in enumerate(network.hosts, 1)}
        for name in network.hosts:
            network.carry(name, mbit=MBIT)
            network.resolve(name, **on_lan1)
        hosts = RayHosts.of(network)
        for host in network.hosts.values():
            started = hosts.ray_start(host, f"--object-manager-port={OBJECT_PORT}")
            assert started.returncode == 0, started.stdout
        network.firewall("pc3", "-i", "eth0", "-p", "tcp", "--dport", str(OBJECT_PORT), "-j", "DROP")
        profile = hosts.profile(start_s=PATIENT_START_S, more={"lan": RAY}, lan=TCP_S, route=1)
        run = hosts.accept(profile, "--hw-level=quick", "-k", "lan").end()
        assert run.status == 1, run.output
        for name in network.hosts:
            way = run.criteria["lan.route", name]
            assert way["outcome"] == "fail", way
            assert re.match(r"Ray takes eth0 \(.* Mbit/s beside .*\), not lan1", way["detail"]), way
            assert f"set {name}'s `address` in the profile to 10.78.0." in way["remedy"]
        found = {subject: one for (key, subject), one in run.criteria.items() if key == "lan.bandwidth"}
        for pair in ("pc2+pc3", "pc1+pc3"):
            assert found[pair]["outcome"] == "fail", found
            assert (
                "though TCP came through: a firewall closes the port of Ray's object manager"
                in found[pair]["detail"]
            )
        sound = found["pc1+pc2"]
        busy = any(words in sound["detail"] for words in ("for a CPU", "one core of"))
        assert sound["outcome"] == "pass" or busy, sound["detail"]
        rounds = read_recording(run.folder).of(Round).of("pc1+pc2")
        objects = [one for one in rounds if one.label("traffic") == "ray"]
        assert len(objects) == 16  # there, back, and both at once
        assert all(one.verified for one in objects)


def test_objects_that_take_the_slower_of_two_cards_fail_by_the_bytes_that_each_counted():
    """Ray was started with the address of the slow one; gloo takes the fast one, as each host's name says."""
    with Network("pc1", "pc2", named=True) as network:
        network.second_link("lan1")
        network.narrow("eth0", rate_kbit=40_000)
        for name in network.hosts:
            network.resolve(name, pc1="10.78.0.1", pc2="10.78.0.2")
        hosts = RayHosts.of(network)
        for host in network.hosts.values():
            started = hosts.ray_start(host)
            assert started.returncode == 0, started.stdout
        profile = hosts.profile(start_s=PATIENT_START_S, route=1)
        run = hosts.accept(profile, "--hw-level=quick", "-k", "route").end()
        assert run.status == 1, run.output
        arms = read_recording(run.folder).of(LanArm)
        assert {(one.by, one.arm, one.outcome) for one in arms} == {
            ("gloo", "as it is", "done"),
            ("gloo", "pinned", "done"),
            ("Ray", "as it is", "done"),
        }
        for name in network.hosts:
            found = run.criteria["lan.route", name]
            assert found["outcome"] == "fail"
            assert re.match(r"Ray sends (9\d|100) % of its bytes over eth0 \(", found["detail"])
            assert f"set {name}'s `address` in the profile to 10.78.0." in found["remedy"]
