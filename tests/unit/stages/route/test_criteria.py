"""What a node's ways to the others are judged by: names, ports, packets, choices, traffic and clocks."""

from dataclasses import replace

import pytest

from rigproof.judging.judge import promised
from rigproof.records.disk.store import RecordingWriter, read_recording
from rigproof.records.measurements import Round
from rigproof.records.verdict import Outcome, sentence
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.route.criteria import route, tables
from rigproof.stages.route.stage import STAGE, LanArm, LanInterface, LanNode, LanProbe
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


def went(run, names, shares, library="gloo", arm="as it is", **changes):
    """What the interfaces of n1 sent of a library's bytes."""
    change(run, LanArm, of("n1", arm=arm, library=library), names=names, shares=shares, **changes)


def over_wifi(run, library="gloo"):
    """As a library does whose address, or whose order of interfaces, says so."""
    takes = {
        "gloo": {"gloo": "192.168.64.10", "resolves": "192.168.64.10"},
        "NCCL": {"nccl": "wlan0 eth0"},
        "Ray": {"ray": "192.168.64.10"},
    }
    run.change(LanNode, **takes[library])
    went(run, "wlan0 eth0", (0.94, 0.06), library)


def test_wifi_beside_a_cable_fails_with_the_bytes_that_went_over_it(pair):
    over_wifi(pair)
    one, other = judged(pair)
    assert (one.outcome, other.outcome) == (FAIL, PASS)
    said = "gloo sends 94 % of its bytes over wlan0 (Wi-Fi); told to use eth0, 100 % over it"
    assert one.detail == said
    assert one.remedy == (
        "put `export {GLOO,NCCL}_SOCKET_IFNAME=eth0` into ~/.bashrc on every node, then restart Ray "
        "(`cluster down`, `up`)"
    )


def test_nccl_alone_over_wifi_fails_by_the_same_bytes(pair):
    over_wifi(pair, "NCCL")
    one, other = judged(pair)
    assert (one.outcome, other.outcome) == (FAIL, PASS)
    said = "NCCL sends 94 % of its bytes over wlan0 (Wi-Fi); told to use eth0, 100 % over it"
    assert one.detail == said
    assert one.remedy == (
        "put `export {GLOO,NCCL}_SOCKET_IFNAME=eth0` into ~/.bashrc on every node, then restart Ray "
        "(`cluster down`, `up`)"
    )


def test_ray_alone_over_wifi_is_to_be_restarted(pair):
    over_wifi(pair, "Ray")
    one, other = judged(pair)
    assert (one.outcome, other.outcome) == (FAIL, PASS)
    assert one.detail == "Ray sends 94 % of its bytes over wlan0 (Wi-Fi)"
    assert one.remedy == (
        "run `rigproof cluster down`, set n1's `address` in the profile to 10.0.0.1, then `up`; "
        "by hand, `ray start` with `--node-ip-address`"
    )


@pytest.mark.parametrize("library", ["NCCL", "Ray"])
def test_what_was_not_counted_is_judged_by_what_the_library_is_said_to_take(pair, library):
    """As in older recordings, in which gloo alone was tried, and no worker was told who has GPUs."""
    over_wifi(pair, library)
    pair.recording.put(LanArm, [one for one in pair.recording.of(LanArm) if one.library == "gloo"])
    stage = pair.recording.stages[STAGE]
    told = {
        worker: {key: value for key, value in spec.items() if key != "gpus"}
        for worker, spec in stage.settings["specs"].items()
    }
    settings = {**stage.settings, "specs": told}
    pair.recording.stages = {**pair.recording.stages, STAGE: replace(stage, settings=settings)}
    one, other = judged(pair)
    assert (one.outcome, other.outcome) == (FAIL, PASS)
    assert one.detail == f"{library} takes wlan0 (Wi-Fi), not eth0"
    assert other.detail.endswith("; NCCL not tried; clock 3 ms ahead of that of n1")


def test_nccl_that_was_planned_and_not_tried_is_no_pass(pair):
    pair.recording.put(LanArm, [one for one in pair.recording.of(LanArm) if one.library == "gloo"])
    one, other = judged(pair)
    assert (one.outcome, other.outcome) == (NOT_MEASURED, NOT_MEASURED)
    assert one.detail.startswith("NCCL was not tried as it is")


def test_gloo_and_ray_over_wifi_need_both_remedies(pair):
    over_wifi(pair)
    over_wifi(pair, "Ray")
    one, other = judged(pair)
    assert (one.outcome, other.outcome) == (FAIL, PASS)
    assert one.detail.endswith(" over wlan0 (Wi-Fi); Ray takes it, too")
    assert one.remedy.startswith("put `export {GLOO,NCCL}_SOCKET_IFNAME=eth0` ")
    assert one.remedy.endswith("then restart Ray with n1 at 10.0.0.1 in the profile")


def test_all_three_over_wifi_are_said_in_one_sentence(pair):
    for library in ("gloo", "NCCL", "Ray"):
        over_wifi(pair, library)
    assert judged(pair)[0].detail.endswith(" over wlan0 (Wi-Fi); NCCL and Ray take it, too")
    went(pair, "eth0 wlan0", (1.0, 0.0))
    assert judged(pair)[0].detail.endswith(" over wlan0 (Wi-Fi); Ray takes it, too")


@pytest.mark.parametrize("library", ["gloo", "NCCL", "Ray"])
def test_an_address_of_wifi_is_no_fault_where_the_bytes_took_the_cable(pair, library):
    """Of two interfaces in one network the kernel's routes decide, not the address."""
    over_wifi(pair, library)
    went(pair, "eth0 wlan0", (0.99, 0.01), library)
    one, _ = judged(pair)
    assert (one.outcome, "wlan0" in one.detail) == ((WARN, True) if library == "NCCL" else (PASS, False))


@pytest.mark.parametrize("library", ["gloo", "NCCL", "Ray"])
def test_bytes_over_wifi_fail_although_the_address_is_that_of_the_cable(pair, library):
    """Half of them are enough, as where NCCL uses both."""
    went(pair, "wlan0 eth0", (0.5, 0.5), library)
    one, other = judged(pair)
    assert (one.outcome, other.outcome) == (FAIL, PASS)
    assert one.detail.startswith(f"{library} sends 50 % of its bytes over wlan0 (Wi-Fi)")


@pytest.mark.parametrize(
    ("kind", "off"), [("wifi", "nmcli radio wifi off"), ("vpn", "nmcli device disconnect wlan0")]
)
def test_where_the_kernel_sends_by_wifi_what_is_pinned_no_variable_helps(pair, kind, off):
    change(pair, LanInterface, of("n1", name="wlan0"), kind=kind)
    for arm in ("as it is", "pinned"):
        went(pair, "wlan0 eth0", (1.0, 0.0), arm=arm)
    one, _ = judged(pair)
    assert one.outcome is FAIL
    assert one.detail.startswith("gloo sends 100 % of its bytes over wlan0 (")
    assert one.detail.endswith("); told to use eth0, 0 % over it")
    assert one.remedy == (
        f"run `{off}` on n1, or let it come last: `nmcli connection modify NAME ipv4.route-metric 2000`"
    )


def test_what_others_send_beside_the_library_is_not_the_librarys(pair):
    """Somebody uploads by the Wi-Fi as much as gloo sends by the cable."""
    went(pair, "eth0 wlan0", (0.5, 0.5), sent_mb=32.0)
    assert judged(pair)[0].outcome is PASS


@pytest.mark.parametrize("kind", ["vpn", "ethernet"])
def test_what_lies_above_or_below_the_cable_counts_the_same_bytes(pair, kind):
    """A VPN that is taken sends its bytes by the cable, too. A card below a VLAN does so pinned as well."""
    change(pair, LanInterface, of("n1", name="wlan0"), kind=kind)
    over_wifi(pair)
    went(pair, "wlan0 eth0", (0.5, 0.5), sent_mb=32.0)
    one, _ = judged(pair)
    assert (one.outcome, "gloo sends 100 %" in one.detail, "gloo sends 50 %" in one.detail) == (
        FAIL,
        False,
        True,
    )
    went(pair, "eth0 wlan0", (0.5, 0.5), arm="pinned", sent_mb=32.0)
    assert judged(pair)[0].outcome is PASS


def test_bytes_of_nccl_that_no_interface_counts_are_said(pair):
    over_wifi(pair, "NCCL")
    went(pair, "wlan0 eth0", (0.5, 0.5), "NCCL", sent_mb=0.1)
    pair.change(LanNode, nccl="eth0")
    one, _ = judged(pair)
    assert (one.outcome, one.detail) == (
        PASS,
        "gloo and Ray over eth0 to n2: 1000 Mbit/s, packets of 1500 bytes arrive; "
        "NCCL's bytes went past the interfaces; clock 3 ms behind that of n2",
    )


@pytest.mark.parametrize("pinned", [1.8, 0.0])
def test_what_others_upload_by_wifi_meanwhile_is_not_nccls(pair, pinned):
    """NCCL may take any interface; all of its bytes took the cable."""
    pair.change(LanNode, nccl="eth0 wlan0")
    for arm, by_wifi in (("as it is", 1.8), ("pinned", pinned)):
        sent = {"payload_mb": 2.0, "sent_mb": 2.1 + by_wifi, "names": "eth0 wlan0"}
        shares = tuple(mb / (2.1 + by_wifi) for mb in (2.1, by_wifi))
        change(pair, LanArm, of("n1", library="NCCL", arm=arm), **sent, shares=shares)
    one, _ = judged(pair)
    assert (one.outcome, one.detail) == (WARN, "NCCL may also use wlan0, beside eth0")


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


def test_a_cable_that_is_closed_is_said_where_wifi_alone_is_open(pair):
    cable = [one.interface == "eth0" for one in pair.recording.of(LanProbe)]
    pair.recording.put(
        LanProbe,
        [
            replace(one, outcome="no answer", mbps=None, passed=0) if closed else one
            for one, closed in zip(pair.recording.of(LanProbe), cable, strict=True)
        ],
    )
    change(pair, LanNode, lambda _: True, best="wlan0", gloo="192.168.64.10", ray="192.168.64.10")
    arms = [
        replace(one, names="wlan0 eth0", interface="wlan0" if one.interface else "")
        for one in pair.recording.of(LanArm)
    ]
    pair.recording.put(LanArm, arms)
    one, _ = judged(pair)
    assert one.outcome is WARN
    assert one.detail == "the nodes are joined by Wi-Fi (wlan0) alone: eth0 to n2: no answer"


def test_mtus_that_differ_warn(pair):
    change(pair, LanInterface, of("n1", name="eth0"), mtu=9000)
    one, other = judged(pair)
    assert (one.outcome, one.detail) == (WARN, "eth0 has an MTU of 9000, eth0 of n2 one of 1500")
    assert other.outcome is PASS


def test_names_that_differ_are_said_and_exported_per_node(pair):
    for kind, fields in ((LanInterface, ("name",)), (LanProbe, ("interface",))):
        for name in fields:
            change(pair, kind, of("n2", **{name: "eth0"}), **{name: "enp5s0"})
    change(pair, LanProbe, of("n1", to_interface="eth0"), to_interface="enp5s0")
    pair.change(LanNode, "n2", best="enp5s0", nccl="enp5s0")
    change(pair, LanArm, of("n2"), names="enp5s0 wlan0")
    one, other = judged(pair)
    assert (one.outcome, other.outcome) == (PASS, PASS)
    assert "to n2 (enp5s0 there: no one GLOO_SOCKET_IFNAME fits both)" in one.detail
    over_wifi(pair)
    assert "=eth0` into ~/.bashrc on n1, =enp5s0 on n2, then" in judged(pair)[0].remedy


def test_the_longest_names_of_interfaces_leave_room_for_the_next_step(pair):
    """Linux gives them 15 characters at most; those of USB adapters have so many."""
    cable, wifi = "enx00e04c680001", "wlx00e04c680002"
    for short, name in (("eth0", cable), ("wlan0", wifi)):
        change(pair, LanInterface, of("n1", name=short), name=name)
        change(pair, LanProbe, of("n1", interface=short), interface=name)
        change(pair, LanProbe, of("n2", to_interface=short), to_interface=name)
    pair.change(LanNode, best=cable, nccl=cable)
    change(pair, LanArm, of("n1"), names=f"{cable} {wifi}")
    for library in ("gloo", "NCCL", "Ray"):
        went(pair, f"{wifi} {cable}", (1.0, 0.0), library)
        one, _ = judged(pair)
        assert one.outcome is FAIL
        assert "=enx00e04c680001` into ~/.bashrc on n1, =eth0 on n2, then" in one.remedy
    change(pair, LanArm, of("n1", arm="pinned"), interface=cable)
    went(pair, f"{cable} {wifi}", (0.5, 0.5), outcome="failed", message="no route " * 30)
    for library in ("NCCL", "Ray"):
        went(pair, f"{cable} {wifi}", (1.0, 0.0), library)
    assert judged(pair)[0].detail.startswith("gloo fails as it is (no route")


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


@pytest.mark.parametrize(
    ("slower", "faster", "peer", "outcome"),
    [
        ((9400, 10_000), (14000, 100_000), 100_000, FAIL),
        ((9400, 10_000), (14000, 100_000), 16_000, PASS),  # the port at the other end
        ((9400, 10_000), (9900, 100_000), 100_000, PASS),
        ((14000, 1000), (14000, 100_000), 100_000, PASS),  # a bond states the slowest of its ports
        ((14000, 10_000), (13900, 100_000), 100_000, PASS),
        ((940, 1000), (1100, 10_000), 10_000, PASS),  # somewhere on its way there is a slower port
        ((9400, None), (14000, 100_000), 100_000, PASS),
        ((14000, 25_000), (13000, 100_000), 100_000, FAIL),  # one core is the limit of both bursts
        ((14000, 25_000), (13000, 100_000), 25_000, PASS),
        ((14000, 25_000), (9000, 100_000), 100_000, PASS),
    ],
)
def test_a_port_of_100_gbit_is_faster_than_a_slower_one_though_a_burst_fills_neither(
    pair, slower, faster, peer, outcome
):
    """A CPU core sends 14 Gbit/s: no more than 1.5 times as much as over the slower port."""
    change(pair, LanInterface, of("n1", name="wlan0"), kind="ethernet", speed_mbps=slower[1])
    change(pair, LanInterface, of("n2", name="wlan0"), kind="ethernet", speed_mbps=slower[1])
    change(pair, LanInterface, of("n1", name="eth0"), speed_mbps=faster[1])
    change(pair, LanInterface, of("n2", name="eth0"), speed_mbps=peer)
    change(pair, LanProbe, lambda one: one.interface == "wlan0", mbps=float(slower[0]))
    change(pair, LanProbe, lambda one: one.interface == "eth0", mbps=float(faster[0]))
    over_wifi(pair)
    one, _ = judged(pair)
    assert one.outcome is outcome
    assert (f"(a port of {slower[1]} Mbit/s beside 100000)" in one.detail) is (outcome is FAIL)


def test_an_interface_that_nccl_may_use_too_warns(pair):
    pair.change(LanNode, nccl="eth0 wlan0")
    one, _ = judged(pair)
    assert (one.outcome, one.detail) == (WARN, "NCCL may also use wlan0, beside eth0")


def test_a_bridge_that_leads_nowhere_fails(pair):
    first = next(one for one in pair.recording.of(LanInterface) if one.subject == "n1")
    bridge = replace(first, name="docker0", kind="bridge", addresses="172.17.0.1/16")
    pair.recording.put(LanInterface, [*pair.recording.of(LanInterface), bridge])
    pair.change(LanNode, gloo="172.17.0.1", resolves="172.17.0.1")
    change(pair, LanArm, of("n1", arm="as it is"), outcome="failed", message="timed out", shares=(0.5, 0.5))
    assert (
        "gloo takes docker0 (a bridge of containers that leads to no other node), not eth0"
        in judged(pair)[0].detail
    )


def test_wifi_alone_warns(pair):
    for one in ("n1", "n2"):
        pair.change(LanNode, one, best="wlan0", nccl="wlan0", gloo="192.168.64.10", ray="192.168.64.10")
    change(pair, LanArm, lambda _: True, names="wlan0 eth0")
    probes = [one for one in pair.recording.of(LanProbe) if one.interface == "wlan0"]
    pair.recording.put(LanProbe, probes)
    assert judged(pair)[0].detail == "the nodes are joined by Wi-Fi (wlan0) alone"


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
