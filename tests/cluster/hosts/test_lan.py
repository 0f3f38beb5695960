"""The ways between two hosts, by the workload of the stage on each of them: each network has one fault."""

import itertools
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rigproof.records.verdict import Outcome
from rigproof.stages.route.stage import LanArm, LanProbe
from support.acceptance import CHECKOUT
from support.lan_members import judged, met
from support.network_hosts import Network
from support.sentences import check_sentences
from support.two_devices import needs_gpus

LIBRARY = Path(__file__).parents[2] / "support" / "wall_clock.c"
JUMBO = "9000"


@pytest.fixture
def network():
    with Network("pc1", "pc2", named=True) as found:
        yield found


def verdicts(network, **how):
    found = judged(network, met(network, **how))
    check_sentences(list(found.values()))
    return [found[name] for name in network.hosts]


def ahead(folder, seconds):
    """The environment of a process whose wall clock is ahead."""
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler here")
    library, offset = folder / "wall_clock.so", folder / "offset"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, LIBRARY, "-ldl"], check=True)
    offset.write_bytes(seconds.to_bytes(8, sys.byteorder, signed=True))
    return {"LD_PRELOAD": str(library), "WALL_CLOCK_OFFSET": str(offset)}


def test_a_sound_lan_of_ipv6_whose_clocks_differ_warns_of_the_clocks_alone(tmp_path):
    with Network("pc1", "pc2", ip=6, named=True) as network:
        records = met(network, environment={"pc2": ahead(tmp_path, 90)})
        one, other = judged(network, records).values()
    assert (one.outcome, other.outcome) == (Outcome.WARN, Outcome.WARN), (one.detail, other.detail)
    assert other.detail == "its clock is 90.0 s ahead of that of pc1 (limit 1 s)"
    probes = [one for one in records if isinstance(one, LanProbe)]
    assert {(one.outcome, one.passed, one.full) for one in probes} == {("open", 1500, 1500)}
    assert {one.outcome for one in records if isinstance(one, LanArm)} == {"done"}


def test_gloo_over_the_slower_of_two_links_fails_with_what_to_export(network):
    """NCCL takes the first one in the kernel's order, which is the fast one."""
    network.second_link("lan1")
    network.narrow("lan1", rate_kbit=40_000)
    for name in network.hosts:
        network.resolve(name, pc1="10.78.0.1", pc2="10.78.0.2")
    one, other = verdicts(network)
    assert (one.outcome, other.outcome) == (Outcome.FAIL, Outcome.FAIL)
    assert one.detail.startswith("gloo sends 100 % of its bytes over lan1 (")
    assert one.detail.endswith("; told to use eth0, 100 % over it")
    assert one.remedy.startswith("put `export {GLOO,NCCL}_SOCKET_IFNAME=eth0` into ~/.bashrc on")


def test_two_hosts_that_share_ipv6_alone_say_so_and_where_gloo_fails_by_ipv4_what_to_write():
    """gloo takes each host's IPv4, in a network of its own: first routed, then not."""
    with Network("pc1", "pc2", ip=6, named=True) as network:
        for number, name in enumerate(network.hosts, 1):
            network.configure(name, "addr", "add", f"10.80.{number}.1/24", "dev", "eth0")
            network.configure(name, "route", "add", "10.80.0.0/16", "dev", "eth0")
            network.resolve(name, pc1="10.80.1.1", pc2="10.80.2.1")
        one, other = verdicts(network)
        assert (one.outcome, other.outcome) == (Outcome.PASS, Outcome.PASS), (one.detail, other.detail)
        assert "only IPv6 is in common with pc2: gloo's IPv4 is routed" in one.detail
        for name in network.hosts:
            network.configure(name, "route", "del", "10.80.0.0/16", "dev", "eth0")
        one, other = verdicts(network)
        assert (one.outcome, other.outcome) == (Outcome.FAIL, Outcome.FAIL), (one.detail, other.detail)
        assert one.detail == "gloo works by IPv4, and only IPv6 is in common with pc2"


@needs_gpus(1)
def test_nccl_over_the_slower_of_two_links_fails_by_its_own_bytes(network):
    """Two ranks on this machine's GPU. The slow link comes first in the kernel's order."""
    network.second_link("lan1", first=True)
    network.narrow("lan1", rate_kbit=40_000)
    apart = {name: {"NCCL_HOSTID": name, "NCCL_NET": "Socket"} for name in network.hosts}
    records = met(network, gpus=tuple(network.hosts), environment=apart)
    came = {(one.by, one.arm, one.outcome) for one in records if isinstance(one, LanArm)}
    arms = itertools.product(("gloo", "NCCL"), ("as it is", "pinned"), ("done",))
    assert came == set(arms), records
    for name in network.hosts:
        found = judged(network, records)[name]
        assert found.outcome is Outcome.FAIL
        said = r"NCCL sends \d+ % of its bytes over lan1 \(.*\); told to use eth0, (9\d|100) % over it"
        assert re.match(said, found.detail), found.detail


def test_nccl_is_left_out_beside_a_host_without_a_gpu(network):
    records = met(network, gpus=["pc1"])
    tried = {(one.subject, one.library, one.outcome) for one in records if isinstance(one, LanArm)}
    assert tried == {("pc1", "gloo", "done"), ("pc2", "gloo", "done"), ("pc1", "NCCL", "left out")}
    found = judged(network, records)["pc1"]
    assert found.outcome is Outcome.PASS
    assert "; NCCL not tried: pc2 has no GPU" in found.detail


def test_an_mtu_that_is_larger_at_one_end_warns_there_and_fails_nobody(network):
    network.without_offload()
    network.configure("pc1", "link", "set", "dev", "eth0", "mtu", JUMBO)
    one, other = verdicts(network)
    assert (one.outcome, one.detail) == (
        Outcome.WARN,
        "eth0 has an MTU of 9000, eth0 of pc2 one of 1500",
    )
    assert other.outcome is Outcome.PASS, other


def test_large_frames_that_a_switch_drops_fail_with_those_that_pass(network):
    network.without_offload()
    for name in network.hosts:
        network.configure(name, "link", "set", "dev", "eth0", "mtu", JUMBO)
    one, other = verdicts(network, gloo=False)
    assert (one.outcome, other.outcome) == (Outcome.FAIL, Outcome.FAIL)
    assert "packets of 9000 bytes from eth0 get lost on their way to pc2, those of 1500 arrive" in one.detail


@pytest.mark.parametrize("target", [("DROP",), ("REJECT", "--reject-with", "icmp-host-prohibited")])
def test_a_firewall_is_named_on_the_host_that_has_it(network, target):
    if shutil.which("iptables") is None:
        pytest.skip("no `iptables` here")
    network.firewall("pc2", "-i", "eth0", "-p", "tcp", "--syn", "--dport", "20000:65535", "-j", *target)
    one, other = verdicts(network, gloo=False)
    assert (one.outcome, other.outcome) == (Outcome.NOT_MEASURED, Outcome.FAIL)
    assert other.remedy.startswith("run `sudo ufw allow from 10.77.0.0/24` on pc2")


def test_what_the_page_says_to_look_at_can_be_typed(network):
    if shutil.which("ping") is None:
        pytest.skip("no `ping` here (iputils-ping)")
    host = network["pc1"]
    page = (CHECKOUT / "docs" / "two-pcs.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    looking = ("ip ", "ping ", "getent ")
    lines = [line for block in blocks for line in block.splitlines() if line.startswith(looking)]
    assert len(lines) == 5
    for line in lines:
        typed = line.replace("192.168.1.11", network["pc2"].address)
        done = subprocess.run(host.command("sh", "-c", typed), capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        assert done.stdout
