import dataclasses
from statistics import median_high

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rigproof.criteria.evidence.rates import median_of_others
from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.judge import promised
from rigproof.records.verdict import Outcome
from support.peers import make_peers, slow_peer, subject_of

PEERS = "throughput.peer_outlier"
FIRST = subject_of(0)
SLOW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def failed(bench):
    return {(v.criterion, v.subject) for v in bench.verdicts() if v.outcome is Outcome.FAIL}


def with_limits(bench, **limits):
    """The same bench, judged by other limits."""
    table = bench.loaded.rig.limits.model_copy(update=limits)
    bench.loaded = dataclasses.replace(
        bench.loaded, rig=bench.loaded.rig.model_copy(update={"limits": table})
    )


@pytest.mark.parametrize("index", [0, 3, 7])
def test_a_straggler_of_ten_percent_among_eight_is_the_only_failure(bench, index):
    slow_peer(bench, 8, 0.90, index)
    assert failed(bench) == {(PEERS, subject_of(index))}


@pytest.mark.parametrize(("share", "outcome"), [(0.9401, Outcome.PASS), (0.9399, Outcome.FAIL)])
def test_the_limit_is_a_share_of_the_others_median(bench, share, outcome):
    slow_peer(bench, 8, share)
    verdict = bench.verdict(PEERS, FIRST)
    assert (verdict.outcome, verdict.measured) == (outcome, pytest.approx(100 * share))
    assert verdict.limit == pytest.approx(94)
    assert verdict.detail.endswith("TFLOP/s, the median of 7 others of h200 660.0")


def test_of_two_cards_the_slower_one_fails(bench):
    slow_peer(bench, 2, 0.90, 1)
    assert failed(bench) == {(PEERS, subject_of(1))}
    assert bench.verdict(PEERS, subject_of(1)).detail == "594.0 TFLOP/s, the other one of h200 660.0"


def test_two_stragglers_are_both_named(bench):
    slow_peer(bench, 8, 0.90, 2)
    bench.slow(subject_of(5), 0.85)
    assert failed(bench) == {(PEERS, subject_of(2)), (PEERS, subject_of(5))}


@pytest.mark.parametrize(("number", "slow"), [(3, 2), (4, 2), (5, 3), (8, 4)])
def test_each_straggler_is_named_up_to_half_of_the_cards_and_two_of_three(bench, number, slow):
    make_peers(bench, number)
    for index in range(slow):
        bench.slow(subject_of(index), 0.9)
    assert failed(bench) == {(PEERS, subject_of(index)) for index in range(slow)}


def test_two_slow_cards_of_two_are_named_by_the_floor_of_their_sum(bench):
    make_peers(bench, 2)
    rig = bench.loaded.rig
    sustained = rig.stages.sustained.model_copy(update={"combined_floor_tflops": 1300.0})
    stages = rig.stages.model_copy(update={"sustained": sustained})
    bench.loaded = dataclasses.replace(bench.loaded, rig=rig.model_copy(update={"stages": stages}))
    for index in (0, 1):
        bench.slow(subject_of(index), 0.9)
    assert failed(bench) == {("throughput.combined", "rig")}
    both = " + ".join(f"{subject_of(index)} 594.0 of 650.0" for index in (0, 1))
    assert bench.verdict("throughput.combined", "rig").detail == both


def test_a_gpu_may_have_a_limit_of_its_own(bench):
    make_peers(bench, 4, {1: {"limits": {"peer_share": 0.85}}})
    for index in (1, 2):
        bench.slow(subject_of(index), 0.9)
    assert failed(bench) == {(PEERS, subject_of(2))}


# Who is a peer


def test_only_devices_with_a_peer_are_promised_it(bench):
    cards = {1: {"workers": 2}, 2: {"gemm_size": 2048}, 3: {"sku": "rtx-3090"}}
    make_peers(bench, 6, cards)
    assert promised(CATALOGUE[PEERS], bench.loaded) == (FIRST, subject_of(4), subject_of(5))


def test_cards_that_no_file_describes_are_nobodys_peers(bench):
    make_peers(bench, 2, {index: {"sku": "unknown", "memory_gib": 141} for index in (0, 1)})
    assert promised(CATALOGUE[PEERS], bench.loaded) == ()


def test_a_recording_older_than_the_limit_is_not_judged_by_it(bench):
    make_peers(bench, 2)
    with_limits(bench, peer_share=None)
    assert promised(CATALOGUE[PEERS], bench.loaded) == ()


def test_a_level_without_the_stage_does_not_promise_it(bench):
    make_peers(bench, 2)
    assert promised(CATALOGUE[PEERS], bench.loaded, ("gemm",)) == ()


def test_cards_under_a_lower_power_limit_are_compared_with_what_it_leaves_of_the_others(bench):
    make_peers(bench, 6)
    for index in (0, 1, 2):  # as an owner caps them: these three are slower, and meant to be
        bench.gpu(subject_of(index), power_limit_w=595.0)  # of 700: without a curve 0.85
        bench.samples(subject_of(index), power_w=lambda one: 0.85 * one.power_w)
        bench.samples(subject_of(index), power_average_w=lambda one: 0.85 * one.power_average_w)
        bench.slow(subject_of(index), 0.85)
    assert failed(bench) == set()
    bench.slow(subject_of(1), 0.9)
    assert failed(bench) == {(PEERS, subject_of(1))}


@pytest.mark.parametrize("limit_w", [650.0, 699.0, 699.6, 700.0, 700.4, 750.0])
def test_a_watt_more_or_less_hides_no_straggler(bench, limit_w):
    slow_peer(bench, 2, 0.86)
    bench.gpu(FIRST, power_limit_w=limit_w)
    assert failed(bench) == {(PEERS, FIRST)}


@pytest.mark.parametrize("limit_w", [350.0, 699.0, 900.0])
def test_what_a_power_limit_leaves_of_a_card_is_no_straggler_and_makes_none_of_the_others(bench, limit_w):
    make_peers(bench, 3)
    bench.gpu(FIRST, power_limit_w=limit_w)
    bench.slow(FIRST, min(1.0, limit_w / 700))
    assert not {(PEERS, subject_of(index)) for index in range(3)} & failed(bench)


def test_a_card_that_alone_reports_no_power_limit_need_not_be_compared(bench):
    make_peers(bench, 3)
    bench.gpu(FIRST, power_limit_w=None)
    verdict = bench.verdict(PEERS, FIRST)
    assert verdict.outcome is Outcome.NOT_APPLICABLE
    others = "no other h200 with the same work"
    assert verdict.detail == f"{others} has its precision and reports a power limit as it does"


def test_cards_without_a_power_limit_are_compared_with_each_other(bench):
    slow_peer(bench, 3, 0.9)
    for index in range(3):
        bench.gpu(subject_of(index), power_limit_w=None)
    assert bench.verdict(PEERS, FIRST).outcome is Outcome.FAIL


def test_a_card_is_judged_by_the_peers_that_have_a_rate(bench):
    slow_peer(bench, 4, 0.9)
    bench.drop("rounds", subject_of(3))
    assert bench.verdict(PEERS, FIRST).detail.endswith("the faster one of 2 others of h200 660.0")
    verdict = bench.verdict(PEERS, subject_of(3))
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.detail == "no verified rounds in the sustained stage"


def test_a_card_without_any_peer_that_has_a_rate_is_not_judged(bench):
    make_peers(bench, 3)
    for index in (1, 2):
        bench.drop("rounds", subject_of(index))
    verdict = bench.verdict(PEERS, FIRST)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.detail == "pc1/gpu1, its peer, has no sustained rate"


def test_a_peer_that_is_missing_is_none(bench):
    make_peers(bench, 2)
    del bench.recording.gpus[subject_of(1)]
    assert bench.verdict(PEERS, FIRST).outcome is Outcome.NOT_MEASURED


# Always


@given(rates=st.lists(st.floats(0, 1e6), min_size=2, max_size=40), data=st.data())
def test_the_median_of_the_others_is_that_of_the_list_without_one_and_the_higher_one_of_two(rates, data):
    own = data.draw(st.sampled_from(rates))
    others = sorted(rates)
    others.remove(own)
    assert median_of_others(sorted(rates), own) == median_high(others)


@SLOW
@given(shares=st.lists(st.floats(0.97, 1.0), min_size=2, max_size=6))
def test_cards_within_three_percent_of_each_other_never_alarm(new_bench, shares):
    bench = new_bench()
    make_peers(bench, len(shares))
    for index, share in enumerate(shares):
        bench.slow(subject_of(index), share)
    assert failed(bench) == set()


@SLOW
@given(share=st.floats(0.1, 1), less=st.floats(0.1, 1), number=st.integers(2, 5))
def test_a_slower_card_never_passes_where_it_failed(new_bench, share, less, number):
    bench = new_bench()
    slow_peer(bench, number, share)
    before = bench.verdict(PEERS, FIRST).outcome
    bench.slow(FIRST, less)
    after = bench.verdict(PEERS, FIRST).outcome
    assert not (before is Outcome.FAIL and after is not Outcome.FAIL)


# In stages without a figure of their own


@pytest.mark.parametrize(("share", "outcome"), [(0.86, Outcome.PASS), (0.84, Outcome.FAIL)])
def test_a_card_slower_than_its_peers_throughout_a_stage_fails(bench, share, outcome):
    make_peers(bench, 4)
    bench.slow(subject_of(2), share, "feeding")
    verdict = bench.verdict(PEERS, subject_of(2))
    assert verdict.outcome is outcome
    if outcome is Outcome.FAIL:
        assert (verdict.measured, verdict.limit) == (pytest.approx(84), 85)
        assert verdict.detail == "feeding, against the median of 3 others of h200"
    assert bench.verdict(PEERS, FIRST).outcome is Outcome.PASS


@pytest.mark.parametrize(("share", "outcome"), [(0.71, Outcome.PASS), (0.69, Outcome.FAIL)])
def test_peers_of_other_hosts_leave_more_room(bench, share, outcome):
    bench.rig(nodes=[{"name": name, "gpus": [{"sku": "h200"}]} for name in ("pc1", "pc2")])
    bench.slow("pc1/gpu0", share, "feeding")
    assert bench.verdict(PEERS, "pc1/gpu0").outcome is outcome


def test_what_a_power_limit_leaves_of_a_stage_is_no_straggler(bench):
    make_peers(bench, 2)
    bench.gpu(FIRST, power_limit_w=420)
    for stage in ("sustained", "feeding", "sharing"):
        bench.slow(FIRST, 0.6, stage)
    assert bench.verdict(PEERS, FIRST).outcome is Outcome.PASS
