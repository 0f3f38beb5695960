"""What the verdicts of several laps say together; whole recordings of laps are in tests/simulation."""

from dataclasses import replace

import pytest

from rigproof.judging.laps import laps_of, of_all_laps
from rigproof.records.verdict import Outcome, Verdict
from support.rig_profile import RIG, loaded_rig

FAIL, WARN, PASS, NOT_MEASURED = Outcome.FAIL, Outcome.WARN, Outcome.PASS, Outcome.NOT_MEASURED
MARGIN = loaded_rig({"limits": RIG["limits"] | {"marginal_share": 0.03}})
CPU = loaded_rig({"nodes": [{"name": "a", "gpus": [{"sku": "unknown", "device": "cpu", "memory_gib": 8.0}]}]})


def rate(measured, limit=100.0):
    outcome = PASS if measured >= limit else FAIL
    return Verdict("training.step", "pc1/gpu0", outcome, "TFLOP/s", measured, limit, detail="fp16")


def heat(measured):
    outcome = PASS if measured <= 80 else FAIL
    return Verdict("thermal.core_temperature", "pc1/gpu0", outcome, "°C", measured, 80.0, direction="at_most")


def worst(*laps, of=MARGIN):
    (found,) = of_all_laps([[one] for one in laps], [], of)
    return found


@pytest.mark.parametrize(
    ("laps", "outcome", "measured", "detail"),
    [
        ((120, 110, 130), PASS, 110, "fp16; in lap 2 of 3, the worst"),
        ((120, 120, 120), PASS, 120, "fp16"),
        ((120, 98, 130), WARN, 98, "in lap 2 of 3; fp16"),
        ((120, 96, 130), FAIL, 96, "in lap 2 of 3; fp16"),
        ((99, 98, 130), FAIL, 98, "in laps 1 and 2 of 3; fp16"),
    ],
)
def test_the_lowest_rate_of_all_laps_counts_and_once_by_little_is_a_warning(laps, outcome, measured, detail):
    found = worst(*map(rate, laps))
    assert (found.outcome, found.measured, found.detail) == (outcome, measured, detail)


def test_a_lap_that_was_not_measured_leaves_a_marginal_rate_a_failure():
    missing = Verdict("training.step", "pc1/gpu0", NOT_MEASURED, detail="it did not run")
    assert worst(rate(98), missing).outcome is FAIL
    assert worst(rate(101), missing).detail == "in lap 2 of 2; it did not run"


def test_the_highest_of_what_must_stay_low_counts():
    found = worst(heat(70), heat(79), heat(75))
    assert (found.outcome, found.measured) == (PASS, 79)
    assert worst(heat(84), heat(90)).measured == 90


@pytest.mark.parametrize(
    ("other", "outcome"),
    [(FAIL, FAIL), (NOT_MEASURED, NOT_MEASURED), (WARN, WARN), (Outcome.NO_LIMIT, Outcome.NO_LIMIT)],
)
def test_the_worst_outcome_counts_wherever_it_is(other, outcome):
    def made(one):
        return Verdict("health.xid", "pc1/gpu0", one)

    assert worst(made(PASS), made(other), made(PASS)).outcome is outcome
    assert worst(made(other), made(PASS)).outcome is outcome


def test_what_holds_in_every_lap_alike_is_not_told_of_one():
    """Such as an error that is counted from the run's beginning to its end."""
    counted = Verdict("memory.ecc", "pc1/gpu0", FAIL, "errors", 2.0, 0.0, detail="2 uncorrected errors")
    assert worst(counted, counted, counted) == counted


@pytest.mark.parametrize(
    ("failed", "number", "text"),
    [
        ({2}, 3, "in lap 2 of 3"),
        ({1, 2}, 3, "in laps 1 and 2 of 3"),
        ({3, 4, 5, 6}, 6, "in laps 3 to 6 of 6"),
        ({3, 5, 6}, 6, "in laps 3, 5 and 6 of 6"),
        ({1, 2, 3}, 3, "in all 3 laps"),
        ({2, 4, 6, 8, 9}, 23, "in 5 of 23 laps, first in lap 2"),
    ],
)
def test_all_laps_that_failed_are_named_with_the_figure_of_the_worst(failed, number, text):
    found = worst(*(heat(80 + lap if lap in failed else 70) for lap in range(1, number + 1)))
    assert (found.outcome, found.measured, found.detail) == (FAIL, 80 + max(failed), text)


def test_what_one_moment_did_to_all_later_laps_is_told_of_the_lap_in_which_it_happened():
    gone = Verdict("cluster.nodes_present", "pc1", FAIL, detail="it is gone", from_s=70.0)
    here = Verdict("cluster.nodes_present", "pc1", PASS)
    assert worst(here, gone, gone).detail == "in lap 2 of 3; it is gone"
    assert worst(here, gone, replace(gone, from_s=90.0)).detail == "in laps 2 and 3 of 3; it is gone"
    hotter = [replace(heat(degrees), from_s=degrees) for degrees in (81.0, 81.0, 84.0, 81.0)]
    assert worst(*hotter).detail == "in laps 1 and 3 of 4"


@pytest.mark.parametrize("outcome", [FAIL, NOT_MEASURED])
def test_what_is_read_before_and_after_the_run_names_no_lap_and_gives_way_to_what_does(outcome):
    of_run = Verdict("health.reset", "pc1", outcome, detail="another boot id", from_s=99.0, of_run=True)
    seen = Verdict("health.reset", "pc1", outcome, detail="it restarted", from_s=50.0)
    missing = Verdict("health.reset", "pc1", NOT_MEASURED, detail="it did not run")
    assert worst(of_run, of_run, Verdict("health.reset", "pc1", PASS)) == of_run
    assert worst(of_run, seen, of_run).detail == "in lap 2 of 3; it restarted"
    if outcome is FAIL:
        assert worst(of_run, missing) == of_run


def test_of_what_is_read_before_and_after_the_run_the_one_with_a_cause_counts():
    of_run = Verdict("health.defects", "pc1/gpu0", NOT_MEASURED, detail="not read", of_run=True)
    lost = replace(of_run, remedy="follows from health.reset of pc1, see there first")
    assert worst(of_run, lost) == lost


def test_a_cpu_as_the_device_is_not_held_against_its_best_lap():
    def made(measured):
        return Verdict("throughput.sustained", "a/cpu0", Outcome.NO_LIMIT, "TFLOP/s", measured)

    assert worst(made(0.12), made(0.06), of=CPU).outcome is Outcome.NO_LIMIT


def test_a_run_of_one_lap_is_judged_as_it_is(bench):
    assert laps_of(bench.recording, bench.loaded) == [bench.recording]
    assert laps_of(bench.recording, bench.loaded)[0] is bench.recording
