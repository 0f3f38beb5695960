"""Which interfaces gloo, NCCL and Ray take, by the bytes that each counted, and which of them is the best."""

from dataclasses import replace

import pytest

from rigproof.records.verdict import Outcome
from rigproof.stages.route.stage import STAGE, LanArm, LanInterface, LanNode, LanProbe
from support.ways import change, judged, of

PASS, WARN, FAIL, NOT_MEASURED = Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.NOT_MEASURED


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


@pytest.mark.parametrize("library", ["gloo", "NCCL"])
def test_wifi_beside_a_cable_fails_with_the_bytes_that_went_over_it(pair, library):
    over_wifi(pair, library)
    one, other = judged(pair)
    assert (one.outcome, other.outcome) == (FAIL, PASS)
    said = f"{library} sends 94 % of its bytes over wlan0 (Wi-Fi); told to use eth0, 100 % over it"
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
