"""What the LAN between nodes is judged by: rates, losses, silence, and the other pairs."""

from dataclasses import replace

import pytest

from rigproof.records.measurements import Round
from rigproof.records.verdict import Outcome
from rigproof.stages.lan.criteria import bandwidth, tables
from rigproof.stages.lan.stage import STAGE, LanEnd, LanLatency, LanTraffic
from support.equal_hosts import host_rig
from support.lan_run import PAIRS, LanRun

BY = ("tcp", "gloo", "nccl", "ray")


def test_a_gigabit_lan_passes_and_says_what_was_measured(run):
    assert set(run.outcomes().values()) == {Outcome.PASS}
    found = run.first()
    assert found.limit == pytest.approx(0.85 * 117.7, rel=1e-3)
    assert found.detail.startswith(
        "tcp 117 there, 116 back, 111 + 111 at once, 0 % sent again, 0.10 ms one way"
    )
    assert "; gloo 111; nccl 112; ray 99.6" in found.detail
    assert "1000 Mbit/s" in found.limit_source
    [table] = tables(run.recording)
    assert [row[:2] for row in table.rows] == [(pair, by) for pair in PAIRS for by in BY]
    assert len(table.columns) == len(table.rows[0])


@pytest.mark.parametrize(
    ("slow", "said"),
    [
        (("n1+n2", "n2+n3"), "all to or from n2 is slow, all else is not: its card, cable or port"),
        (("n1+n2",), "both are fast with others: it lies between them"),
        (PAIRS, "every pair is slow"),
    ],
)
def test_a_slow_link_is_told_from_a_slow_node_by_the_other_pairs(run, slow, said):
    run.slower(0.5, *slow, traffic="tcp")
    assert {pair for pair, outcome in run.outcomes().items() if outcome is Outcome.FAIL} == set(slow)
    assert said in run.first().detail


def test_with_two_nodes_it_cannot_be_told():
    run = LanRun(host_rig("lan", 2), bandwidth)
    run.slower(0.5, "n1+n2", direction="back")
    found = run.first()
    assert found.outcome is Outcome.FAIL
    assert found.detail.startswith("tcp from n2 to n1")
    assert "which end cannot be told" in found.detail
    assert found.remedy.startswith("replace one part at a time: the cable of n1, of n2")


@pytest.mark.parametrize(
    ("labels", "share", "words"),
    [
        ({"traffic": "gloo", "operation": "all_reduce"}, 0.80, "gloo all_reduce"),
        ({"traffic": "nccl", "operation": "broadcast"}, 0.80, "nccl broadcast from n1 to n2"),
        ({"traffic": "tcp", "company": "together", "direction": "back"}, 0.5, "tcp from n2 to n1, both ways"),
        ({"traffic": "ray", "direction": "back"}, 0.6, "Ray's objects from n2 to n1; TCP is fast"),
        (
            {"traffic": "ray", "company": "together"},
            0.5,
            "Ray's objects from n1 to n2, both ways busy; TCP is fast",
        ),
    ],
)
def test_each_kind_of_traffic_has_a_floor(run, labels, share, words):
    run.slower(share, "n1+n2", **labels)
    found = run.first()
    assert found.outcome is Outcome.FAIL
    assert found.detail.startswith(words)


def test_all_gather_of_two_has_none(run):
    run.slower(0.01, "n1+n2", operation="all_gather")
    assert run.first().outcome is Outcome.PASS


def test_half_duplex_is_named(run):
    run.slower(0.52, "n1+n2", traffic="tcp", company="together")
    assert "half duplex" in run.first().detail
    run.ends("n2", full_duplex=False)
    assert "eth0 of n2 is half duplex" in run.first().detail


@pytest.mark.parametrize(
    ("mbit", "stated", "share", "outcome"),
    [
        (100.0, None, 0.1, Outcome.FAIL),  # a broken pair of wires
        (100.0, 100.0, 0.1, Outcome.PASS),
        (100.0, 1000.0, 0.1, Outcome.FAIL),
        (2500.0, None, 1.0, Outcome.FAIL),
        (2500.0, 1000.0, 1.0, Outcome.PASS),
        (100_000.0, None, 10.0, Outcome.PASS),  # no stream fills it
        (10_000.0, None, 5.0, Outcome.FAIL),
        (None, 1000.0, 1.0, Outcome.PASS),
    ],
)
def test_the_link_is_what_the_card_reports_or_the_rig_states(run, mbit, stated, share, outcome):
    run.ends(link_mbit=mbit)
    if stated is not None:
        run.settings(link_mbit=stated)
    run.slower(share, "n1+n2")
    found = run.first()
    assert found.outcome is outcome
    linked = "has linked at 100 Mbit/s" in found.detail
    assert linked is (outcome is Outcome.FAIL and mbit == 100.0)


def test_the_slower_end_counts(run):
    run.ends(link_mbit=10_000.0)
    run.ends("n2", link_mbit=1000.0)
    assert run.first().outcome is Outcome.PASS
    assert "eth0 of n2" in run.first().limit_source


def test_gloo_has_a_lower_floor_on_fast_links(run):
    run.ends(link_mbit=10_000.0)
    run.slower(10.0, "n1+n2")
    run.slower(0.8, "n1+n2", traffic="gloo")
    assert run.first().outcome is Outcome.PASS


@pytest.mark.parametrize(("mtu", "address", "payload"), [(9000, "10.0.0.1", 123.8), (1500, "fd00::1", 116.1)])
def test_large_frames_carry_more_and_ipv6_less(run, mtu, address, payload):
    run.ends(mtu=mtu, address=address)
    assert run.first().limit == pytest.approx(0.85 * payload, rel=1e-3)


def test_an_end_whose_speed_the_profile_states_is_not_asked_for(run):
    run.loaded = host_rig(STAGE, stages={"lan": {"link_mbit": 1000}})  # of n1
    run.ends(link_mbit=None)
    assert "(n2)" in run.first().detail


def test_no_speed_is_no_limit_and_says_what_to_state(run):
    run.ends("n2", link_mbit=None)
    found = run.first()
    assert (found.outcome, found.measured) == (Outcome.NO_LIMIT, pytest.approx(111, rel=0.01))
    assert "no driver reports the link's speed (n2): state `stages.lan.link_mbit`" in found.detail
    run.counted(only=lambda one: one.sent, resent=1000)
    assert run.first().outcome is Outcome.FAIL  # losses need no speed


@pytest.mark.parametrize(
    ("share", "outcome"),
    [(0.0005, Outcome.PASS), (0.002, Outcome.WARN), (0.012, Outcome.FAIL)],
)
def test_what_is_sent_again(run, share, outcome):
    run.counted(
        only=lambda one: one.role == "sender" and one.node == "n2", sent=100_000, resent=int(2e5 * share)
    )
    run.counted(only=lambda one: one.role == "sender" and one.node == "n1", sent=100_000, resent=0)
    found = run.first()
    assert found.outcome is outcome
    if outcome is not Outcome.PASS:
        assert (found.unit, found.direction) == ("%", "at_most")
        assert found.measured == pytest.approx(100 * share, rel=0.01)
        assert "most from n2, at" in found.detail
        assert "a bad cable, port or switch" in found.detail


@pytest.mark.parametrize(("share", "outcome"), [(0.0, "pass"), (0.00005, "pass"), (0.0005, "warn")])
def test_errors_that_a_card_counts_warn_though_nothing_was_sent_again(run, share, outcome):
    run.counted(only=lambda one: one.sent, mb=144.8, sent=None, resent=None)  # 400,000 packets of TCP
    run.counted(only=lambda one: (one.node, one.direction) == ("n2", "out"), errors=int(2e5 * share), drops=3)
    found = run.first()
    assert found.outcome.value == outcome
    if outcome == "warn":
        assert "of packets with errors; 200 errors, 6 drops on the card of n2" in found.detail


@pytest.mark.parametrize(("mbit", "share", "outcome"), [(10_000.0, 2.0, "pass"), (10_000.0, 1.0, "fail")])
def test_of_a_fast_link_ray_is_asked_for_a_part(run, mbit, share, outcome):
    """Its own processes are the limit there; but what a gigabit carries is too little."""
    run.ends(link_mbit=mbit)
    run.slower(10.0, "n1+n2")
    run.slower(0.1 * share, "n1+n2", traffic="ray")
    assert run.first().outcome.value == outcome


def test_objects_that_do_not_come_are_the_port_of_ray_not_the_cable(run):
    run.happened("lan_silent", "ray: nothing came from the store of n2 for 12 s")
    found = run.first()
    assert found.outcome is Outcome.FAIL
    assert "though TCP came through: a firewall closes the port of Ray's object" in found.detail
    assert found.remedy.startswith("run `sudo ufw allow from` the address of ")
    assert run.verdict("n2+n3").outcome is Outcome.PASS


def test_errors_of_the_cards_are_said(run):
    run.slower(0.5, "n1+n2", traffic="tcp")
    run.counted(only=lambda one: one.node == "n2", errors=7)
    assert "28 errors on the card of n2" in run.first().detail


def test_where_tcp_loses_segments_slow_objects_are_not_said_to_be_ray_s_own_doing(run):
    run.slower(0.3, "n1+n2", traffic="ray")
    assert "TCP is fast: not the cable" in run.first().detail
    run.counted(only=lambda one: one.traffic == "tcp" and one.sent, resent=250)
    found = run.first()
    assert found.outcome is Outcome.FAIL
    assert "sent again: a bad cable, port or switch" in found.detail
    assert "not the cable" not in found.detail


def test_silence_fails_and_names_the_node(run):
    for pair in ("n1+n2", "n2+n3"):
        run.happened("lan_silent", "tcp: nothing came from n2 for 5 s", pair)
    found = run.first()
    assert (found.outcome, found.from_s) == (Outcome.FAIL, 3.0)
    assert found.detail.startswith("tcp: nothing came from n2 for 5 s; all to or from n2 is slow")
    assert run.verdict("n1+n3").outcome is Outcome.PASS


def test_silence_because_a_process_was_lost_is_no_measurement(run):
    run.happened("lan_silent", "tcp: nothing came from n2 for 5 s")
    run.happened("crew_failed", "it lost n2/gpu0#0; the others were told to stop")
    found = run.first()
    assert found.outcome is Outcome.NOT_MEASURED
    assert "it lost n2/gpu0#0" in found.detail


def test_changed_data_fail(run):
    run.happened("lan_wrong", "tcp: bytes 5 to 9 of a stream out differ")
    assert run.first().outcome is Outcome.FAIL
    assert run.verdict("n2+n3").outcome is Outcome.PASS


def test_an_unverified_round_fails_without_an_event(run):
    made = [
        replace(one, verified=one.subject != "n1+n2" or one.label("traffic") != "gloo")
        for one in run.recording.rounds
    ]
    run.recording.put(Round, made)
    assert run.first().outcome is Outcome.FAIL
    assert run.first().detail == "a round of gloo is not what was sent"


def test_two_nodes_on_one_host_have_no_lan(run):
    run.ends("n1", kind="loopback")
    assert run.first().outcome is Outcome.PASS  # one of them alone would be a mistake
    run.ends(kind="loopback")
    assert run.first().outcome is Outcome.NOT_APPLICABLE


@pytest.mark.parametrize(
    "labels",
    [
        {"direction": "back", "traffic": "tcp"},
        {"traffic": "gloo"},
        {"traffic": "nccl"},
        {"traffic": "ray"},
        {"traffic": "ray", "company": "together"},
        {},
    ],
)
def test_what_was_due_and_is_missing_is_not_measured(run, labels):
    run.without(**labels)
    kept = [one for one in run.recording.of(LanTraffic) if one.subject != "n1+n2"]
    run.recording.put(LanTraffic, kept)
    assert run.first().outcome is Outcome.NOT_MEASURED


def test_a_library_that_could_not_be_used_is_not_measured_with_its_words(run):
    run.without(traffic="gloo")
    run.counted(only=lambda one: one.traffic == "gloo", mb=0.0)
    run.happened("lan_unable", "gloo: no device for eth0")
    run.happened("lan_silent", "gloo: nobody came to 10.0.0.1:4321 for 60 s")
    found = run.first()
    assert (found.outcome, "no device for eth0" in found.detail) == (Outcome.NOT_MEASURED, True)


@pytest.mark.parametrize(("mb", "outcome"), [(1.0, Outcome.FAIL), (100.0, Outcome.NOT_MEASURED)])
def test_too_few_rounds_can_only_fail(run, mb, outcome):
    """A stream that stalls has few windows; what little it moved is known all the same."""
    where = {"traffic": "tcp", "direction": "out", "company": "alone"}
    own = [
        one for one in run.recording.rounds if one.subject == "n1+n2" and where.items() <= one.labels.items()
    ]
    run.recording.put(Round, [one for one in run.recording.rounds if one not in own[:-2]])
    run.counted(
        only=lambda one: one.role == "receiver" and one.direction == "out", mb=mb, seconds=0.5, card_mb=None
    )
    assert run.first().outcome is outcome


@pytest.mark.parametrize(
    ("lost", "name"),
    [
        ({"traffic": "gloo", "operation": "broadcast"}, "gloo broadcast"),
        ({"traffic": "ray"}, "Ray's objects"),
    ],
)
def test_rounds_of_others_than_tcp_that_are_lost_are_no_low_rate(run, lost, name):
    """What they moved in all took longer: they met, and prepared and compared data, too."""
    run.without(**lost)
    run.counted(only=lambda one: one.traffic == lost["traffic"], mb=1.0)
    found = run.first()
    assert found.outcome is Outcome.NOT_MEASURED
    assert found.detail.startswith(f"too few rounds of {name}")


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_an_end_that_did_not_report_is_no_measurement(run, node):
    made = [one for one in run.recording.of(LanEnd) if (one.subject, one.node) != ("n1+n2", node)]
    run.recording.put(LanEnd, made)
    assert run.first().outcome is Outcome.NOT_MEASURED


@pytest.mark.parametrize("lost", [{}, {"node": "n2"}, {"company": "together", "node": "n1"}])
def test_losses_that_nobody_counted_are_no_measurement(run, lost):
    kept = [
        one for one in run.recording.of(LanTraffic)
        if one.subject != "n1+n2" or any(getattr(one, name) != value for name, value in lost.items())
    ]  # fmt: skip
    run.recording.put(LanTraffic, kept)
    assert run.first().outcome is Outcome.NOT_MEASURED


def test_what_the_workers_were_told_must_be_known(run):
    stage = run.recording.stages[STAGE]
    run.recording.stages = {**run.recording.stages, STAGE: replace(stage, settings={})}
    assert run.first().outcome is Outcome.NOT_MEASURED


def test_a_kernel_that_counts_nothing_leaves_the_rest_judged(run):
    run.counted(sent=None, resent=None, card_mb=None, errors=None, drops=None, waiting_share=None)
    assert run.first().outcome is Outcome.PASS
    assert "sent again" not in run.first().detail
    run.recording.put(LanLatency, [])
    assert run.first().outcome is Outcome.PASS
    run.slower(0.5, "n1+n2")
    assert run.first().outcome is Outcome.FAIL
