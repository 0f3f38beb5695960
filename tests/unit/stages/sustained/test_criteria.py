import pytest

from rigproof.records.verdict import Outcome

GPU, OTHER = "pc1/gpu0", "pc2/gpu0"
BF16, SUSTAINED, STABILITY = "throughput.gemm_bf16", "throughput.sustained", "throughput.stability"
ONE_3090 = [{"name": "pc1", "gpus": [{"sku": "rtx-3090", "workers": 2}]}]
ONE_UNKNOWN = [{"name": "pc1", "gpus": [{"sku": "unknown", "workers": 2, "memory_gib": 141}]}]


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


def test_the_combined_rate_may_be_at_its_floor_and_names_every_part(bench):
    verdict = bench.verdict("throughput.combined", "rig")
    assert verdict.detail == "pc1/gpu0 660.0 + pc2/gpu0 660.0"
    bench.settings("sustained", combined_floor_tflops=verdict.measured)
    assert bench.verdict("throughput.combined", "rig").outcome is Outcome.PASS
    bench.settings("sustained", combined_floor_tflops=verdict.measured + 0.1)
    verdict = bench.verdict("throughput.combined", "rig")
    assert (verdict.outcome, verdict.measured) == (Outcome.FAIL, pytest.approx(1320.0))
