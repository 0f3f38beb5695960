"""Rates exactly at their floors, and which of several figures decides."""

import pytest

from rigproof.records.verdict import Outcome

GPU, BF16, COMBINED = "pc1/gpu0", "throughput.gemm_bf16", "throughput.combined"


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


def test_the_combined_rate_may_be_at_its_floor_and_names_every_part(bench):
    verdict = bench.verdict(COMBINED, "rig")
    assert verdict.detail == "pc1/gpu0 660.0 + pc2/gpu0 660.0"
    bench.settings("sustained", combined_floor_tflops=verdict.measured)
    assert bench.verdict(COMBINED, "rig").outcome is Outcome.PASS
    bench.settings("sustained", combined_floor_tflops=verdict.measured + 0.1)
    verdict = bench.verdict(COMBINED, "rig")
    assert (verdict.outcome, verdict.measured) == (Outcome.FAIL, pytest.approx(1320.0))
