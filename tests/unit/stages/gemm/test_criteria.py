"""Rates of single precisions, and their floors."""

from dataclasses import replace

import pytest

from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.judge import promised
from rigproof.records.verdict import Outcome

GPU, BF16 = "pc1/gpu0", "throughput.gemm_bf16"
ONE_3090 = [{"name": "pc1", "gpus": [{"sku": "rtx-3090", "workers": 2}]}]
ONE_UNKNOWN = [{"name": "pc1", "gpus": [{"sku": "unknown", "workers": 2, "memory_gib": 141}]}]


@pytest.mark.parametrize(("share", "outcome"), [(0.75, Outcome.PASS), (0.7499, Outcome.FAIL)])
def test_a_rate_may_be_at_its_floor_but_not_under_it(bench, share, outcome):
    bench.slow(GPU, share, "gemm")
    verdict = bench.verdict(BF16, GPU)
    assert (verdict.outcome, verdict.limit) == (outcome, 495.0)


def test_the_rate_is_the_median_of_the_measured_rounds(bench):
    first = True

    def stalled_once(one):
        nonlocal first
        slow, first = first and one.label("precision") == "bf16" and one.phase == "measure", False
        return one.work / 100 if slow else one.work

    bench.rounds(GPU, "gemm", work=stalled_once)
    assert bench.verdict(BF16, GPU).measured == 660.0


def test_warm_up_rounds_do_not_count(bench):
    bench.rounds(GPU, "gemm", work=lambda one: one.work * (1.5 if one.phase == "warmup" else 1))
    assert bench.verdict(BF16, GPU).measured == 660.0


def test_rounds_that_were_not_verified_are_no_measurement(bench):
    bench.rounds(GPU, "gemm", verified=False)
    verdict = bench.verdict(BF16, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED


def test_two_rounds_are_no_measurement(bench):
    bf16 = [one for one in bench.recording.rounds if one.label("precision") == "bf16" and one.stage == "gemm"]
    measured = [one for one in bf16 if one.phase == "measure" and one.subject == GPU]
    bench.recording.rounds = measured[:2]
    assert bench.verdict(BF16, GPU).outcome is Outcome.NOT_MEASURED
    bench.recording.rounds = measured[:3]
    assert bench.verdict(BF16, GPU).outcome is Outcome.PASS


def test_why_there_are_no_rounds_is_reported(bench):
    bench.drop("rounds", GPU)
    bench.event("worker_died", GPU, "pc1/gpu0#0 was killed by signal 9", 12.0)
    assert bench.verdict(BF16, GPU).detail == (
        "0 verified rounds of bf16: pc1/gpu0#0 was killed by signal 9 (at t=12 s)"
    )


def test_a_precision_that_the_sku_lacks_is_not_promised(bench):
    bench.rig(nodes=ONE_3090)
    assert promised(CATALOGUE["throughput.gemm_tf32"], bench.loaded) == ()
    assert promised(CATALOGUE[BF16], bench.loaded) == (GPU,)


def test_an_unknown_card_is_promised_every_precision_but_need_not_have_it(bench):
    bench.rig(nodes=ONE_UNKNOWN)
    assert promised(CATALOGUE["throughput.gemm_tf32"], bench.loaded) == (GPU,)
    bench.recording.rounds = [one for one in bench.recording.rounds if one.label("precision") != "tf32"]
    assert bench.verdict("throughput.gemm_tf32", GPU).outcome is Outcome.NOT_MEASURED
    bench.recording.workers = [replace(one, precisions=("fp32", "bf16")) for one in bench.recording.workers]
    verdict = bench.verdict("throughput.gemm_tf32", GPU)
    assert verdict.outcome is Outcome.NOT_APPLICABLE
    assert verdict.detail == "this device has no tf32"


def test_a_precision_that_the_sku_has_is_required_even_where_the_worker_lacks_it(bench):
    bench.recording.rounds = [one for one in bench.recording.rounds if one.label("precision") != "tf32"]
    bench.recording.workers = [replace(one, precisions=("fp32", "bf16")) for one in bench.recording.workers]
    assert bench.verdict("throughput.gemm_tf32", GPU).outcome is Outcome.NOT_MEASURED


def test_an_unknown_card_gets_no_limit_and_that_is_reported(bench):
    bench.rig(nodes=ONE_UNKNOWN)
    verdict = bench.verdict(BF16, GPU)
    assert (verdict.outcome, verdict.measured, verdict.limit) == (Outcome.NO_LIMIT, 660.0, None)
    assert "baseline" in verdict.detail


def test_one_round_that_was_too_fast_counts_as_one_of_five(bench):
    (first, *_) = (
        one
        for one in bench.recording.rounds
        if (one.subject, one.stage, one.label("precision"), one.phase) == (GPU, "gemm", "bf16", "measure")
    )
    bench.rounds(GPU, "gemm", first.t_s, first.t_s, work=lambda one: one.work * 1.4)
    assert bench.verdict(BF16, GPU).measured == pytest.approx(660.0 * (4 + 1.4) / 5)


def test_a_card_that_stutters_in_less_than_half_of_its_rounds_has_no_floor_under_it(bench):
    """The median of its rounds is as high as ever."""
    number = iter(range(1000))
    bench.rounds(GPU, "gemm", work=lambda one: one.work / (5 if next(number) % 5 < 2 else 1))
    verdict = bench.verdict(BF16, GPU)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.measured == pytest.approx(660.0 * 3.4 / 5)


def test_a_rate_under_its_floor_names_what_happened_and_one_over_it_does_not(bench):
    bench.event("oom", GPU, "3 GiB wanted", 22.0, stage="gemm")
    assert bench.verdict(BF16, GPU).detail == ""
    bench.slow(GPU, 0.5, "gemm")
    assert bench.verdict(BF16, GPU).detail == "3 GiB wanted (at t=22 s)"


def test_a_stage_that_did_not_run_is_named_before_its_rounds_are_missed(bench):
    bench.only("sustained")
    assert bench.verdict(BF16, GPU).detail == "the gemm stage did not run"
