import pytest

from rigproof.criteria.reasons import names_of
from rigproof.records.verdict import Outcome

GPU, RATIO = "pc1/gpu0", "clock.ratio"


@pytest.mark.parametrize(("clock_mhz", "outcome"), [(1683, Outcome.PASS), (1682, Outcome.FAIL)])
def test_an_unexplained_clock_under_85_percent_fails(bench, clock_mhz, outcome):
    bench.samples(GPU, 5, sm_clock_mhz=clock_mhz)
    assert bench.verdict(RATIO, GPU).outcome is outcome


@pytest.mark.parametrize(
    ("reasons", "outcome"),
    [
        (0x0, Outcome.FAIL),
        (0x1, Outcome.FAIL),  # idle explains nothing under load
        (0x2, Outcome.PASS),
        (0x4, Outcome.PASS),
        (0x40, Outcome.PASS),  # thermal.throttle judges this one
        (None, Outcome.NOT_MEASURED),
    ],
)
def test_a_low_clock_passes_where_the_driver_explains_it(bench, reasons, outcome):
    bench.samples(GPU, 5, sm_clock_mhz=1470, clock_event_reasons=reasons)
    assert bench.verdict(RATIO, GPU).outcome is outcome


def test_the_explanation_is_told(bench):
    bench.samples(GPU, 5, sm_clock_mhz=1470, clock_event_reasons=0x4)
    assert bench.verdict(RATIO, GPU).detail == "1470 MHz of 1980 MHz, explained by power cap (0x4)"


def test_an_explanation_of_less_than_half_of_the_samples_is_none(bench):
    bench.samples(GPU, 5, sm_clock_mhz=1470, clock_event_reasons=lambda s: 0x4 if s.t_s % 1 < 0.35 else 0)
    assert bench.verdict(RATIO, GPU).outcome is Outcome.FAIL


def test_a_card_that_lost_its_worker_is_not_sent_to_the_repair_shop(bench):
    bench.samples(GPU, 40, sm_clock_mhz=345, clock_event_reasons=0x1)
    assert bench.verdict(RATIO, GPU).outcome is Outcome.FAIL
    bench.lose(f"{GPU}#0", "worker_died", "it is gone", 40)
    verdict = bench.verdict(RATIO, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert "its worker was lost at t=40 s" in verdict.detail


@pytest.mark.parametrize("maximum_mhz", [None, 0])
def test_without_a_maximum_there_is_nothing_to_compare_with(bench, maximum_mhz):
    bench.gpu(GPU, sm_clock_max_mhz=maximum_mhz)
    assert bench.verdict(RATIO, GPU).outcome is Outcome.NOT_MEASURED


def test_a_clock_that_was_not_read_is_no_measurement(bench):
    bench.samples(GPU, sm_clock_mhz=None)
    verdict = bench.verdict(RATIO, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED


def test_reasons_are_named_bit_by_bit():
    assert names_of(0x44) == "power cap (0x4), HW thermal slowdown (0x40)"
    assert names_of(0) == ""
