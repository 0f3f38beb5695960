import pytest

from rigproof.records.verdict import Outcome

GPU, DRAW = "pc1/gpu0", "power.draw"


@pytest.mark.parametrize(("power_w", "outcome"), [(734, Outcome.PASS), (736, Outcome.FAIL)])
def test_the_average_may_be_five_percent_over_the_enforced_limit(bench, power_w, outcome):
    bench.samples(GPU, 5, power_average_w=lambda sample: power_w + (sample.t_s % 2 - 1) / 10)
    verdict = bench.verdict(DRAW, GPU)
    assert (verdict.outcome, verdict.limit) == (outcome, 735)


def test_a_single_spike_of_the_instant_power_is_no_alarm(bench):
    bench.samples(GPU, 40, 40.3, power_w=1200)
    assert bench.verdict(DRAW, GPU).outcome is Outcome.PASS


def test_the_instant_power_stands_in_for_a_missing_average(bench):
    bench.samples(GPU, power_average_w=None)
    assert bench.verdict(DRAW, GPU).measured == pytest.approx(630, abs=1)


@pytest.mark.parametrize("power_w", [None, 0])
def test_no_power_is_no_measurement(bench, power_w):
    bench.samples(GPU, power_average_w=power_w, power_w=power_w)
    verdict = bench.verdict(DRAW, GPU)
    assert (verdict.outcome, verdict.required) == (Outcome.NOT_MEASURED, True)


def test_power_that_reads_zero_for_a_quarter_is_no_measurement(bench):
    bench.samples(GPU, 60, power_average_w=0)
    assert bench.verdict(DRAW, GPU).outcome is Outcome.NOT_MEASURED


def test_an_unknown_enforced_limit_is_no_measurement(bench):
    bench.gpu(GPU, power_limit_w=None)
    assert bench.verdict(DRAW, GPU).outcome is Outcome.NOT_MEASURED
