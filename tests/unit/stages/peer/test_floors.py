"""How fast two GPUs must copy to each other by what connects them, and what is said where that is slow."""

from dataclasses import replace

import pytest

from rigproof.records.verdict import Outcome
from rigproof.stages.peer.stage import BACK, BOTH, ENGINE, KERNEL, THERE
from rigproof.telemetry.nvml.peers import REASONS
from rigproof.telemetry.nvml.protocol import P2pStatus
from support.peer_bench import GPU, OTHER, PAIR, bench_of, pairs_of
from support.sentences import check_sentences

PASS, FAIL, NO_LIMIT = Outcome.PASS, Outcome.FAIL, Outcome.NO_LIMIT
TOWARDS = {THERE: "to the second", BACK: "to the first"}
H200_FLOOR = 0.74 * 18 * 25


# By NVLink


def test_two_cards_pass_by_the_links_between_them(bench):
    found = bench.peer()
    assert (found.outcome, found.limit) == (PASS, pytest.approx(H200_FLOOR))
    assert found.measured == pytest.approx(391, abs=4)
    assert found.limit_source == "25 GB/s of each link, hwprofiles/defaults.toml × 18 NVLinks × 0.74"
    assert found.detail.startswith("over 18 NVLinks; ")
    assert "both at once 70" in found.detail


@pytest.mark.parametrize(("by", "way"), [(ENGINE, THERE), (ENGINE, BACK)])
def test_the_slower_way_is_judged(bench, by, way):
    bench.slower(PAIR, 0.8, by=by, way=way)
    found = bench.peer()
    assert (found.outcome, found.measured) == (FAIL, pytest.approx(313, abs=4))
    assert found.detail == f"{TOWARDS[way]}, over 18 NVLinks"
    assert "`nvidia-smi nvlink -s` on localhost" in found.remedy


def test_both_ways_at_once_have_a_limit_of_their_own(bench):
    bench.slower(PAIR, 0.5, by=ENGINE, way=BOTH)
    found = bench.peer()
    assert (found.outcome, found.limit) == (FAIL, pytest.approx(2 * 0.6 * H200_FLOOR))
    assert found.measured == pytest.approx(351, abs=4)
    assert found.detail == "both at once, over 18 NVLinks"


@pytest.mark.parametrize("way", [THERE, BACK])
def test_a_kernels_stores_have_a_limit_of_their_own(bench, way):
    bench.slower(PAIR, 0.4, by=KERNEL, way=way)
    found = bench.peer()
    assert (found.outcome, found.limit) == (FAIL, pytest.approx(0.5 * H200_FLOOR))
    assert found.detail == f"{TOWARDS[way]} by kernel, over 18 NVLinks"


@pytest.mark.parametrize(("share", "outcome"), [(0.25, FAIL), (0.35, PASS)])
def test_a_kernels_stores_both_ways_at_once_are_held_against_both_shares(bench, share, outcome):
    bench.slower(PAIR, share, by=KERNEL, way=BOTH)
    found = bench.peer()
    assert found.outcome is outcome
    if outcome is FAIL:
        assert found.limit == pytest.approx(2 * 0.6 * 0.5 * H200_FLOOR)
        assert found.detail == "both at once by kernel, over 18 NVLinks"
        assert found.limit_source.startswith("0.6 of twice 0.5 of 25 GB/s of each link")


def test_links_that_are_down_lower_no_floor_over_a_switch(bench):
    bench.link(nvlinks=9)
    bench.slower(PAIR, 0.5)
    found = bench.peer()
    assert (found.outcome, found.limit) == (FAIL, pytest.approx(H200_FLOOR))
    assert "over 9 NVLinks" in found.detail


def test_cards_whose_links_are_all_down_fail_by_those_promised(bench):
    bench.link(nvlinks=0, switched=False, there=False, back=False, why="no way")
    bench.no_counters()
    bench.without(PAIR, by=KERNEL)
    bench.slower(PAIR, 0.1)
    found = bench.peer()
    assert (found.outcome, found.limit) == (FAIL, pytest.approx(H200_FLOOR))


@pytest.mark.parametrize(("links", "share", "floor"), [(0, 0.1, 0.30 * 63.0), (9, 0.5, 0.74 * 9 * 25)])
def test_fewer_links_are_right_where_the_rig_says_so(bench, links, share, floor):
    bench.limits(nvlinks=links)
    bench.link(nvlinks=links)
    bench.slower(PAIR, share)
    assert bench.peer().limit == pytest.approx(floor, rel=0.01)


def test_of_four_cards_without_a_switch_each_two_have_a_third_of_the_links(four):
    four.link("", nvlinks=6, switched=False)
    for pair in pairs_of(four):
        four.slower(pair, 1 / 3)
    for pair in pairs_of(four):
        found = four.peer(pair)
        assert (found.outcome, found.limit) == (PASS, pytest.approx(0.74 * 6 * 25))


def test_a_link_that_both_cards_lack_was_between_them(four):
    four.link("", nvlinks=6, switched=False)
    four.link("n1/gpu0-n1/gpu1", nvlinks=5, switched=False)
    for pair in pairs_of(four):
        four.slower(pair, 0.31)
    for subject in ("n1/gpu0", "n1/gpu1"):
        for moment in ("before", "after"):
            four.counters(subject, moment, nvlinks=(False, *17 * [True]))
    assert four.peer("n1/gpu0-n1/gpu1").limit == pytest.approx(0.74 * 6 * 25)
    assert four.peer("n1/gpu0-n1/gpu2").limit == pytest.approx(0.74 * 6 * 25)


def test_links_that_two_cards_lack_to_a_third_one_are_not_asked_of_them(four):
    """All of one card's are down."""
    four.link("", nvlinks=6, switched=False)
    for subject, active in (("n1/gpu0", 0), ("n1/gpu1", 12), ("n1/gpu2", 12), ("n1/gpu3", 12)):
        for moment in ("before", "after"):
            four.counters(subject, moment, nvlinks=(*active * [True], *(18 - active) * [False]))
    for pair in pairs_of(four):
        own = "n1/gpu0" in pair
        four.link(pair, nvlinks=0 if own else 6, switched=False)
        four.slower(pair, 0.1 if own else 1 / 3)
    for pair in pairs_of(four):
        found = four.peer(pair)
        assert (found.outcome, found.limit) == (
            FAIL if "n1/gpu0" in pair else PASS,
            pytest.approx(0.74 * 6 * 25),
        )


def test_where_nvml_does_not_say_where_links_lead_the_floor_is_the_least_that_a_board_has(bench):
    bench.link(nvlinks=None, switched=False)
    found = bench.peer()
    assert (found.outcome, found.limit) == (PASS, pytest.approx(0.74 * 6 * 25))


def test_links_of_an_architecture_without_a_stated_rate_have_no_floor(bench):
    for subject in (GPU, OTHER):
        bench.gpu(subject, compute_capability=(99, 0))
    found = bench.peer()
    assert found.outcome is NO_LIMIT
    assert found.measured == pytest.approx(391, abs=4)
    assert found.detail.endswith("; no floor: what connects the two is not known")


# By PCIe, and through the host


def test_direct_copies_over_pcie_have_a_floor_by_the_slower_link(geforce):
    geforce.link(geforce.pair, there=True, back=True, why="", path="one PCIe switch")
    geforce.samples("n1/gpu1", pcie_width=8)
    rounds = [one for one in geforce.recording.rounds if one.stage == "peer"]
    made = [replace(one, labels={**one.labels, "by": KERNEL}) for one in rounds]
    geforce.recording.put(type(made[0]), [*geforce.recording.rounds, *_later(made)])
    found = geforce.peer(geforce.pair)
    assert (found.outcome, found.limit) == (PASS, pytest.approx(0.30 * 15.75, rel=0.01))
    assert found.limit_source.startswith("Gen4 x8 × 0.3; ")
    assert found.detail.startswith("directly over one PCIe switch; ")


def _later(rounds):
    return [replace(one, t_s=one.t_s + 0.2) for one in rounds]


def test_consumer_cards_copy_through_the_host_and_are_told_so(geforce):
    found = geforce.peer(geforce.pair)
    assert found.outcome is PASS
    assert found.limit == pytest.approx(0.30 * 0.879 * 31.5, rel=0.02)
    assert "d2h of n1/gpu" in found.limit_source or "h2d of n1/gpu" in found.limit_source
    assert "no direct access (its driver does not offer it for these GPUs; `nvidia-smi" in found.detail


def test_through_the_host_without_transfers_the_floor_is_that_of_the_link(geforce):
    rounds = [one for one in geforce.recording.rounds if one.stage != "transfer"]
    geforce.recording.put(type(rounds[0]), rounds)
    assert geforce.peer(geforce.pair).limit == pytest.approx(0.30 * 31.5, rel=0.01)


def test_a_slow_way_through_the_host_fails(geforce):
    geforce.slower(geforce.pair, 0.3)
    found = geforce.peer(geforce.pair)
    assert found.outcome is FAIL
    assert "transfer.h2d" in found.remedy
    assert "on n1" in found.remedy


@pytest.mark.parametrize("status", set(REASONS) - {P2pStatus.GPU})
def test_what_else_can_prevent_direct_access_is_named_beside_nvmls_reason(geforce, status):
    geforce.link(geforce.pair, why=REASONS[status])
    found = geforce.peer(geforce.pair)
    check_sentences([found])
    assert found.outcome is PASS
    assert "; maybe IOMMU, ACS, a small BAR1; `nvidia-smi topo -p2p r`)" in found.detail


def test_a_slow_way_through_the_host_with_a_culprit_is_one_short_sentence():
    bench = bench_of(*3 * ["rtx-3090"], name="localhost")
    bench.link("", why=REASONS[P2pStatus.DISABLED])
    its = [pair for pair in pairs_of(bench) if f"{GPU}-" in pair]
    for pair in its:
        bench.slower(pair, 0.2, by=ENGINE, way=BOTH)
    found = [bench.peer(pair) for pair in its]
    check_sentences([bench.peer(pair) for pair in pairs_of(bench)])
    for one in found:
        assert one.detail == f"both at once, through the host's memory; {GPU} is in all pairs that fail"
        assert all(word in one.remedy for word in ("`nvidia-smi topo -p2p r`", "IOMMU", "ACS", "BAR1"))


def test_access_one_way_only_is_no_direct_access(geforce):
    geforce.link(geforce.pair, there=True)
    assert "no direct access" in geforce.peer(geforce.pair).detail


def test_without_nvmls_reason_the_likely_ones_are_named(geforce):
    geforce.link(geforce.pair, why="")
    assert "(IOMMU, ACS, a small BAR1, or a consumer card's driver; " in geforce.peer(geforce.pair).detail


def test_a_bridge_counts_by_its_links():
    bench = bench_of("rtx-3090", "rtx-3090", limits={"nvlinks": 4})
    found = bench.peer("n1/gpu0-n1/gpu1")
    assert (found.outcome, found.limit) == (PASS, pytest.approx(0.74 * 4 * 14.0625))
    assert found.detail.startswith("over 4 NVLinks; ")


def test_unlike_cards_are_a_pair_too():
    bench = bench_of("rtx-3090", "rtx-3070")
    assert bench.peer("n1/gpu0-n1/gpu1").outcome is PASS


def test_an_unlisted_card_without_a_known_link_has_no_floor(geforce):
    geforce.unknown()
    for subject in ("n1/gpu0", "n1/gpu1"):
        geforce.samples(subject, pcie_generation=None, pcie_width=None)
    rounds = [one for one in geforce.recording.rounds if one.stage != "transfer"]
    geforce.recording.put(type(rounds[0]), rounds)
    found = geforce.peer(geforce.pair)
    assert found.outcome is NO_LIMIT


# By the rig


def test_the_rigs_own_floor_stands_alone(bench):
    bench.settings("peer", floor_gbps=100.0)
    bench.slower(PAIR, 0.3)
    assert bench.peer().limit == 100.0
    assert bench.peer().outcome is PASS
    bench.settings("peer", floor_gbps=200.0)
    assert bench.peer().outcome is FAIL
