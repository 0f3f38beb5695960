from dataclasses import replace

import pytest

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.fed import fed
from rigproof.records.verdict import Outcome
from rigproof.stages.feeding.criteria import _fast_enough, _fed_enough, tables
from rigproof.stages.feeding.stage import RewardBatch

GPU, OTHER, WORKER = "pc1/gpu0", "pc2/gpu0", "pc1/gpu0#0"
REWARDS, IDLE = "feeding.parallel_rewards", "feeding.idle_gaps"
CLOCK, POWER, CORE = "clock.ratio", "power.draw", "thermal.core_temperature"
FAIL, PASS, NOT_MEASURED = Outcome.FAIL, Outcome.PASS, Outcome.NOT_MEASURED


def device(bench, subject=GPU):
    return Evidence(bench.recording, bench.loaded).device(subject)


def cut(bench, from_s, to_s):
    """No round of generation ends there."""
    bench.recording.rounds = [
        one
        for one in bench.recording.rounds
        if one.subject != GPU or one.stage != "feeding" or not from_s < one.t_s <= to_s
    ]


def pool_takes(bench, seconds):
    """So long for a strategy."""
    bench.rewards(GPU, seconds=lambda one: seconds * one.valid if one.mode == "parallel" else one.seconds)


def test_the_speed_up_is_what_a_strategy_takes_alone_and_in_the_pool(bench):
    bench.rewards(GPU, seconds=lambda one: 20 * one.seconds)
    verdict = bench.verdict(REWARDS, GPU)
    assert verdict.measured == pytest.approx(30 / 5)
    assert verdict.limit == pytest.approx(0.375 * 8)
    assert verdict.limit_source == "hwprofiles/defaults.toml × 8 processes"
    assert verdict.detail == "600.0 ms per strategy, 100.0 ms in the pool; none lost of 960 strategies"


@pytest.mark.parametrize(("seconds", "outcome"), [(0.0099, PASS), (0.0101, FAIL)])
def test_the_floor_is_a_share_of_the_processes(bench, seconds, outcome):
    pool_takes(bench, seconds)
    assert bench.verdict(REWARDS, GPU).outcome is outcome


def test_strategies_that_were_sorted_out_count_as_no_work(bench):
    bench.rewards(GPU, invalid=lambda one: 62 if one.strategies == 64 else 0)
    assert bench.verdict(REWARDS, GPU).outcome is FAIL


def test_one_sequential_run_is_a_single_reading(bench):
    rewards = bench.recording.of(RewardBatch)
    bench.recording.put(RewardBatch, [one for one in rewards if one.mode == "parallel" or one.t_s < 94.5])
    verdict = bench.verdict(REWARDS, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED


def test_without_a_comparison_of_the_rewards_there_is_no_pass(bench):
    bench.rewards(GPU, matches=None)
    assert bench.verdict(REWARDS, GPU).outcome is NOT_MEASURED
    bench.recording.put(RewardBatch, [])
    assert bench.verdict(REWARDS, GPU).outcome is NOT_MEASURED


def test_a_pool_of_one_process_has_nothing_to_be_measured_by(bench):
    bench.rewards(GPU, processes=1)
    verdict = bench.verdict(REWARDS, GPU)
    assert verdict.outcome is Outcome.NO_LIMIT
    assert "a pool of one process gives no speed-up" in verdict.detail


@pytest.mark.parametrize("seconds", [0.0, float("nan"), float("inf")])
def test_a_run_without_a_time_measures_nothing(bench, seconds):
    bench.rewards(GPU, 94.9, 95.05, seconds=seconds)
    assert bench.verdict(REWARDS, GPU).outcome is NOT_MEASURED


@pytest.mark.parametrize("loss", ["invalid", "crashed", "timed_out", "out_of_memory"])
@pytest.mark.parametrize("lost", [-1, 65])
def test_a_run_that_lost_less_than_none_or_more_than_all_measures_nothing(bench, loss, lost):
    bench.rewards(GPU, 104.3, 104.4, **{loss: lost})
    verdict = bench.verdict(REWARDS, GPU)
    assert verdict.outcome is NOT_MEASURED
    assert verdict.detail == f"a run of 64 strategies is said to have lost {lost}"


def test_a_reward_that_differs_fails_whatever_the_speed(bench):
    bench.rewards(GPU, 112, 113, matches=lambda one: one.matches and False, timed_out=2)
    verdict = bench.verdict(REWARDS, GPU)
    assert (verdict.outcome, verdict.measured, verdict.from_s) == (FAIL, None, 112.7)
    assert verdict.detail.startswith(
        "1 parallel run gave other rewards than the sequential ones; 2 timed out"
    )


def test_of_several_runs_with_other_rewards_the_first_is_reported(bench):
    bench.rewards(GPU, 104, 113, matches=False)
    batches = [one for one in bench.recording.of(RewardBatch) if (one.subject, one.matches) == (GPU, False)]
    assert len(batches) > 1
    assert bench.verdict(REWARDS, GPU).from_s == min(one.t_s for one in batches)


@pytest.mark.parametrize("loss", ["crashed", "timed_out", "out_of_memory"])
@pytest.mark.parametrize(("lost", "outcome"), [(12, PASS), (13, FAIL), (48, FAIL)])
def test_a_run_that_loses_more_than_a_quarter_of_its_strategies_fails_however_fast(
    bench, loss, lost, outcome
):
    """64 strategies of a step, of which 16 are invalid: what crashes at once costs the pool no time."""
    bench.rewards(GPU, 104.3, 104.4, **{loss: lost})
    verdict = bench.verdict(REWARDS, GPU)
    assert verdict.outcome is outcome
    if outcome is FAIL:
        assert f"{lost} {loss.replace('_', ' ')} of 64 strategies" in verdict.detail
        assert verdict.limit_source == "hwprofiles/defaults.toml"
        step = {"timed_out": "strategy_s", "out_of_memory": "strategy_memory_mib", "crashed": "kernel log"}[
            loss
        ]
        assert step in verdict.remedy


def test_the_run_that_lost_the_largest_share_is_judged_however_few_strategies_it_had(bench):
    bench.rewards(GPU, 104.3, 104.4, crashed=13)  # of 48
    bench.rewards(GPU, 112, 113, strategies=640, invalid=0, crashed=20)
    verdict = bench.verdict(REWARDS, GPU)
    assert verdict.outcome is FAIL
    assert verdict.detail.endswith("lost 27% of its strategies, allowed are 25%: 13 crashed of 64 strategies")
    bench.rewards(GPU, 104.3, 104.4, crashed=1, invalid=64)  # none was valid: all that it lost is too much
    assert "lost 100% of its strategies" in bench.verdict(REWARDS, GPU).detail


def test_the_remedy_is_for_what_a_run_lost_most_of(bench):
    bench.rewards(GPU, 104.3, 104.4, timed_out=3, crashed=12, out_of_memory=1)
    assert "kernel log" in bench.verdict(REWARDS, GPU).remedy


@pytest.mark.parametrize("lost", [0, 1], ids=["by columns", "by records"])
def test_the_floor_is_by_the_largest_pool_that_computed_rewards(bench, lost):
    bench.rewards(GPU, processes=lambda one: 4 if one.t_s < 105 else 8, timed_out=lost)
    assert bench.verdict(REWARDS, GPU).limit == pytest.approx(0.375 * 8)


def test_sequential_runs_that_lose_their_strategies_fail_too(bench):
    bench.rewards(GPU, crashed=lambda one: one.strategies if one.mode == "sequential" else 0)
    assert bench.verdict(REWARDS, GPU).outcome is FAIL


def test_the_window_is_that_of_the_measured_generation(bench):
    window = fed(device(bench)).window
    assert (window.from_s, window.to_s) == (99.0, 112.0)
    cut(bench, 0, 112)
    with pytest.raises(NotMeasured, match="no round of generation was measured"):
        fed(device(bench))


@pytest.mark.parametrize(("gap_s", "outcome"), [(1.0, PASS), (1.5, FAIL)])
def test_a_tenth_of_the_time_may_pass_without_generation(bench, gap_s, outcome):
    cut(bench, 104.9, 104.9 + gap_s)
    verdict = bench.verdict(IDLE, GPU)
    assert verdict.outcome is outcome
    assert verdict.measured == pytest.approx(100 * gap_s / 13)
    assert f"longest gap {1000 * gap_s:.0f} ms" in verdict.detail
    if outcome is FAIL:
        assert (verdict.from_s, verdict.length_s) == (104.5, gap_s)


def test_many_small_gaps_count_like_a_long_one(bench):
    bench.rounds(GPU, "feeding", seconds=lambda one: 0.44)
    verdict = bench.verdict(IDLE, GPU)
    assert verdict.outcome is FAIL
    assert "longest gap 60 ms" in verdict.detail


def test_generation_that_was_not_verified_is_none(bench):
    bench.rounds(GPU, "feeding", 104, 106, verified=False)
    assert bench.verdict(IDLE, GPU).outcome is FAIL


@pytest.mark.parametrize(("percent", "outcome"), [(90, PASS), (89, FAIL), (None, NOT_MEASURED)])
def test_what_nvml_says_counts_too(bench, percent, outcome):
    bench.samples(GPU, 93, 113, utilization_percent=percent)
    assert bench.verdict(IDLE, GPU).outcome is outcome


@pytest.mark.parametrize(("seconds", "outcome"), [(1.9, FAIL), (2.0, NOT_MEASURED)])
def test_utilisation_that_reads_nothing_while_it_works_is_of_another_time(bench, seconds, outcome):
    bench.samples(GPU, 104.95, 105.05 + seconds, utilization_percent=0)
    verdict = bench.verdict(IDLE, GPU)
    assert verdict.outcome is outcome
    if outcome is NOT_MEASURED:
        assert verdict.detail.startswith("NVML's utilisation is 0 % for 2 s from t=105 s on")


def test_utilisation_that_reads_nothing_while_it_waits_agrees(bench):
    bench.limits(idle_share=0.2)
    cut(bench, 104.9, 107.4)
    bench.samples(GPU, 104.5, 107.5, utilization_percent=0)
    assert bench.verdict(IDLE, GPU).outcome is FAIL


def test_readings_with_holes_are_no_measurement(bench):
    bench.samples(GPU, 93, 113, utilization_percent=lambda s: 100 if s.t_s % 1 < 0.5 else None)
    assert bench.verdict(IDLE, GPU).outcome is NOT_MEASURED


@pytest.mark.parametrize(("steps", "outcome"), [(1, NOT_MEASURED), (2, PASS)])
def test_a_gpu_that_never_had_to_wait_for_rewards_proves_nothing(bench, steps, outcome):
    rewards = bench.recording.of(RewardBatch)
    ends_s = [one.t_s for one in rewards if one.subject == GPU and 99 <= one.t_s <= 112]
    bench.recording.put(RewardBatch, [one for one in rewards if one.t_s not in ends_s[steps:]])
    verdict = bench.verdict(IDLE, GPU)
    assert verdict.outcome is outcome
    assert ("rewards of only 1 step were" in verdict.detail) is (steps == 1)


def test_a_lost_worker_does_not_pass_by_what_it_did_before(bench):
    bench.event("worker_died", GPU, "signal 9", 108, WORKER, "feeding")
    cut(bench, 108, 120)
    verdict = bench.verdict(IDLE, GPU)
    assert verdict.outcome is NOT_MEASURED
    assert "signal 9" in verdict.detail
    assert bench.verdict(IDLE, OTHER).outcome is PASS


def test_without_the_stage_nothing_of_it_is_judged(bench):
    bench.limits(working_clock_mhz=1979.0, working_power_w=(1.0, 2.0), working_temperature_c=(1.0, 2.0))
    bench.only("gemm", "sustained", "training", "sharing")
    for criterion in (CLOCK, POWER, CORE):
        assert bench.verdict(criterion, GPU).outcome is PASS
    for criterion in (REWARDS, IDLE):
        assert bench.verdict(criterion, GPU).outcome is NOT_MEASURED


@pytest.mark.parametrize(
    ("clock_mhz", "limits", "reasons", "outcome"),
    [
        (1683, {}, 0x1, PASS),
        (1682, {}, 0x1, FAIL),  # idle explains nothing: it waited for rewards
        (1682, {}, 0x4, PASS),
        (1682, {}, None, NOT_MEASURED),
        (1901, {"working_clock_mhz": 1900.0}, 0x1, PASS),
        (1899, {"working_clock_mhz": 1900.0}, 0x1, FAIL),
    ],
)
def test_the_clock_stays_up_while_it_is_fed(bench, clock_mhz, limits, reasons, outcome):
    bench.limits(**limits)
    bench.samples(GPU, 93, 113, sm_clock_mhz=clock_mhz, clock_event_reasons=reasons)
    verdict = bench.verdict(CLOCK, GPU)
    assert verdict.outcome is outcome
    if limits and outcome is FAIL:
        assert verdict.limit == pytest.approx(100 * 1900 / 1980)
        assert verdict.limit_source.endswith(", 1900 MHz")
        assert "in the feeding stage" in verdict.detail


@pytest.mark.parametrize(
    ("low", "high", "outcome", "limit"),
    [(600, 700, PASS, None), (640, 700, FAIL, 640), (100, 150, FAIL, 150)],
)
def test_the_mean_power_has_to_be_in_its_working_range(bench, low, high, outcome, limit):
    bench.limits(working_power_w=(float(low), float(high)))
    verdict = bench.verdict(POWER, GPU)
    assert verdict.outcome is outcome
    if limit is not None:
        assert verdict.limit == limit
        assert verdict.detail == f"mean power in the feeding stage; allowed: {low} to {high}"


@pytest.mark.parametrize(("low", "high", "outcome"), [(60, 65, PASS), (66, 70, FAIL), (50, 60, FAIL)])
def test_the_mean_temperature_has_to_be_in_its_working_range(bench, low, high, outcome):
    bench.limits(working_temperature_c=(float(low), float(high)))
    assert bench.verdict(CORE, GPU).outcome is outcome


def test_a_range_that_nobody_can_judge_is_not_passed(bench):
    bench.limits(working_power_w=(1.0, 700.0), working_temperature_c=(1.0, 80.0))
    bench.samples(GPU, 93, 113, power_w=None, core_temperature_c=None)
    for criterion in (POWER, CORE):
        assert bench.verdict(criterion, GPU).outcome is NOT_MEASURED


def test_too_hot_in_the_whole_run_is_reported_before_the_range(bench):
    bench.limits(working_temperature_c=(66.0, 70.0))
    bench.samples(GPU, 50, 51, core_temperature_c=99)
    verdict = bench.verdict(CORE, GPU)
    assert (verdict.outcome, verdict.measured) == (FAIL, 99)


def test_where_the_driver_has_no_instant_power_its_average_is_taken(bench):
    bench.recording.gpu_samples = [
        replace(one, power_w=None) if one.subject == GPU else one for one in bench.recording.gpu_samples
    ]
    bench.limits(working_power_w=(600.0, 700.0))
    assert bench.verdict(POWER, GPU).outcome is PASS


@pytest.mark.parametrize(("told", "outcome"), [(8, Outcome.PASS), (9, Outcome.NOT_MEASURED)])
def test_a_pool_smaller_than_planned_does_not_lower_its_own_limit(bench, told, outcome):
    bench.stage("feeding", settings={"specs": {f"{GPU}#0": {"processes": told}}})
    verdict = bench.verdict(REWARDS, GPU)
    assert verdict.outcome is outcome
    if told == 9:
        assert verdict.detail == "its pool had 8 processes, and 9 were planned"


# Whose CPUs it were: pc1 has 8, and its pool wants all of them


def busy(bench, own_percent, cpu_percent=99.0, **fields):
    bench.host("pc1", 93, 113, cpu_percent=cpu_percent, own_percent=own_percent, **fields)


@pytest.mark.parametrize(
    ("own_percent", "outcome"), [(45.0, NOT_MEASURED), (70.0, FAIL)], ids=["others took half", "a third"]
)
def test_a_pool_that_others_left_half_of_the_cpus_is_held_to_half_of_the_speed_up(
    bench, own_percent, outcome
):
    """Of 3.0 it reached 1.5 to 2, and that is enough for what it had, or not."""
    pool_takes(bench, 0.03 / (1.6 if outcome is NOT_MEASURED else 1.9))
    assert bench.verdict(REWARDS, GPU).outcome is FAIL
    busy(bench, own_percent)
    verdict = bench.verdict(REWARDS, GPU)
    assert verdict.outcome is outcome
    if outcome is NOT_MEASURED:
        assert "other programs took 54 % of the CPU" in verdict.detail
        assert verdict.remedy


@pytest.mark.parametrize(
    ("used", "stolen", "outcome"),
    [
        (60.0, 30.0, NOT_MEASURED),  # half of the time of each CPU that ran, though 40 % were idle
        (60.0, 12.0, FAIL),  # a fifth explains 2.4 of 3.0
        (60.0, 0.9, FAIL),
        (5.0, 2.5, NOT_MEASURED),  # a pool of 8 on many CPUs
    ],
)
@pytest.mark.parametrize("criterion", [REWARDS, IDLE])
def test_a_hypervisor_takes_from_each_cpu_that_runs_whether_others_are_idle_or_not(
    bench, criterion, used, stolen, outcome
):
    pool_takes(bench, 0.019)
    bench.rounds(GPU, "feeding", seconds=lambda one: one.seconds * 0.85)
    busy(bench, used - stolen, cpu_percent=used, stolen_percent=stolen)
    verdict = bench.verdict(criterion, GPU)
    assert verdict.outcome is outcome
    if outcome is NOT_MEASURED:
        assert f"a hypervisor took {stolen:.0f} % of the CPU" in verdict.detail


def test_others_explain_no_other_rewards(bench):
    busy(bench, 5.0)
    bench.rewards(GPU, matches=lambda one: one.matches and False)
    assert bench.verdict(REWARDS, GPU).outcome is FAIL


@pytest.mark.parametrize(("own_percent", "outcome"), [(10.0, NOT_MEASURED), (95.0, FAIL)])
def test_a_gpu_waits_for_rewards_that_had_too_few_cpus(bench, own_percent, outcome):
    bench.rounds(GPU, "feeding", seconds=lambda one: one.seconds * 0.8)
    busy(bench, own_percent)
    assert bench.verdict(IDLE, GPU).outcome is outcome


@pytest.mark.parametrize(("speedup", "enough"), [(1.5, True), (1.49, False), (2.0, True)])
def test_of_a_speed_up_so_much_is_due_as_was_left_of_the_cpus(speedup, enough):
    assert _fast_enough(speedup, 3.0, 0.5) is enough


@pytest.mark.parametrize(("most", "enough"), [(25.0, True), (24.9, False)])
def test_a_gpu_would_have_waited_for_half_as_long_had_its_pool_had_twice_the_cpus(most, enough):
    """Of 100 s it waited 40 and worked 60: with all CPUs it would have waited 20 of 80, a quarter."""
    assert _fed_enough(40.0, most, 0.5) is enough


def test_rewards_that_were_measured_need_no_cause(bench):
    bench.event("oom", GPU, "3 GiB wanted", 100.0, stage="feeding")
    assert bench.verdict(REWARDS, GPU).outcome is PASS


def test_idle_time_may_be_at_its_limit(bench):
    bench.rounds(GPU, "feeding", seconds=lambda one: 0.44)
    share = fed(device(bench)).idle_share
    for most, outcome in ((share, PASS), (share * 0.999, FAIL)):
        bench.limits(idle_share=most)
        assert bench.verdict(IDLE, GPU).outcome is outcome


@pytest.mark.parametrize(("cpu_percent", "outcome"), [(54.0, FAIL), (54.5, NOT_MEASURED)])
def test_who_took_as_much_as_was_unused_took_nothing_from_the_pool(bench, cpu_percent, outcome):
    """Others took 46 % of the CPU, or half a percent more than that was unused: of 8 CPUs 4.3 were left."""
    pool_takes(bench, 0.012)
    busy(bench, cpu_percent - 46.0, cpu_percent=cpu_percent)
    assert bench.verdict(REWARDS, GPU).outcome is outcome


def test_of_two_losses_the_first_is_reported(bench):
    for t_s, message in ((105.0, "the process is gone"), (109.0, "its task failed")):
        bench.event("worker_died", GPU, message, t_s, stage="feeding")
    verdict = bench.verdict(IDLE, GPU)
    assert (verdict.outcome, verdict.detail) == (
        NOT_MEASURED,
        "its worker was lost at t=105 s: the process is gone",
    )


# The table


def rows(bench):
    (table,) = tables(bench.recording)
    assert all(len(row) == len(table.columns) for row in table.rows)
    return table.rows


def test_each_device_has_its_rewards_and_its_gaps(bench):
    first, second = rows(bench)
    assert first == (GPU, "30 ms", "5 ms", "8", "6.00 ×", "13", "0 %", "0 ms")
    assert second[1:] == first[1:]


def test_what_was_not_measured_is_not_shown_as_a_figure(bench):
    bench.rewards(GPU, matches=None)
    bench.drop("rounds", GPU)
    first = next(row for row in rows(bench) if row[0] == GPU)
    assert first[1:5] == ("not measured", "", "", "")
    assert first[6:] == ("not measured", "")


def test_a_run_without_the_stage_has_no_row(bench):
    bench.only("gemm", "sustained")
    assert rows(bench) == ()
