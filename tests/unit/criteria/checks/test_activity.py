from dataclasses import replace

import pytest

from rigproof.records.verdict import Outcome

GPU, ACTIVE = "pc1/gpu0", "activity.gpu_active"


@pytest.mark.parametrize(("idle_s", "outcome"), [(4.0, Outcome.PASS), (5.0, Outcome.FAIL)])
def test_a_tenth_of_the_windows_may_be_without_verified_work(bench, idle_s, outcome):
    bench.recording.rounds = [
        one for one in bench.recording.rounds if one.subject != GPU or not 45 < one.t_s <= 45 + idle_s
    ]
    verdict = bench.verdict(ACTIVE, GPU)
    assert (verdict.outcome, verdict.measured) == (outcome, pytest.approx(100 * (1 - idle_s / 40)))


def pause(bench, to_s, from_s=7):
    """In gemm: products in fp32 begin at 5 s and are measured from 7.5 to 10 s; then come those in tf32."""
    kept = [
        one
        for one in bench.recording.rounds
        if (one.subject, one.stage) != (GPU, "gemm") or not from_s < one.t_s - one.seconds / 2 < to_s
    ]
    bench.recording.rounds = kept


@pytest.mark.parametrize(
    ("from_s", "to_s", "outcome"),
    [(7, 8.5, Outcome.PASS), (7, 9, Outcome.FAIL), (12, 14, Outcome.FAIL), (9, 12.4, Outcome.PASS)],
)
def test_a_device_that_pauses_in_the_middle_of_a_measurement_fails(bench, from_s, to_s, outcome):
    pause(bench, to_s, from_s)
    verdict = bench.verdict(ACTIVE, GPU)
    assert verdict.outcome is outcome
    if outcome is Outcome.FAIL:
        assert verdict.detail == "no round for 2.0 s in the middle of gemm"
        assert (verdict.from_s, verdict.length_s) == pytest.approx((from_s, 2))
        assert verdict.limit_source.startswith("at most 1.5 s; ")


def test_what_others_took_is_no_pause_of_the_device(bench):
    pause(bench, 9.0)
    bench.stranger(8.5, gone_s=9, sm_percent=[60])
    verdict = bench.verdict(ACTIVE, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert "pid 5263 (python3, user ml) computed on this card" in verdict.detail


def test_a_brief_stranger_is_no_excuse_for_a_longer_pause(bench):
    """It can have been there for 1.1 s, unseen, and leaves 0.9 s of 2 s."""
    pause(bench, 9.0)
    bench.stranger(8.5, gone_s=8.51, sm_percent=[60])
    bench.limits(pause_s=0.95)
    assert bench.verdict(ACTIVE, GPU).outcome is Outcome.NOT_MEASURED
    bench.limits(pause_s=0.85)
    assert bench.verdict(ACTIVE, GPU).outcome is Outcome.FAIL


def test_while_its_host_stood_still_no_device_pauses(bench):
    pause(bench, 9.0)
    still = [one for one in bench.recording.host_samples if not 7 < one.t_s < 9.0]
    bench.recording.host_samples = [
        replace(one, wakeup_delays_ms=(1900.0,)) if (one.subject, round(one.t_s, 1)) == ("pc1", 9.1) else one
        for one in still
    ]
    assert bench.verdict(ACTIVE, GPU).outcome is Outcome.PASS


def test_a_recording_from_before_the_limit_of_pauses_is_not_judged_by_it(bench):
    pause(bench, 9.0)
    bench.limits(pause_s=None)
    assert bench.verdict(ACTIVE, GPU).outcome is Outcome.PASS


def test_work_counts_however_little_a_device_can_do_and_utilisation_alone_never_suffices(bench):
    bench.rounds(GPU, "sustained", work=lambda one: one.work / 1e4)
    assert bench.verdict(ACTIVE, GPU).outcome is Outcome.PASS
    bench.samples(GPU, utilization_percent=100)
    bench.rounds(GPU, "sustained", verified=False)
    verdict = bench.verdict(ACTIVE, GPU)
    assert (verdict.outcome, verdict.measured, verdict.limit) == (Outcome.FAIL, 0, 90)


TOLD = [(48.0, Outcome.PASS), (50.0, Outcome.NOT_MEASURED), ("50", Outcome.PASS)]


@pytest.mark.parametrize(("told_s", "outcome"), TOLD)
def test_a_worker_works_as_long_as_it_was_told_to(bench, told_s, outcome):
    """44 s from the stage's beginning on, 90 % of what it was told; without a number it was told nothing."""
    bench.stage("sustained", settings={"specs": {"pc1/gpu0#1": {"duration_s": told_s}}})
    verdict = bench.verdict(ACTIVE, GPU)
    assert (verdict.outcome, "told to work for 50 s" in verdict.detail) == (outcome, told_s == 50)
    bench.event("worker_died", GPU, "the process is gone", 60)  # then its end is known
    assert bench.verdict(ACTIVE, GPU).outcome is Outcome.PASS


def test_a_card_on_which_a_batch_does_not_fit_trains_for_less_time(bench):
    bench.stage("training", settings={"specs": {"pc1/gpu0#0": {"duration_s": 30.0}}})
    assert bench.verdict(ACTIVE, GPU).outcome is Outcome.NOT_MEASURED
    bench.event("batch_search", GPU, "left out", 90, stage="training", what="skipped")
    assert bench.verdict(ACTIVE, GPU).outcome is Outcome.PASS


def test_of_the_cpu_s_short_stretches_verified_work_is_all_that_counts(bench):
    bench.rig(nodes=[{"name": "pc1", "gpus": [{"sku": "unknown", "device": "cpu", "workers": 2}]}])
    cpu = "pc1/cpu0"
    bench.recording.gpus[cpu] = replace(bench.recording.gpus[GPU], subject=cpu, device="cpu")
    bench.recording.rounds = [replace(one, subject=cpu, device="cpu") for one in bench.recording.rounds]
    bench.only("gemm")
    verdict = bench.verdict(ACTIVE, cpu)
    assert (verdict.outcome, verdict.measured, verdict.limit) == (Outcome.PASS, 100, 90)
    bench.rounds(cpu, "gemm", verified=False)
    assert bench.verdict(ACTIVE, cpu).outcome is Outcome.FAIL


@pytest.mark.parametrize(("power_w", "outcome"), [(211, Outcome.PASS), (205, Outcome.FAIL)])
def test_work_without_power_is_not_believed(bench, power_w, outcome):
    bench.samples(GPU, 5.6, power_w=lambda sample: power_w + sample.t_s % 3 - 1.5)
    verdict = bench.verdict(ACTIVE, GPU)
    assert verdict.outcome is outcome
    assert verdict.unit == ("%" if outcome is Outcome.PASS else "% of the power limit")


def test_the_average_power_stands_in_for_the_instant_one(bench):
    bench.samples(GPU, power_w=None)
    assert bench.verdict(ACTIVE, GPU).outcome is Outcome.PASS
    bench.samples(GPU, power_average_w=None)
    assert bench.verdict(ACTIVE, GPU).outcome is Outcome.NOT_MEASURED


def test_without_an_enforced_limit_power_says_nothing(bench):
    bench.gpu(GPU, power_limit_w=None)
    assert bench.verdict(ACTIVE, GPU).outcome is Outcome.NOT_MEASURED


@pytest.mark.parametrize(
    ("to_s", "from_s", "why"),
    [(70, 5, "gemm: the power reads 600 W for 20 s"), (45, 26, "sustained: the power")],
)
def test_a_frozen_power_sensor_is_no_measurement_in_the_quick_level_either(bench, to_s, from_s, why):
    bench.stage("sustained", loaded_to_s=to_s)
    assert bench.verdict(ACTIVE, GPU).outcome is Outcome.PASS
    bench.samples(GPU, from_s, power_w=600.0)
    verdict = bench.verdict(ACTIVE, GPU)
    assert (verdict.outcome, verdict.detail[: len(why)]) == (Outcome.NOT_MEASURED, why)


@pytest.mark.parametrize(
    ("filled", "until_s", "outcome"),
    [(0.3, 45, Outcome.PASS), (0.8, 45, Outcome.FAIL), (0.3, 71, Outcome.FAIL)],
)
def test_little_power_while_rounds_hardly_fill_the_time_is_believed(bench, filled, until_s, outcome):
    """So it is while memory is filled. Rounds that hardly fill any of the time excuse nothing."""
    bench.samples(GPU, 27, until_s, power_w=lambda sample: 150 + sample.t_s % 3)
    rounds = []
    for one in bench.recording.rounds:
        if (one.subject, one.stage) == (GPU, "sustained") and one.t_s < until_s:
            part_s = one.seconds / 5
            ends_s = (one.t_s - place * part_s for place in range(5))
            rounds += [
                replace(one, t_s=end_s, seconds=filled * part_s, work=one.work / 5) for end_s in ends_s
            ]
        else:
            rounds.append(one)
    bench.recording.rounds = rounds
    bench.only("sustained")
    assert bench.verdict(ACTIVE, GPU).outcome is outcome


@pytest.mark.parametrize(("unreported", "number"), [(0, "1 wrong result"), (49, "50 wrong results")])
def test_wrong_results_are_counted_and_forbid_training_on_the_card(bench, unreported, number):
    bench.event("wrong_result", GPU, "3 elements of 1048576 differ", 50.0, unreported=unreported)
    verdict = bench.verdict(ACTIVE, GPU)
    assert (verdict.outcome, verdict.from_s) == (Outcome.FAIL, 50.0)
    rounds = sum(one.subject == GPU for one in bench.recording.rounds)
    assert verdict.measured == pytest.approx(100 * (1 - (1 + unreported) / rounds))
    assert verdict.detail == f"{number}, the first: 3 elements of 1048576 differ"
    assert "do not train on this card" in verdict.remedy
    bench.event("wrong_result", GPU, "1 element of 1048576 differs", 55.0)
    assert bench.verdict(ACTIVE, GPU).from_s == 50.0


def test_the_reason_for_idling_is_reported(bench):
    bench.recording.rounds = [one for one in bench.recording.rounds if one.subject != GPU or one.t_s < 40]
    bench.event("worker_died", GPU, "pc1/gpu0#0 was killed by signal 9", 40.0)
    bench.stage("sustained", status="partial")
    bench.only("gemm", "sustained")
    detail = bench.verdict(ACTIVE, GPU).detail
    assert detail.endswith("pc1/gpu0#0 was killed by signal 9 (at t=40 s), in the sustained stage")


@pytest.mark.parametrize("stage", ["gemm", "sustained", "training", "feeding", "sharing"])
def test_a_card_that_measured_nothing_in_a_stage_was_not_active(bench, stage):
    kept = [one for one in bench.recording.rounds if (one.subject, one.stage) != (GPU, stage)]
    bench.recording.rounds = kept
    verdict = bench.verdict(ACTIVE, GPU)
    assert (verdict.outcome, verdict.measured) == (Outcome.FAIL, 0)
    assert verdict.detail.endswith(f"in the {stage} stage")


@pytest.mark.parametrize(
    ("from_s", "to_s", "outcome"),
    [(5, 25, Outcome.FAIL), (72, 92, Outcome.FAIL), (114, 134, Outcome.FAIL), (93, 113, Outcome.PASS)],
)
def test_little_power_in_any_stage_fails_but_in_one_that_is_fed(bench, from_s, to_s, outcome):
    bench.samples(GPU, from_s, to_s, power_w=lambda sample: 150 + sample.t_s % 3)
    bench.samples(GPU, from_s, to_s, power_average_w=lambda sample: 150 + sample.t_s % 3)
    assert bench.verdict(ACTIVE, GPU).outcome is outcome


def test_a_card_without_a_power_limit_is_active_by_its_utilisation(bench):
    bench.rig(nodes=[{"name": "pc1", "gpus": [{"sku": "unknown", "workers": 2, "memory_gib": 141}]}])
    bench.gpu(GPU, sku=None, power_limit_w=None, power_limit_default_w=None)
    bench.samples(GPU, power_limit_w=None)
    verdict = bench.verdict(ACTIVE, GPU)
    assert verdict.outcome is Outcome.PASS
    assert "the driver reports no power limit" in verdict.detail
    bench.samples(GPU, 26, 71, utilization_percent=70)
    assert bench.verdict(ACTIVE, GPU).outcome is Outcome.FAIL
    bench.samples(GPU, utilization_percent=None)
    assert bench.verdict(ACTIVE, GPU).outcome is Outcome.NOT_MEASURED


@pytest.mark.parametrize("kind", ["gpu_taken", "gpu_skipped"])
def test_a_device_that_was_left_alone_on_purpose_is_not_measured_unless_it_worked(bench, kind):
    why = "not loaded: pid 9 holds it; see inventory.foreign_memory"
    bench.event(kind, GPU, why, 1.0, stage=None)
    assert bench.verdict(ACTIVE, GPU).outcome is Outcome.PASS
    bench.drop("rounds", GPU)
    assert bench.said(ACTIVE, GPU) == (Outcome.NOT_MEASURED, why)
    assert bench.verdict("throughput.gemm_fp16", GPU).detail == why
    bench.recording.events.clear()
    assert bench.verdict(ACTIVE, GPU).outcome is Outcome.FAIL
