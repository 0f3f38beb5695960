from dataclasses import replace

import pytest

from rigproof.records.verdict import Outcome
from support.rig_profile import H200

GPU, MARGIN = "pc1/gpu0", "thermal.margin"


def without_promise(bench):
    """A card whose SKU file states no margin, and whose driver reports none of the slowdown."""
    temperature = H200.temperature.model_copy(update={"slowdown_margin_c": None})
    skus = dict(bench.loaded.skus) | {"h200": H200.model_copy(update={"temperature": temperature})}
    bench.loaded = replace(bench.loaded, skus=skus)
    bench.gpu(GPU, slowdown_margin_c=None)


def test_a_cool_card_passes_with_its_least_margin(bench):
    verdict = bench.verdict(MARGIN, GPU)
    assert (verdict.outcome, verdict.measured, verdict.limit) == (Outcome.PASS, 21, -2)
    assert (verdict.limit_source, verdict.direction) == ("NVML's T.Limit of the slowdown", "at_least")


def test_the_sku_file_states_the_slowdown_where_nvml_does_not(bench):
    bench.gpu(GPU, slowdown_margin_c=None)
    verdict = bench.verdict(MARGIN, GPU)
    assert (verdict.outcome, verdict.limit_source) == (Outcome.PASS, "hwprofiles/gpus/h200.toml")


@pytest.mark.parametrize(
    ("margin_c", "expected"),
    [(-3, Outcome.FAIL), (-2, Outcome.WARN), (-1, Outcome.WARN), (0, Outcome.PASS), (1, Outcome.PASS)],
)
def test_how_near_a_card_may_come_to_its_slowdown(bench, margin_c, expected):
    bench.samples(GPU, 50, 60, thermal_margin_c=margin_c)
    verdict = bench.verdict(MARGIN, GPU)
    assert (verdict.outcome, verdict.measured) == (expected, margin_c)
    assert verdict.limit == (0 if expected is Outcome.WARN else -2)
    if expected is not Outcome.PASS:
        assert verdict.from_s == pytest.approx(50)
        assert verdict.length_s == pytest.approx(10.1)


@pytest.mark.parametrize(("from_s", "reported"), [(0, None), (45, -2)])
def test_a_promised_margin_that_is_never_read_or_went_silent_can_fail_but_not_pass(bench, from_s, reported):
    bench.gpu(GPU, slowdown_margin_c=reported)
    bench.samples(GPU, from_s, thermal_margin_c=None)
    assert bench.verdict(MARGIN, GPU).outcome is Outcome.NOT_MEASURED
    bench.samples(GPU, 50, 50.05, thermal_margin_c=-3)
    assert bench.verdict(MARGIN, GPU).outcome is Outcome.FAIL


def test_a_card_from_before_ada_has_none(bench):
    without_promise(bench)
    bench.samples(GPU, thermal_margin_c=None)
    assert bench.verdict(MARGIN, GPU).outcome is Outcome.NOT_APPLICABLE
    bench.event("nvml_error", GPU, "Unknown Error", query="nvmlDeviceGetMarginTemperature", code=999)
    assert bench.verdict(MARGIN, GPU).outcome is Outcome.NOT_MEASURED


def test_a_margin_without_a_known_slowdown_has_no_limit(bench):
    without_promise(bench)
    verdict = bench.verdict(MARGIN, GPU)
    assert (verdict.outcome, verdict.measured) == (Outcome.NO_LIMIT, 21)


def test_a_margin_that_never_moves_while_the_core_does_is_frozen(bench):
    bench.samples(GPU, thermal_margin_c=40)
    verdict = bench.verdict(MARGIN, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.detail.endswith("while the core's temperature moved: the sensor is frozen")
    for moved_c, outcome in ((4, Outcome.PASS), (5, Outcome.NOT_MEASURED)):
        bench.samples(GPU, core_temperature_c=lambda s, most=moved_c: 60 + int(s.t_s) % (most + 1))
        assert bench.verdict(MARGIN, GPU).outcome is outcome
