import pytest

from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.judge import promised
from rigproof.records.verdict import Outcome
from support.rig_profile import RIG

BAND, AWAKE = "host.cpu_band", "host.responsiveness"


@pytest.mark.parametrize(
    ("percent", "outcome"),
    [
        (69.9, Outcome.FAIL),
        (70, Outcome.PASS),
        (85, Outcome.PASS),
        (85.1, Outcome.FAIL),
        (float("nan"), Outcome.NOT_MEASURED),
        (None, Outcome.NOT_MEASURED),
    ],
)
def test_the_band_includes_its_ends(bench, percent, outcome):
    bench.host("pc1", cpu_percent=percent)
    assert bench.verdict(BAND, "pc1").outcome is outcome


@pytest.mark.parametrize(("out_s", "outcome"), [(8, Outcome.PASS), (9, Outcome.FAIL)])
def test_a_fifth_of_the_windows_may_be_out_of_band(bench, out_s, outcome):
    bench.host("pc1", 40, 39.95 + out_s, cpu_percent=60)
    assert bench.verdict(BAND, "pc1").outcome is outcome


@pytest.mark.parametrize(("over_s", "outcome"), [(4, Outcome.PASS), (5, Outcome.WARN)])
def test_more_than_a_tenth_of_the_windows_over_90_percent_warn(bench, over_s, outcome):
    bench.host("pc1", 40, 39.95 + over_s, cpu_percent=95)
    assert bench.verdict(BAND, "pc1").outcome is outcome


def test_how_many_windows_may_be_over_it_is_the_profiles(bench):
    bench.rig(cpu=RIG["cpu"] | {"warn_windows_share": 0.2})
    bench.host("pc1", 40, 44.95, cpu_percent=95)
    assert bench.verdict(BAND, "pc1").outcome is Outcome.PASS


def test_without_such_a_share_the_mean_alone_warns(bench):
    cpu = {name: value for name, value in RIG["cpu"].items() if name != "warn_windows_share"}
    bench.rig(cpu=cpu | {"band_percent": [70, 99]})
    bench.host("pc1", 40, 49.95, cpu_percent=95)
    assert bench.verdict(BAND, "pc1").outcome is Outcome.PASS
    bench.host("pc1", cpu_percent=95)
    assert bench.verdict(BAND, "pc1").outcome is Outcome.WARN


def test_windows_are_means_of_their_samples(bench):
    bench.host("pc1", cpu_percent=lambda s: 100 if round(s.t_s * 10) % 2 else 56)
    assert bench.verdict(BAND, "pc1").outcome is Outcome.PASS


def test_the_advice_fits_the_side_that_was_missed(bench):
    bench.host("pc1", cpu_percent=40)
    assert "CPU quota" in bench.verdict(BAND, "pc1").remedy
    bench.host("pc1", cpu_percent=99)
    assert "end other programs" in bench.verdict(BAND, "pc1").remedy


def load_ended(bench, message="the CPU load has ended", **data):
    bench.event("host_load", "pc1", "12 primary and 2 secondary threads aim at 77.5 % of the CPU", share=None)
    bench.event("host_load", "pc1", message, 70, **data)


def test_others_above_the_target_are_named_where_the_load_gave_way(bench):
    load_ended(bench, own_percent=0.4, foreign_percent=97.6, short_cpus=0.0)
    assert "everybody else" not in bench.verdict(BAND, "pc1").detail
    bench.host("pc1", cpu_percent=98)
    verdict = bench.verdict(BAND, "pc1")
    assert verdict.outcome is Outcome.FAIL
    assert verdict.detail.endswith("mean 98.0 %; rigproof's load used 0 %, all other processes 98 %")
    assert "end other programs" in verdict.remedy


def test_they_are_named_in_a_warning_too(bench):
    load_ended(bench, own_percent=20, foreign_percent=60, short_cpus=0.0)
    bench.host("pc1", 40, 45, cpu_percent=95)
    verdict = bench.verdict(BAND, "pc1")
    assert verdict.outcome is Outcome.WARN
    assert "rigproof's load used 20 %, all other processes 60 %" in verdict.detail


def test_a_load_that_died_is_named_where_the_host_was_idle(bench):
    load_ended(bench, "the CPU load ended by itself", own_percent=77, foreign_percent=3, short_cpus=0.0)
    bench.host("pc1", 40, cpu_percent=3)
    assert "; the CPU load ended by itself; rigproof's load used 77 %" in bench.verdict(BAND, "pc1").detail


def test_too_few_threads_are_reported_with_how_many_cpus_are_missing(bench):
    load_ended(bench, own_percent=50, foreign_percent=3, short_cpus=3.94)
    bench.host("pc1", cpu_percent=53)
    remedy = bench.verdict(BAND, "pc1").remedy
    assert "raise `cpu.secondary_thread_share`: the load's threads were 3.9 CPUs too few" in remedy


@pytest.mark.parametrize("data", [{}, {"own_percent": "much", "foreign_percent": None, "short_cpus": 0}])
def test_a_load_that_reported_nothing_is_not_quoted(bench, data):
    load_ended(bench, **data)
    bench.host("pc1", cpu_percent=98)
    assert bench.verdict(BAND, "pc1").detail.endswith("over 85 %, mean 98.0 %")


def test_the_other_node_is_judged_by_its_own_samples(bench):
    bench.host("pc1", cpu_percent=99)
    assert bench.verdict(BAND, "pc2").outcome is Outcome.PASS


def test_a_node_can_have_its_own_band(bench):
    nodes = [{"name": "pc1", "cpu": {"band_percent": [30, 50]}}, {"name": "pc2"}]
    bench.rig(nodes=nodes)
    assert bench.verdict(BAND, "pc1").outcome is Outcome.FAIL
    assert bench.verdict(BAND, "pc2").outcome is Outcome.PASS


def test_the_band_is_not_promised_where_the_load_is_switched_off(bench):
    bench.rig(nodes=[{"name": "pc1", "cpu": {"enabled": False}}, {"name": "pc2"}])
    assert promised(CATALOGUE[BAND], bench.loaded) == ("pc2",)
    assert promised(CATALOGUE[AWAKE], bench.loaded) == ("pc1", "pc2")


def test_too_few_samples_of_the_cpu_are_no_measurement(bench):
    bench.host("pc1", 30, 45, cpu_percent=None)
    verdict = bench.verdict(BAND, "pc1")
    assert verdict.outcome is Outcome.NOT_MEASURED


@pytest.mark.parametrize(
    ("delays_ms", "outcome"),
    [
        ((250,), Outcome.PASS),
        ((251,), Outcome.WARN),
        ((500,), Outcome.WARN),
        ((501,), Outcome.FAIL),
        ((251, 251), Outcome.FAIL),
    ],
)
def test_one_wake_up_may_take_250_ms_and_a_single_one_twice_as_long_warns(bench, delays_ms, outcome):
    bench.host("pc1", 40, 40.05, wakeup_delays_ms=(1.0, *delays_ms, 1.0))
    verdict = bench.verdict(AWAKE, "pc1")
    assert verdict.outcome is outcome
    assert outcome is Outcome.PASS or verdict.measured == max(delays_ms)


@pytest.mark.parametrize(("slow", "outcome"), [(3, Outcome.PASS), (4, Outcome.FAIL)])
def test_one_wake_up_in_a_hundred_may_take_longer_than_50_ms(bench, slow, outcome):
    # 401 samples under load with 9 wake-ups each, of which 36 are the slowest hundredth.
    bench.host("pc1", 40, 39.95 + slow * 0.1, wakeup_delays_ms=(60.0,) * 12)
    assert bench.verdict(AWAKE, "pc1").outcome is outcome


def test_the_percentile_and_the_maximum_are_reported(bench):
    verdict = bench.verdict(AWAKE, "pc1")
    assert verdict.measured == pytest.approx(1.0)
    assert "3609 wake-up delays" in verdict.detail


@pytest.mark.parametrize("delays_ms", [None, (), (float("nan"),)])
def test_no_wake_ups_are_no_measurement(bench, delays_ms):
    bench.host("pc1", wakeup_delays_ms=delays_ms)
    verdict = bench.verdict(AWAKE, "pc1")
    assert verdict.outcome is Outcome.NOT_MEASURED


def test_a_probe_that_died_half_way_is_no_measurement(bench):
    bench.host("pc1", 50, wakeup_delays_ms=None)
    assert bench.verdict(AWAKE, "pc1").outcome is Outcome.NOT_MEASURED


def test_a_frozen_host_is_caught_by_its_one_long_delay(bench):
    bench.host("pc1", 40, 60, wakeup_delays_ms=None)
    bench.host("pc1", 60.05, 60.15, wakeup_delays_ms=(20_000.0,))
    verdict = bench.verdict(AWAKE, "pc1")
    assert (verdict.outcome, verdict.measured) == (Outcome.FAIL, 20_000)


# At the edges of what counts


def without(table, *names):
    return {name: value for name, value in table.items() if name not in names}


def test_what_was_measured_and_required_is_reported(bench):
    verdict = bench.verdict(BAND, "pc1")
    assert (verdict.measured, verdict.limit) == (100.0, 80.0)
    assert verdict.limit_source.endswith(", band 70–85 %")
    assert verdict.detail.startswith("of 40 s 0 under 70 % and 0 over 85 %, mean 77.5 %")


def test_a_failure_is_dated_by_the_first_window_out_of_band_and_not_at_its_ends(bench):
    bench.host("pc1", 30, 39.95, cpu_percent=70)
    bench.host("pc1", 40, 49.95, cpu_percent=85)
    bench.host("pc1", 50, cpu_percent=60)
    verdict = bench.verdict(BAND, "pc1")
    assert (verdict.outcome, verdict.measured, verdict.from_s) == (Outcome.FAIL, 50.0, 50.0)


def test_as_many_windows_over_as_under_the_band_are_somebody_elses_load(bench):
    bench.host("pc1", 40, 44.95, cpu_percent=99)
    bench.host("pc1", 50, 54.95, cpu_percent=40)
    assert "end other programs" in bench.verdict(BAND, "pc1").remedy


def test_a_host_at_the_warning_does_not_warn(bench):
    bench.rig(cpu=RIG["cpu"] | {"band_percent": [70, 99]})
    bench.host("pc1", cpu_percent=90)
    assert bench.verdict(BAND, "pc1").outcome is Outcome.PASS
    bench.host("pc1", cpu_percent=95)
    verdict = bench.verdict(BAND, "pc1")
    assert (verdict.outcome, verdict.detail) == (Outcome.WARN, "100 % of seconds over 90 %, mean 95.0 %")


@pytest.mark.parametrize(("share", "outcome"), [(0.248, Outcome.WARN), (0.25, Outcome.PASS)])
def test_as_many_windows_over_the_warning_as_allowed_do_not_warn(bench, share, outcome):
    bench.rig(cpu=RIG["cpu"] | {"band_percent": [70, 99], "warn_windows_share": share})
    bench.host("pc1", 40, 49.95, cpu_percent=95)
    assert bench.verdict(BAND, "pc1").outcome is outcome


def test_of_two_reports_of_the_load_the_later_one_is_quoted(bench):
    load_ended(bench, "the first part", own_percent=1, foreign_percent=2, short_cpus=0.0)
    load_ended(bench, "the second part", own_percent=3, foreign_percent=4, short_cpus=0.0)
    bench.host("pc1", cpu_percent=98)
    detail = bench.verdict(BAND, "pc1").detail
    assert detail.endswith("; the second part; rigproof's load used 3 %, all other processes 4 %")


@pytest.mark.parametrize(
    ("short_cpus", "advice"), [(0.05, "raise `cpu.secondary"), (0.04, "give the node more CPUs")]
)
def test_a_twentieth_of_a_cpu_is_a_thread_too_few(bench, short_cpus, advice):
    load_ended(bench, own_percent=50, foreign_percent=3, short_cpus=short_cpus)
    bench.host("pc1", cpu_percent=53)
    assert bench.verdict(BAND, "pc1").remedy.startswith(advice)


def test_readings_of_the_cpu_are_counted_before_their_windows(bench):
    bench.host("pc1", cpu_percent=lambda one: None if round(one.t_s * 10) % 5 > 2 else 77)
    detail = bench.verdict(BAND, "pc1").detail
    assert detail == "only 241 of the 400 readings of CPU load due under load, which is under 80 %"


@pytest.mark.parametrize(("empty", "outcome"), [(8, Outcome.PASS), (9, Outcome.NOT_MEASURED)])
def test_a_fifth_of_the_windows_may_be_empty_however_many_samples_the_others_have(bench, empty, outcome):
    bench.rig(sampling={"rate_hz": 5})
    gone = [31, 36, 41, 46, 51, 56, 61, 66, 33][:empty]  # seconds, none beside another
    bench.host("pc1", cpu_percent=lambda one: None if int(one.t_s + 1e-6) in gone else 77)
    verdict = bench.verdict(BAND, "pc1")
    assert verdict.outcome is outcome
    if outcome is Outcome.NOT_MEASURED:
        assert verdict.detail == "only 31 of 40 windows have samples of the CPU load"


def wake_ups(bench, delays_ms):
    """These delays alone, in a load of 1.2 s."""
    bench.stage("sustained", loaded_to_s=31.2)
    bench.host("pc1", wakeup_delays_ms=())
    bench.host("pc1", 30.45, 30.55, wakeup_delays_ms=tuple(delays_ms))


@pytest.mark.parametrize(("number", "outcome"), [(99, Outcome.NOT_MEASURED), (100, Outcome.PASS)])
def test_a_hundred_wake_ups_are_the_fewest(bench, number, outcome):
    wake_ups(bench, [2.0] * number)
    assert bench.verdict(AWAKE, "pc1").outcome is outcome


def test_the_99th_percentile_is_the_value_that_99_in_a_hundred_do_not_exceed(bench):
    wake_ups(bench, [n / 10 for n in range(150, 0, -1)])
    verdict = bench.verdict(AWAKE, "pc1")
    assert verdict.measured == 14.9
    assert verdict.detail == "99th percentile of 150 wake-up delays, longest 15.0 ms"


def test_wake_ups_at_the_limit_pass(bench):
    wake_ups(bench, [50.0] * 150)
    verdict = bench.verdict(AWAKE, "pc1")
    assert (verdict.outcome, verdict.measured, verdict.limit) == (Outcome.PASS, 50.0, 50.0)


@pytest.mark.parametrize(("delay_ms", "outcome"), [(1.7, Outcome.NOT_MEASURED), (2.1, Outcome.PASS)])
def test_wake_ups_account_for_most_of_the_time_with_what_they_waited(bench, delay_ms, outcome):
    """A hundred times 10 ms and the delay are 1.17 s or 1.21 s; four fifths of the load are 1.2 s."""
    wake_ups(bench, [delay_ms] * 100)
    bench.stage("sustained", loaded_to_s=31.5)
    assert bench.verdict(AWAKE, "pc1").outcome is outcome


def test_one_delay_that_is_no_number_makes_all_of_them_none(bench):
    bench.host("pc1", 40, 40.05, wakeup_delays_ms=(1.0, float("nan"), 1.0))
    verdict = bench.verdict(AWAKE, "pc1")
    assert (verdict.outcome, verdict.detail) == (
        Outcome.NOT_MEASURED,
        "a wake-up delay is not a finite number",
    )


def test_a_frozen_host_is_dated_by_the_report_of_its_longest_delay(bench):
    bench.host("pc1", 40, 40.05, wakeup_delays_ms=(300.0,))
    bench.host("pc1", 50, 50.05, wakeup_delays_ms=(1.0, 900.0, 2.0))
    bench.host("pc1", 60, 60.05, wakeup_delays_ms=(400.0,))
    verdict = bench.verdict(AWAKE, "pc1")
    assert (verdict.outcome, verdict.measured, verdict.from_s) == (Outcome.FAIL, 900.0, 50.0)


def test_a_probe_that_was_silent_for_most_of_the_load_says_how_much_it_measured(bench):
    bench.host("pc1", 50, wakeup_delays_ms=None)
    assert bench.verdict(AWAKE, "pc1").detail == "the probe reported 1800 wake-ups, 19 s of 40 s"


def test_the_band_of_another_profile_fails_nobody_whose_load_aimed_elsewhere(bench):
    bench.host("pc1", cpu_percent=77.5)
    bench.judged_by(cpu=RIG["cpu"] | {"band_percent": [40, 60]})
    verdict = bench.verdict(BAND, "pc1")
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.detail == (
        "the CPU load of this run aimed at 70–85 %; run again with hwprofiles/rigs/two-nodes.toml"
    )


def test_another_profile_with_the_same_band_judges_as_the_runs_own(bench):
    bench.judged_by(cpu=RIG["cpu"] | {"in_band_share": 0.99})
    assert bench.verdict(BAND, "pc1").outcome is Outcome.PASS
    bench.host("pc1", 40, 41.95, cpu_percent=60)
    assert bench.verdict(BAND, "pc1").outcome is Outcome.FAIL


def test_a_load_that_was_off_holds_no_band(bench):
    bench.rig(cpu=RIG["cpu"] | {"enabled": False})
    bench.judged_by()
    bench.host("pc1", cpu_percent=8)
    assert bench.verdict(BAND, "pc1").detail.startswith("the CPU load of this run was off; run again")


@pytest.mark.parametrize(("freezes", "step"), [(1, "see `dmesg`"), (3, "see `dmesg`"), (4, "lower the CPU")])
def test_a_few_freezes_are_no_busy_host(bench, freezes, step):
    for number in range(freezes):
        bench.host("pc1", 40 + number, 40.04 + number, wakeup_delays_ms=(5000.0,))
    verdict = bench.verdict(AWAKE, "pc1")
    assert verdict.outcome is Outcome.FAIL
    assert verdict.remedy.startswith(step)
