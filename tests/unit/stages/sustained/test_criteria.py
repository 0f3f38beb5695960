import dataclasses
from dataclasses import replace

import pytest

from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.judge import promised
from rigproof.records.verdict import Outcome

GPU, OTHER = "pc1/gpu0", "pc2/gpu0"
BF16, SUSTAINED, STABILITY = "throughput.gemm_bf16", "throughput.sustained", "throughput.stability"
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


@pytest.mark.parametrize(
    "fields", [{"seconds": 0.0}, {"seconds": float("nan")}, {"work": float("inf")}, {"work": 0.0}]
)
def test_a_round_without_work_or_time_is_no_measurement(bench, fields):
    bench.rounds(GPU, "gemm", 22, 23, **fields)
    bench.rounds(GPU, "sustained", 50, 51, **fields)
    for criterion in (BF16, SUSTAINED, STABILITY):
        assert bench.verdict(criterion, GPU).outcome is Outcome.NOT_MEASURED


@pytest.mark.parametrize("stage", ["gemm", "sustained"])
def test_rounds_that_are_recorded_twice_are_no_measurement(bench, stage):
    """Twice the work in the same time would be twice the rate."""
    bench.recording.rounds.extend([one for one in bench.recording.rounds if one.stage == stage])
    criteria = (BF16,) if stage == "gemm" else (SUSTAINED, STABILITY)
    for criterion in criteria:
        verdict = bench.verdict(criterion, GPU)
        assert verdict.outcome is Outcome.NOT_MEASURED
        assert f"in the {stage} stage overlap by" in verdict.detail


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


def test_the_sustained_rate_is_the_work_of_all_workers_over_the_loaded_time(bench):
    assert bench.verdict(SUSTAINED, GPU).measured == pytest.approx(660)
    bench.recording.rounds = [one for one in bench.recording.rounds if one.worker != "pc1/gpu0#1"]
    verdict = bench.verdict(SUSTAINED, GPU)
    assert (verdict.outcome, verdict.measured) == (Outcome.FAIL, pytest.approx(330))


def test_time_without_work_counts_against_the_sustained_rate(bench):
    bench.rounds(GPU, "sustained", 50, 60.4, verified=False)
    assert bench.verdict(SUSTAINED, GPU).measured == pytest.approx(660 * (39.5 - 10.5) / 39.5, rel=0.02)


def test_a_sustained_stage_that_was_broken_off_has_no_rate(bench):
    bench.stage("sustained", status="interrupted", loaded_to_s=None)
    for criterion in (SUSTAINED, STABILITY):
        assert bench.verdict(criterion, GPU).outcome is Outcome.NOT_MEASURED
    assert bench.verdict("throughput.combined", "rig").outcome is Outcome.NOT_MEASURED


def test_whoever_lacks_its_part_of_the_combined_floor_comes_first(bench):
    bench.settings("sustained", combined_floor_tflops=1320.0)
    bench.slow(OTHER, 0.9)
    verdict = bench.verdict("throughput.combined", "rig")
    assert (verdict.outcome, verdict.detail) == (
        Outcome.FAIL,
        "pc2/gpu0 594.0 of 660.0 + pc1/gpu0 660.0",
    )


def test_the_combined_rate_is_never_silently_less(bench):
    bench.drop("rounds", OTHER)
    verdict = bench.verdict("throughput.combined", "rig")
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.detail == "no sustained rate of pc2/gpu0"


def test_the_combined_rate_without_a_floor_has_no_limit(bench):
    bench.settings("sustained", combined_floor_tflops=None)
    verdict = bench.verdict("throughput.combined", "rig")
    assert (verdict.outcome, verdict.measured) == (Outcome.NO_LIMIT, pytest.approx(1320))


@pytest.mark.parametrize(("share", "outcome"), [(0.96, Outcome.PASS), (0.94, Outcome.FAIL)])
def test_a_sag_of_more_than_five_percent_fails(bench, share, outcome):
    bench.slow(GPU, share, from_s=60)
    verdict = bench.verdict(STABILITY, GPU)
    assert verdict.outcome is outcome
    if outcome is Outcome.FAIL:
        assert verdict.from_s == pytest.approx(70 - 39 / 7)  # the last quarter of seven windows is one


@pytest.mark.parametrize(("share", "outcome"), [(0.90, Outcome.PASS), (0.80, Outcome.FAIL)])
def test_one_bad_window_in_the_middle_fails(bench, share, outcome):
    bench.rounds(GPU, "sustained", 46.0, 58.0, work=lambda one: one.work * share)
    verdict = bench.verdict(STABILITY, GPU)
    assert verdict.outcome is outcome
    if outcome is Outcome.FAIL:
        assert (verdict.from_s, verdict.length_s) == (
            pytest.approx(31 + 3 * 39 / 7),
            pytest.approx(39 / 7),
        )


def test_a_short_stage_is_judged_by_shorter_windows(bench):
    bench.stage("sustained", loaded_to_s=42.0)
    assert bench.verdict(STABILITY, GPU).outcome is Outcome.PASS
    bench.slow(GPU, 0.9, from_s=39.5)
    assert bench.verdict(STABILITY, GPU).outcome is Outcome.FAIL


def test_three_seconds_are_no_measurement_of_stability(bench):
    bench.stage("sustained", loaded_to_s=33.5)
    verdict = bench.verdict(STABILITY, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED


def test_the_rate_of_the_cpu_as_the_device_has_no_limit_to_its_stability(bench):
    bench.slow(GPU, 0.5, from_s=60.0)
    assert bench.verdict("throughput.stability", GPU).outcome is Outcome.FAIL
    node = {"name": "pc1", "cpus": 8, "ram_gib": 64}
    bench.rig(nodes=[{**node, "gpus": [{"sku": "unknown", "device": "cpu"}]}])
    rounds = [dataclasses.replace(one, subject="pc1/cpu0") for one in bench.recording.rounds]
    bench.recording.rounds = [one for one in rounds if one.worker.startswith(GPU)]
    bench.recording.gpus["pc1/cpu0"] = dataclasses.replace(
        bench.recording.gpus[GPU], subject="pc1/cpu0", device="cpu"
    )
    verdict = bench.verdict("throughput.stability", "pc1/cpu0")
    assert (verdict.outcome, verdict.measured) == (Outcome.NO_LIMIT, pytest.approx(50, abs=2))


@pytest.mark.parametrize(("to_s", "outcome"), [(35.0, Outcome.PASS), (34.9, Outcome.NOT_MEASURED)])
def test_four_windows_of_a_second_are_enough(bench, to_s, outcome):
    """The settled load begins at 31 s."""
    bench.stage("sustained", loaded_to_s=to_s)
    assert bench.verdict(STABILITY, GPU).outcome is outcome


def test_a_rate_that_fell_in_another_stage_is_not_judged_in_a_recording_from_before_its_limit(bench):
    bench.slow(GPU, 0.5, "sharing", from_s=124)
    assert bench.verdict(STABILITY, GPU).outcome is Outcome.FAIL
    limits = bench.loaded.rig.limits.model_copy(update={"best_quarter_share": None})
    bench.loaded = dataclasses.replace(
        bench.loaded, rig=bench.loaded.rig.model_copy(update={"limits": limits})
    )
    assert bench.verdict(STABILITY, GPU).outcome is Outcome.PASS
