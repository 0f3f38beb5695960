"""What a node's ways to the others are judged by: names, ports, packets, choices, traffic and clocks."""

from dataclasses import replace

import pytest

from rigproof.judging.judge import promised
from rigproof.records.disk.store import RecordingWriter, read_recording
from rigproof.records.measurements import Round
from rigproof.records.verdict import Outcome, sentence
from rigproof.stages.route.criteria import route, tables
from rigproof.stages.route.stage import LanArm, LanInterface, LanNode, LanProbe
from support.equal_hosts import HostRun, host_rig
from support.sentences import check_sentences

PASS, WARN, FAIL, NOT_MEASURED = Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.NOT_MEASURED


@pytest.fixture(scope="module")
def simulated():
    """Two hosts, and three."""
    return {number: HostRun(host_rig("route", number), route) for number in (2, 3)}


@pytest.fixture
def pair(simulated):
    return HostRun(simulated[2].loaded, route, simulated[2].recording)


@pytest.fixture
def three(simulated):
    return HostRun(simulated[3].loaded, route, simulated[3].recording)


def change(run, record, where, **changes):
    """Change the records of that type for which `where` holds."""
    made = [replace(one, **changes) if where(one) else one for one in run.recording.of(record)]
    run.recording.put(record, made)


def of(subject, **fields):
    """Whether a record is of this node and has these values."""
    return lambda one: one.subject == subject and all(getattr(one, key) == fields[key] for key in fields)


def judged(run, *nodes):
    verdicts = [run.verdict(node) for node in nodes or ("n1", "n2")]
    check_sentences(verdicts)
    return verdicts


def test_it_is_promised_where_the_rig_has_several_nodes(pair):
    assert promised(route, pair.loaded, pair.recording.run.stages) == ("n1", "n2")
    alone = HostRun(host_rig("route", 1), route)
    assert "route" not in alone.recording.run.stages
    assert promised(route, alone.loaded, alone.recording.run.stages) == ()


def test_a_sound_pair_passes_and_says_what_was_found(pair):
    one, other = judged(pair)
    assert (one.outcome, other.outcome) == (PASS, PASS)
    assert one.detail == (
        "gloo, NCCL and Ray over eth0 to n2: 1000 Mbit/s, packets of 1500 bytes arrive; "
        "clock 3 ms behind that of n2"
    )
    both = list(tables(pair.recording))
    assert [len(one.rows) for one in both] == [4, 4]


def test_a_way_to_another_network_is_routed_and_said(three):
    """In the sentence and in the table, of the neighbour alone that it is to."""
    change(three, LanProbe, of("n1", to="n2"), network="routed")
    one, two, last = judged(three, "n1", "n2", "n3")
    assert (one.outcome, two.outcome, last.outcome) == (PASS, PASS, PASS)
    assert "; routed to n2: no network in common; clock" in one.detail
    assert "routed" not in two.detail + last.detail
    table = next(iter(tables(three.recording)))
    networks = {row[5] for row in table.rows if row[:2] == ("n1", "n2")}
    assert networks == {"routed"}
    assert "routed" not in {row[5] for row in table.rows if row[:2] != ("n1", "n2")}


def test_a_routed_way_beside_one_in_the_same_network_is_not_said(pair):
    probe = next(one for one in pair.recording.of(LanProbe) if of("n1", interface="eth0")(one))
    pair.recording.put(LanProbe, [*pair.recording.of(LanProbe), replace(probe, network="routed")])
    assert "routed" not in judged(pair)[0].detail


def test_a_name_that_leads_to_loopback_fails_with_the_line_to_write(pair):
    pair.change(LanNode, gloo="127.0.1.1", resolves="127.0.1.1")
    one, other = judged(pair)
    assert one.outcome is FAIL
    assert "its own name n1 is 127.0.1.1 here" in sentence(one)
    assert "`192.168.0.10 n1` in /etc/hosts on n1 in place of the line with 127.0.1.1" in one.remedy
    assert other.outcome is PASS


def test_a_name_that_nobody_knows_is_loopback_too(pair):
    pair.change(LanNode, gloo="127.0.0.1", resolves="")
    assert "its own name n1 cannot be looked up" in judged(pair)[0].detail


def test_an_interface_that_does_not_exist_is_named(pair):
    pair.change(LanNode, gloo="", variables="GLOO_SOCKET_IFNAME=eno9")
    one, _ = judged(pair)
    assert (one.outcome, one.detail) == (
        FAIL,
        "GLOO_SOCKET_IFNAME=eno9 names no interface with an address here",
    )


@pytest.mark.parametrize("outcome", ["no answer", "refused", "unreachable"])
def test_ports_that_do_not_answer_are_a_firewall_of_whoever_is_asked(pair, outcome):
    change(pair, LanProbe, of("n1"), outcome=outcome, mbps=None, passed=0)
    one, other = judged(pair)
    assert (one.outcome, other.outcome) == (NOT_MEASURED, FAIL)
    assert other.remedy.startswith("run `sudo ufw allow from 192.168.0.0/18` on n2")
    assert "see lan.route of n2" in one.detail


def test_one_whom_nobody_answers_has_the_firewall_itself(three):
    change(three, LanProbe, of("n1"), outcome="no answer", mbps=None, passed=0)
    one, two, last = judged(three, "n1", "n2", "n3")
    assert (one.outcome, two.outcome, last.outcome) == (FAIL, PASS, PASS)
    assert "a firewall on its way out" in one.detail


def test_a_closed_way_beside_an_open_one_is_no_firewall(pair):
    """Networks of containers have equal addresses on many hosts, and lead nowhere."""
    change(pair, LanProbe, of("n1", interface="wlan0"), outcome="no answer", mbps=None, passed=0)
    assert judged(pair)[0].outcome is PASS


def test_packets_that_get_lost_fail_with_the_largest_that_arrives(pair):
    change(pair, LanProbe, of("n1", interface="eth0"), full=9000, passed=1500)
    one, other = judged(pair)
    assert (one.outcome, other.outcome) == (FAIL, PASS)
    assert "packets of 9000 bytes from eth0 get lost" in one.detail
    assert one.remedy.startswith("run `sudo ip link set dev eth0 mtu 1500` on n1")


def test_an_mtu_that_the_path_tells_is_no_fault(pair):
    change(pair, LanProbe, of("n1", interface="eth0"), full=1400, passed=1400, told=1400)
    assert judged(pair)[0].outcome is PASS


def test_udp_that_is_filtered_is_said_and_what_stalls_fails(pair):
    change(pair, LanProbe, of("n1", interface="eth0"), passed=0)
    assert "UDP is not answered, TCP is" in judged(pair)[0].detail
    change(pair, LanProbe, of("n1", interface="eth0"), outcome="stalled", mbps=None)
    assert "stalled after the first bytes" in judged(pair)[0].detail


def test_wrong_bytes_fail(pair):
    made = [replace(one, verified=one.subject != "n1") for one in pair.recording.rounds]
    pair.recording.put(Round, made)
    assert "bytes arrived otherwise than they were sent over eth0" in judged(pair)[0].detail


def over_wifi(run, node="n1"):
    run.change(LanNode, node, gloo="192.168.64.10", resolves="192.168.64.10")
    change(run, LanArm, of(node, arm="as it is"), names="wlan0 eth0", shares=(0.94, 0.06))


def test_wifi_beside_a_cable_fails_with_the_bytes_that_went_over_it(pair):
    over_wifi(pair)
    one, other = judged(pair)
    assert (one.outcome, other.outcome) == (FAIL, PASS)
    said = "as it is 94 % of gloo's bytes went over wlan0, pinned 100 % over eth0; wlan0 is Wi-Fi"
    assert one.detail == said
    assert one.remedy.startswith("run `export GLOO_SOCKET_IFNAME=eth0 NCCL_SOCKET_IFNAME=eth0` on every node")


def test_ray_alone_over_wifi_is_to_be_restarted(pair):
    pair.change(LanNode, ray="192.168.64.10")
    one, other = judged(pair)
    assert (one.outcome, other.outcome) == (FAIL, PASS)
    assert one.detail == "Ray takes wlan0, Wi-Fi, and eth0 joins the same nodes"
    assert one.remedy == "restart Ray on n1 with `--node-ip-address` of eth0"


def test_gloo_and_ray_over_wifi_need_both_remedies(pair):
    over_wifi(pair)
    pair.change(LanNode, ray="192.168.64.10")
    one, other = judged(pair)
    assert (one.outcome, other.outcome) == (FAIL, PASS)
    assert one.detail.endswith("; wlan0 is Wi-Fi; Ray takes wlan0, too")
    assert one.remedy.startswith("run `export GLOO_SOCKET_IFNAME=eth0 ")
    assert one.remedy.endswith(" before `ray start` with `--node-ip-address` of eth0")


def test_an_address_of_wifi_is_no_fault_where_the_bytes_took_the_cable(pair):
    """Of two interfaces in one network the kernel's routes decide, not the address."""
    over_wifi(pair)
    change(pair, LanArm, of("n1", arm="as it is"), names="eth0 wlan0", shares=(0.99, 0.01))
    assert judged(pair)[0].outcome is PASS


def test_names_that_differ_are_said_and_exported_per_node(pair):
    for kind, fields in ((LanInterface, ("name",)), (LanProbe, ("interface",))):
        for name in fields:
            change(pair, kind, of("n2", **{name: "eth0"}), **{name: "enp5s0"})
    change(pair, LanProbe, of("n1", to_interface="eth0"), to_interface="enp5s0")
    pair.change(LanNode, "n2", best="enp5s0", nccl="enp5s0")
    one, other = judged(pair)
    assert (one.outcome, other.outcome) == (PASS, PASS)
    assert "to n2 (enp5s0 there: no one GLOO_SOCKET_IFNAME fits both)" in one.detail
    over_wifi(pair)
    assert "=eth0` on n1, =enp5s0 on n2, before" in judged(pair)[0].remedy


@pytest.mark.parametrize(
    ("slower", "equal", "outcome"), [(2.5, False, FAIL), (1.4, False, PASS), (2.5, True, PASS)]
)
def test_a_slower_cable_fails_beyond_what_bursts_differ_by(pair, slower, equal, outcome):
    """Of ports of equal speed one is not slower because its burst was."""
    change(pair, LanInterface, of("n1", name="wlan0"), kind="ethernet", speed_mbps=1000 if equal else None)
    change(pair, LanProbe, lambda one: one.interface == "wlan0", mbps=941 / slower)
    change(pair, LanProbe, lambda one: one.interface == "eth0", mbps=941.0)
    over_wifi(pair)
    one, _ = judged(pair)
    assert one.outcome is outcome
    assert ("Mbit/s beside 941" in one.detail) is (outcome is FAIL)


def test_nccl_is_judged_where_there_are_gpus(pair):
    pair.change(LanNode, nccl="wlan0 eth0")
    assert judged(pair)[0].detail == "NCCL takes wlan0, Wi-Fi, and eth0 joins the same nodes"
    pair.change(LanNode, nccl="eth0 wlan0")
    one, _ = judged(pair)
    assert (one.outcome, one.detail) == (WARN, "NCCL may also use wlan0, beside eth0")


def test_a_bridge_that_leads_nowhere_fails(pair):
    first = next(one for one in pair.recording.of(LanInterface) if one.subject == "n1")
    bridge = replace(first, name="docker0", kind="bridge", addresses="172.17.0.1/16")
    pair.recording.put(LanInterface, [*pair.recording.of(LanInterface), bridge])
    pair.change(LanNode, gloo="172.17.0.1", resolves="172.17.0.1")
    change(pair, LanArm, of("n1", arm="as it is"), outcome="failed", message="timed out", shares=(0.5, 0.5))
    assert "gloo takes docker0, a bridge of containers that leads to no other node" in judged(pair)[0].detail


def test_wifi_alone_warns(pair):
    for one in ("n1", "n2"):
        pair.change(LanNode, one, best="wlan0", nccl="wlan0", gloo="192.168.64.10", ray="192.168.64.10")
    change(pair, LanArm, lambda _: True, names="wlan0 eth0")
    probes = [one for one in pair.recording.of(LanProbe) if one.interface == "wlan0"]
    pair.recording.put(LanProbe, probes)
    assert judged(pair)[0].detail == "the nodes are joined by Wi-Fi (wlan0) alone"


@pytest.mark.parametrize(
    ("came", "outcome", "said"),
    [
        ("failed", FAIL, "gloo fails as it is (no route), and not pinned to eth0"),
        ("hung", FAIL, "gloo fails as it is (no route), and not pinned to eth0"),
        ("wrong", FAIL, "gloo's all-reduce, as it is, gave a wrong answer"),
        ("broken", NOT_MEASURED, "gloo was not tried as it is: [pair.cc:152] no route"),
    ],
)
def test_what_gloo_did(pair, came, outcome, said):
    change(pair, LanArm, of("n1", arm="as it is"), outcome=came, message="[pair.cc:152] no route")
    one, other = judged(pair)
    assert (one.outcome, other.outcome) == (outcome, PASS)
    assert said in one.detail


@pytest.mark.parametrize("arm", ["as it is", "pinned"])
def test_gloo_that_was_not_tried_is_not_measured(pair, arm):
    pair.recording.put(LanArm, [one for one in pair.recording.of(LanArm) if one.arm != arm])
    one, _ = judged(pair)
    assert (one.outcome, one.detail) == (NOT_MEASURED, f"gloo was not tried {arm}")


def test_gloo_that_only_fails_where_it_is_pinned_warns(pair):
    change(pair, LanArm, of("n1", arm="pinned"), outcome="failed", message="no route")
    one, _ = judged(pair)
    assert (one.outcome, one.detail) == (WARN, "gloo works as it is, and not pinned to eth0 (no route)")


def test_that_warning_hides_no_port_at_half_duplex(pair):
    change(pair, LanArm, of("n1", arm="pinned"), outcome="failed", message="no route")
    change(pair, LanInterface, of("n1", name="eth0"), full_duplex=False)
    one, _ = judged(pair)
    assert (one.outcome, one.detail) == (FAIL, "eth0 is at half duplex")


def test_what_hangs_in_both_arms_though_all_ways_are_fine_is_not_the_rigs(pair):
    """On a host whose CPUs others have, nothing ends in time."""
    change(pair, LanArm, of("n1"), outcome="hung", message="it did not end within 12 s")
    assert judged(pair)[0].outcome is NOT_MEASURED
    change(pair, LanArm, of("n1"), outcome="failed", message="reset by peer")
    one, _ = judged(pair)
    assert (one.outcome, one.detail) == (
        FAIL,
        "gloo does not get through, as it is and pinned: reset by peer",
    )


def test_a_variable_of_nccl_that_names_no_interface(pair):
    pair.change(LanNode, nccl="", variables="NCCL_SOCKET_IFNAME==eno9")
    detail = "NCCL_SOCKET_IFNAME==eno9 names no interface with an address here"
    assert judged(pair)[0].detail == detail


@pytest.mark.parametrize(
    ("record", "changes"),
    [
        (LanInterface, {"addresses": "", "speed_mbps": None}),
        (LanInterface, {"addresses": "192.168.0.10/x nonsense", "kind": "vpn"}),
        (LanProbe, {"outcome": "no answer", "mbps": None, "passed": -1}),
        (LanProbe, {"network": "", "target": "x", "interface": "gone"}),
        (LanNode, {"resolves": "", "gloo": "x", "nccl": " ", "best": "gone"}),
        (LanNode, {"ahead_s": float("nan"), "meets_at": "nobody", "trouble": "stalled"}),
        (LanNode, {"missing": "n2 nobody", "hostname": "", "variables": "="}),
        (LanArm, {"names": "", "shares": (), "sent_mb": 0.0}),
        (LanArm, {"payload_mb": 0.0, "outcome": "hung"}),
    ],
)
def test_damaged_records_raise_nothing_and_ways_that_are_missing_never_pass(pair, record, changes):
    change(pair, record, of("n1"), **changes)
    one, other = pair.verdict("n1"), pair.verdict("n2")
    assert "Error" not in one.detail + other.detail
    assert one.outcome is not PASS or record in (LanArm, LanNode)


def test_gloo_that_fails_by_the_other_node_names_it(pair):
    pair.change(LanNode, "n2", gloo="127.0.1.1", resolves="127.0.1.1")
    change(pair, LanArm, lambda _: True, outcome="failed", message="refused")
    one, other = judged(pair)
    assert (one.outcome, other.outcome) == (NOT_MEASURED, FAIL)
    assert one.detail == "gloo does not get through: see lan.route of n2"


def test_addresses_of_two_families_do_not_meet(pair):
    pair.change(LanNode, "n2", gloo="fd00::2", resolves="fd00::2")
    change(pair, LanInterface, of("n2", name="eth0"), addresses="192.168.0.11/18 fd00::2/64")
    change(pair, LanArm, lambda _: True, outcome="failed", message="ss_family")
    assert "gloo takes 192.168.0.10 here and fd00::2 on n2" in judged(pair)[0].detail


@pytest.mark.parametrize(
    ("changes", "outcome", "said"),
    [
        ({"full_duplex": False}, FAIL, "eth0 is at half duplex"),
        ({"speed_mbps": 100}, FAIL, "eth0 runs at 100 Mbit/s, limit ≥ 1000 Mbit/s"),
        ({"speed_mbps": 2500}, PASS, "2500 Mbit/s"),
        ({"speed_mbps": None, "full_duplex": None}, PASS, "to n2: packets of 1500"),
    ],
)
def test_ports(pair, changes, outcome, said):
    change(pair, LanInterface, of("n1", name="eth0"), **changes)
    one, _ = judged(pair)
    assert one.outcome is outcome
    assert said in one.detail


def test_the_slower_of_two_ports_warns(pair):
    change(pair, LanInterface, of("n2", name="eth0"), speed_mbps=2500)
    one, other = judged(pair)
    assert (one.outcome, one.detail, other.outcome) == (WARN, "eth0 runs at 1000 Mbit/s, n2 at 2500", PASS)


def test_clocks_that_differ_warn_and_the_odd_one_of_three_is_told(pair, three):
    pair.change(LanNode, "n2", ahead_s=90.0)
    assert [one.outcome for one in judged(pair)] == [WARN, WARN]
    three.change(LanNode, "n2", ahead_s=-90.0)
    one, two, last = judged(three, "n1", "n2", "n3")
    assert (one.outcome, two.outcome, last.outcome) == (WARN, WARN, WARN)
    assert two.detail == "its clock is 90.0 s behind those of the others (limit 1 s)"


def test_a_node_that_could_not_meet_the_others(pair):
    pair.recording.put(LanProbe, [])
    pair.recording.put(LanArm, [])
    pair.change(LanNode, missing="n2", best="")
    pair.change(LanNode, "n2", trouble="no answer", best="", ahead_s=None)
    one, other = judged(pair)
    assert (one.outcome, other.outcome) == (FAIL, NOT_MEASURED)
    assert "connections from n2 to ports" in one.detail
    assert other.detail == "its connections to n1, where all nodes meet, were not answered"
    pair.change(LanNode, "n2", trouble="refused")
    assert [one.outcome for one in judged(pair)] == [NOT_MEASURED, NOT_MEASURED]


def test_one_of_three_that_could_not_meet_the_others_has_the_fault(three):
    three.change(LanNode, missing="n2")
    three.change(LanNode, "n2", trouble="no answer", best="", ahead_s=None)
    for kind in (LanProbe, LanArm):
        kept = [one for one in three.recording.of(kind) if "n2" not in (one.subject, getattr(one, "to", ""))]
        three.recording.put(kind, kept)
    one, two, last = judged(three, "n1", "n2", "n3")
    assert (one.outcome, two.outcome, last.outcome) == (PASS, FAIL, PASS)
    assert "a firewall on its way out" in two.detail


def test_nothing_recorded_is_not_measured(pair):
    pair.recording.put(LanNode, [])
    assert {one.outcome for one in judged(pair)} == {NOT_MEASURED}


@pytest.mark.parametrize("kind", [LanProbe, LanInterface])
def test_without_a_part_of_it_nothing_passes(pair, kind):
    pair.recording.put(kind, [])
    assert {one.outcome for one in judged(pair)} == {NOT_MEASURED}


def test_nodes_of_one_machine_have_no_lan(pair):
    pair.recording.run = replace(pair.recording.run, simulated=False)
    assert {one.outcome for one in judged(pair)} == {Outcome.NOT_APPLICABLE}


def test_what_was_recorded_can_be_judged_again_from_disk(pair, tmp_path):
    writer = RecordingWriter(tmp_path, pair.recording.run)
    for kind in (LanArm, LanInterface, LanNode, LanProbe):
        for one in pair.recording.of(kind):
            writer.add(one)
    writer.close()
    again = read_recording(tmp_path)
    for kind in (LanArm, LanInterface, LanNode, LanProbe):
        assert list(again.of(kind)) == list(pair.recording.of(kind))
