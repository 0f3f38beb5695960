"""The LAN between three hosts: narrow, lossy, used by others, pulled out, and what is said of it.

100 Mbit/s in place of a gigabit, so that a busy machine is not the limit.
"""

from collections.abc import Iterator

import pytest

from rigproof.records.measurements import Event
from rigproof.records.verdict import Outcome
from rigproof.stages.lan.stage import GLOO, TCP, LanTraffic
from support.lan_ends import Lan
from support.network_hosts import Network

MBIT = 100
PAIRS = (("pc1", "pc2"), ("pc2", "pc3"), ("pc1", "pc3"))
FAR_BELOW = {"tcp_share": 0.3, "both_share": 0.5}  # what the CPUs of a busy machine carry


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with Network("pc1", "pc2", "pc3") as made:
        for name in made.hosts:
            made.carry(name, mbit=MBIT)
        yield made


@pytest.fixture
def lan(network: Network) -> Lan:
    return Lan(network)


def test_a_sound_lan_passes_by_tcp_and_gloo(lan: Lan) -> None:
    lan.measure(PAIRS[0], library_s=0.5)
    found = lan.verdict(*PAIRS[0], link_mbit=float(MBIT))
    assert found.outcome is Outcome.PASS or "for a CPU" in found.detail, found
    assert {one.traffic for one in lan.records if isinstance(one, LanTraffic)} == {TCP, GLOO}
    resent = [one.resent for one in lan.records if isinstance(one, LanTraffic) and one.role == "sender"]
    assert sum(one or 0 for one in resent) < 100


def test_a_slow_host_is_named_by_the_pairs_that_it_is_in(lan: Lan, network: Network) -> None:
    """By floors that what a busy machine's CPUs carry for all three hosts is far above."""
    network.carry("pc2", mbit=MBIT // 10)
    lan.measure(*PAIRS)
    network.carry("pc2", mbit=MBIT)
    for pair in PAIRS[:2]:
        found = lan.verdict(*pair, link_mbit=float(MBIT), **FAR_BELOW)
        assert found.outcome is Outcome.FAIL, found
        assert "all to or from pc2 is slow" in found.detail  # all else is not, unless a CPU was busy there
    found = lan.verdict(*PAIRS[2], link_mbit=float(MBIT), **FAR_BELOW)
    assert found.outcome is Outcome.PASS or "for a CPU" in found.detail, found


def test_a_slow_way_between_two_hosts_is_named_and_neither_of_them(lan: Lan, network: Network) -> None:
    network.carry_between("pc1", "pc2", mbit=MBIT / 10, else_mbit=MBIT)
    lan.measure(*PAIRS)
    for name in ("pc1", "pc2"):
        network.carry(name, mbit=MBIT)
    slow, *others = [lan.verdict(*pair, link_mbit=float(MBIT), **FAR_BELOW) for pair in PAIRS]
    assert slow.outcome is Outcome.FAIL, slow
    assert "both are fast with others: it lies between them" in slow.detail
    for found in others:
        assert found.outcome is Outcome.PASS or "for a CPU" in found.detail, found


def test_losses_are_seen_by_what_had_to_be_sent_again(lan: Lan, network: Network) -> None:
    if reason := network.lose("pc2", share=0.05):
        pytest.skip(reason)
    lan.measure(PAIRS[0])
    network.lose("pc2", share=0.0)
    found = lan.verdict(*PAIRS[0], link_mbit=float(MBIT))
    assert found.outcome is Outcome.FAIL, found
    assert "sent again" in found.detail
    assert "a bad cable, port or switch" in found.detail


def test_somebody_else_s_traffic_is_named_with_its_interface(lan: Lan, network: Network) -> None:
    others = Lan(network).begin("pc1", "pc3", tcp_s=60.0)
    others.until_traffic("out")  # for 18 s; none waits for the rest
    lan.measure(PAIRS[0])
    others.end()
    found = lan.verdict(*PAIRS[0], link_mbit=float(MBIT))
    assert found.outcome is Outcome.NOT_MEASURED, found
    assert found.detail.startswith("eth0 of pc1 sent ")
    assert "for others meanwhile: tcp from pc1 to pc2" in found.detail


def test_a_cable_that_is_pulled_out_ends_it_and_the_rest_is_judged(lan: Lan, network: Network) -> None:
    running = lan.begin(*PAIRS[0], tcp_s=60.0)
    running.until_traffic("out")
    network.pull_out("pc2")
    running.finish()
    network.put_back("pc2")
    assert {one.kind for one in lan.records if isinstance(one, Event)} == {"lan_silent"}
    lan.measure(PAIRS[2])
    found = lan.verdict(*PAIRS[0], link_mbit=float(MBIT))
    assert found.outcome is Outcome.FAIL
    assert "nothing" in found.detail
    other = lan.verdict(*PAIRS[2], link_mbit=float(MBIT))
    assert other.outcome is Outcome.PASS or "for a CPU" in other.detail, other
