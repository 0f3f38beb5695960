"""What a node's ways to the others are judged by: names, ports, packets, exchanges and clocks."""

from dataclasses import replace

import pytest

from rigproof.judging.judge import promised
from rigproof.records.disk.store import RecordingWriter, read_recording
from rigproof.records.measurements import Round
from rigproof.records.verdict import Outcome, sentence
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.route.criteria import route, tables
from rigproof.stages.route.stage import LanArm, LanInterface, LanNode, LanProbe
from support.equal_hosts import HostRun, host_rig
from support.ways import change, judged, of

PASS, WARN, FAIL, NOT_MEASURED = Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.NOT_MEASURED


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
    assert [len(one.rows) for one in both] == [4, 10]


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


def share_ipv6(run):
    """The cable joins both by IPv6, and by IPv4 they are in networks of their own, as Ray has them."""
    cable = [one for one in run.recording.of(LanProbe) if one.interface == "eth0"]
    six = [replace(one, network="fd00::/64", source="fd00::1", target="fd00::2") for one in cable]
    run.recording.put(LanProbe, [replace(one, network="routed") for one in cable] + six)


def test_nodes_that_share_ipv6_alone_are_told_so(pair):
    share_ipv6(pair)
    one, other = judged(pair)
    assert (one.outcome, other.outcome) == (PASS, PASS)
    assert "; only IPv6 is in common with n2: gloo's IPv4 is routed; clock" in one.detail
    pair.change(LanNode, gloo="fd00::1", resolves="fd00::1")
    assert "IPv6" not in judged(pair)[0].detail


@pytest.mark.parametrize("library", ["gloo", "NCCL"])
def test_a_library_that_fails_by_ipv4_where_ipv6_alone_is_shared(pair, library):
    share_ipv6(pair)
    change(pair, LanArm, of("n1", library=library), outcome="hung", message="it did not end for 12 s")
    one, _ = judged(pair)
    assert (one.outcome, one.detail) == (FAIL, f"{library} works by IPv4, and only IPv6 is in common with n2")
    assert one.remedy == (
        "set n1 to its address of IPv6 in /etc/hosts on n1, and put `export NCCL_SOCKET_FAMILY=AF_INET6` "
        "into ~/.bashrc"
    )


def test_a_name_that_leads_to_loopback_fails_with_the_line_to_write(pair):
    pair.change(LanNode, gloo="127.0.1.1", resolves="127.0.1.1")
    one, other = judged(pair)
    assert one.outcome is FAIL
    assert "its own name n1 is 127.0.1.1 here" in sentence(one)
    assert (
        "`10.0.0.1 n1` in /etc/hosts on n1 in place of the line with 127.0.1.1; it acts at once" in one.remedy
    )
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
    assert other.remedy.startswith("run `sudo ufw allow from 10.0.0.0/24` on n2")
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


def test_nccl_that_was_planned_and_not_tried_is_no_pass(pair):
    pair.recording.put(LanArm, [one for one in pair.recording.of(LanArm) if one.library == "gloo"])
    one, other = judged(pair)
    assert (one.outcome, other.outcome) == (NOT_MEASURED, NOT_MEASURED)
    assert one.detail.startswith("NCCL was not tried as it is")


@pytest.mark.parametrize("changes", [{"full": 9000, "passed": 1500}, {"outcome": "stalled", "mbps": None}])
@pytest.mark.parametrize(("end", "outcome"), [("wlan0", PASS), ("eth0", FAIL)])
def test_a_way_to_a_port_that_nothing_uses_there_is_not_judged(pair, end, outcome, changes):
    probe = next(one for one in pair.recording.of(LanProbe) if of("n1", interface="eth0")(one))
    across = replace(probe, to_interface=end, target="10.0.0.99", **changes)
    pair.recording.put(LanProbe, [*pair.recording.of(LanProbe), across])
    assert judged(pair)[0].outcome is outcome


def test_a_wrong_sum_is_not_blamed_on_the_cable(pair):
    change(pair, LanArm, of("n1", library="NCCL", arm="as it is"), outcome="wrong")
    rounds = [
        replace(one, verified=one.label("over") != "NCCL as it is" or one.subject != "n1")
        for one in pair.recording.rounds
    ]
    pair.recording.put(Round, rounds)
    one, _ = judged(pair)
    assert (one.outcome, one.detail) == (FAIL, "NCCL's all-reduce, as it is, gave a wrong answer")


def test_variables_that_lead_nowhere_are_named(pair):
    pair.change(LanNode, gloo="127.0.0.1", variables="GLOO_SOCKET_IFNAME=lo")
    one, _ = judged(pair)
    assert one.detail.startswith("GLOO_SOCKET_IFNAME=lo: gloo waits on 127.0.0.1")
    assert "export GLOO_SOCKET_IFNAME=eth0" in one.remedy
    pair.change(LanNode, gloo="10.0.0.1", nccl="", variables="NCCL_SOCKET_FAMILY=AF_INET6")
    one, _ = judged(pair)
    assert one.detail == "NCCL_SOCKET_FAMILY=AF_INET6: no interface here has such an address"


def test_mtus_that_differ_warn(pair):
    change(pair, LanInterface, of("n1", name="eth0"), mtu=9000)
    one, other = judged(pair)
    assert (one.outcome, one.detail) == (WARN, "eth0 has an MTU of 9000, eth0 of n2 one of 1500")
    assert other.outcome is PASS


@pytest.mark.parametrize("library", ["gloo", "NCCL"])
@pytest.mark.parametrize(
    ("came", "outcome", "said"),
    [
        ("failed", FAIL, "{} fails as it is (no route), and works if told to use eth0"),
        ("hung", FAIL, "{} fails as it is (no route), and works if told to use eth0"),
        ("wrong", FAIL, "{}'s all-reduce, as it is, gave a wrong answer"),
        ("broken", NOT_MEASURED, "{} was not tried as it is: [pair.cc:152] no route"),
    ],
)
def test_what_gloo_and_nccl_did(pair, library, came, outcome, said):
    arm = of("n1", arm="as it is", library=library)
    change(pair, LanArm, arm, outcome=came, message="[pair.cc:152] no route")
    one, other = judged(pair)
    assert (one.outcome, other.outcome) == (outcome, PASS)
    assert said.format(library) in one.detail


@pytest.mark.parametrize(
    ("came", "outcome", "said"),
    [
        ("wrong", FAIL, "Ray's object came with other bytes"),
        ("failed", NOT_MEASURED, "Ray's object did not come: nothing came"),
        ("broken", NOT_MEASURED, "Ray's object did not come: nothing came"),
    ],
)
def test_what_ray_did(pair, came, outcome, said):
    change(pair, LanArm, of("n1", library="Ray"), outcome=came, message="nothing came")
    one, other = judged(pair)
    assert (one.outcome, other.outcome) == (outcome, PASS)
    assert said in one.detail


def test_a_node_that_does_not_tell_of_rays_object_is_not_measured_if_others_do(pair):
    rays = of("n1", library="Ray")
    pair.recording.put(LanArm, [one for one in pair.recording.of(LanArm) if not rays(one)])
    one, other = judged(pair)
    assert (one.outcome, other.outcome) == (NOT_MEASURED, PASS)
    assert "Ray's object was not sent" in one.detail


def test_what_is_not_known_of_one_library_hides_no_failure_of_another(pair):
    change(pair, LanArm, of("n1", library="Ray"), outcome="failed", message="nothing came")
    change(pair, LanArm, of("n1", library="gloo", arm="pinned"), outcome="failed", message="no route")
    assert judged(pair)[0].outcome is NOT_MEASURED
    change(pair, LanArm, of("n1", library="NCCL", arm="as it is"), outcome="failed", message="no route")
    one, _ = judged(pair)
    assert (one.outcome, one.detail) == (
        FAIL,
        "NCCL fails as it is (no route), and works if told to use eth0",
    )


@pytest.mark.parametrize("arm", ["as it is", "pinned"])
def test_gloo_that_was_not_tried_is_not_measured(pair, arm):
    pair.recording.put(LanArm, [one for one in pair.recording.of(LanArm) if one.arm != arm])
    one, _ = judged(pair)
    assert (one.outcome, one.detail) == (NOT_MEASURED, f"gloo was not tried {arm}")


def test_nccl_beside_a_node_without_a_gpu_is_left_out_and_said(pair):
    change(pair, LanArm, of("n1", library="NCCL"), outcome="left out", message="n2 has no GPU")
    one, _ = judged(pair)
    assert one.outcome is PASS
    assert one.detail.startswith("gloo, NCCL and Ray over eth0 to n2")
    assert "; NCCL not tried: n2 has no GPU; clock" in one.detail


@pytest.mark.parametrize("library", ["gloo", "NCCL"])
def test_what_only_fails_where_it_is_pinned_warns(pair, library):
    change(pair, LanArm, of("n1", arm="pinned", library=library), outcome="failed", message="no route")
    one, _ = judged(pair)
    assert (one.outcome, one.detail) == (
        WARN,
        f"{library} works as it is, and not if told to use eth0 (no route)",
    )


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
        (LanInterface, {"addresses": "", "speed_mbps": None, "name": "gone"}),
        (LanInterface, {"addresses": "10.0.0.1/x nonsense", "kind": "vpn"}),
        (LanProbe, {"outcome": "no answer", "mbps": None, "passed": -1}),
        (LanProbe, {"network": "", "target": "x", "interface": "gone"}),
        (LanNode, {"resolves": "", "gloo": "x", "nccl": " ", "best": "gone"}),
        (LanNode, {"ahead_s": float("nan"), "meets_at": "nobody", "trouble": "stalled"}),
        (LanNode, {"missing": "n2 nobody", "hostname": "", "variables": "="}),
        (LanArm, {"names": "", "shares": (), "sent_mb": 0.0}),
        (LanArm, {"payload_mb": 0.0, "outcome": "hung"}),
        (LanArm, {"payload_mb": 0.0}),
        (LanArm, {"sent_mb": float("nan"), "shares": None}),
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
    change(pair, LanInterface, of("n2", name="eth0"), addresses="10.0.0.2/24 fd00::2/64")
    change(pair, LanArm, lambda _: True, outcome="failed", message="ss_family")
    assert "gloo takes 10.0.0.1 here and fd00::2 on n2" in judged(pair)[0].detail


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
    assert (one.outcome, two.outcome, last.outcome) == (PASS, WARN, PASS)
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


@pytest.mark.parametrize("library", ["gloo", "NCCL", "Ray"])
def test_the_fault_of_each_library_alone_is_told_from_those_of_the_others(simulated, library):
    fault = f"lan-wrong-route@n1:field={library}"
    made = simulated_recording(simulated[2].loaded, "standard", [fault])
    one, other = judged(HostRun(simulated[2].loaded, route, made))
    assert (one.outcome, other.outcome) == (FAIL, PASS)
    assert one.detail.startswith(f"{library} sends 100 % of its bytes over wlan0 (Wi-Fi)")
    assert "too" not in one.detail


@pytest.mark.parametrize("kind", [LanProbe, LanInterface])
def test_without_a_part_of_it_nothing_passes(pair, kind):
    pair.recording.put(kind, [])
    assert {one.outcome for one in judged(pair)} == {NOT_MEASURED}


@pytest.mark.parametrize("kind", [LanProbe, LanInterface])
@pytest.mark.parametrize("whose", ["n1", "n2"])
def test_a_warning_hides_nothing_that_was_not_measured(pair, kind, whose):
    pair.change(LanNode, "n2", ahead_s=90.0)
    pair.recording.put(kind, [one for one in pair.recording.of(kind) if one.subject != whose])
    assert NOT_MEASURED in {one.outcome for one in judged(pair)}
    assert pair.verdict(whose).outcome is NOT_MEASURED


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
