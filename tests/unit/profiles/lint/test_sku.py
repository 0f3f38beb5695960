import math

import pytest
from pydantic import ValidationError

from rigproof.profiles.lint.sku import floor_problem, lint_sku
from rigproof.profiles.loading.load import all_skus, default_rig
from rigproof.profiles.tables.sku import (
    PRECISIONS,
    Figure,
    PowerPoint,
    Rates,
    Sku,
    SteadyFigures,
    TemperatureLimits,
    tflops,
)
from rigproof.stages.registry import KINDS
from support.rig_profile import MODELS

FILE = "hwprofiles/gpus/x.toml"


MEASURED = {"cards": 2, "size": 8192, "workers": 1, "torch": "2.11"}


def steady(**figures) -> SteadyFigures:
    """Figures by their value, or by all their fields."""
    tables = {name: one if isinstance(one, dict) else {"value": float(one)} for name, one in figures.items()}
    return MODELS.all["SteadyFigures"](**{name: Figure(**table) for name, table in tables.items()})


def sku(**changes) -> Sku:
    plain = MODELS.sku(
        name="X",
        nvml_names=("X",),
        memory_gib=24,
        memory_bandwidth_gbps=900,
        power_limit_w=300,
        peak_tflops=Rates(fp32=30, bf16=100),
        steady=steady(gemm_bf16_tflops=80),
    )
    return plain.model_copy(update=changes)


def test_a_sound_table_is_clean():
    assert lint_sku(FILE, sku(), KINDS) == []


def test_more_power_may_give_the_same_rate():
    points = (PowerPoint(limit_share=0.5, rate_share=0.9), PowerPoint(limit_share=0.8, rate_share=0.9))
    assert lint_sku(FILE, sku(power_curve=points), KINDS) == []


SKUS = all_skus(KINDS)
ARCHITECTURES = {one.compute_capability: one for one in default_rig(KINDS).rig.architectures}


@pytest.mark.parametrize("stem", SKUS)
def test_every_shipped_sku_is_clean(stem):
    assert lint_sku(f"hwprofiles/gpus/{stem}.toml", SKUS[stem], KINDS) == []


# Printed at another clock than the boost clock that the file states, or computed from it by others.
PRINTED_OTHERWISE = {
    ("a10g", "fp32"),  # a lead
    ("gh200", "fp32"),  # at 1980 MHz
    ("h100-pcie", "fp32"),  # at 1755 MHz
    ("h100-sxm", "fp32"),  # at 1980 MHz
    ("h200-sxm", "fp32"),  # at 1980 MHz
}
ROUNDED = 0.02  # L40S: 362 printed of 366


def silicon_tflops(card: Sku, precision: str) -> set[float]:
    """What the card's SMs do at its boost clock, in each rate class of its architecture."""
    found = ARCHITECTURES[str(card.compute_capability)]
    classes = (getattr(found.highest, precision), getattr(found.lowest, precision))
    return {tflops(fma, card.sms or 0, card.boost_clock_mhz or 0.0) for fma in classes if fma is not None}


@pytest.mark.parametrize("stem", [stem for stem, one in SKUS.items() if one.boost_clock_mhz])
def test_a_printed_peak_is_what_its_sms_do_at_the_boost_clock(stem):
    card = SKUS[stem]
    assert card.sms
    for precision in PRECISIONS:
        printed = getattr(card.peak_tflops, precision)
        fits = printed is None or any(
            abs(printed / one - 1) <= ROUNDED for one in silicon_tflops(card, precision)
        )
        assert fits is ((stem, precision) not in PRINTED_OTHERWISE), f"{precision}: {printed}"


@pytest.mark.parametrize("stem", SKUS)
def test_peaks_of_a_card_are_all_of_one_rate_class(stem):
    peak = SKUS[stem].peak_tflops
    assert peak.bf16 in (None, peak.fp16)
    assert peak.fp8 is None or peak.fp8 == pytest.approx(2 * (peak.fp16 or 0), rel=ROUNDED)
    assert peak.tf32 is None or peak.tf32 == pytest.approx((peak.fp16 or 0) / 2, rel=ROUNDED)


def test_every_architecture_of_a_shipped_sku_is_known():
    assert {one.compute_capability for one in SKUS.values()} <= set(ARCHITECTURES)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"steady": steady(gemm_bf16_tflops=0.08)},
            "steady.gemm_bf16_tflops = 0.08: 0.1% of the peak of 100 TFLOP/s: a floor from it cannot fail",
        ),
        (
            {"steady": steady(sustained_tflops=29)},
            "steady.sustained_tflops = 29: 29.0% of the peak of 100 TFLOP/s: a floor from it cannot fail",
        ),
        (
            {"steady": steady(gemm_bf16_tflops=116)},
            "steady.gemm_bf16_tflops = 116: 116% of the peak of 100 TFLOP/s, more than",
        ),
        (
            {"steady": steady(gemm_bf16_tflops=MEASURED | {"value": 100.0, "range": (90.0, 118.0)})},
            "steady.gemm_bf16_tflops = 118: 118% of the peak of 100 TFLOP/s, more than",
        ),
        (
            {"steady": steady(sustained_tflops=116)},
            "steady.sustained_tflops = 116: 116% of the peak of 100 TFLOP/s, more than",
        ),
        (
            {"steady": steady(gemm_fp16_tflops=80)},
            "steady.gemm_fp16_tflops = 80: there is no peak to hold it against",
        ),
        (
            {"steady": steady(training_tflops=40)},
            "steady.training_tflops = 40: there is no peak to hold it against",
        ),
        (
            {"steady": steady(gemm_bf16_tflops={"value": 80.0, "torch": "2.11", "range": (70.0, 90.0)})},
            'steady.gemm_bf16_tflops = {"value": 80.0, "range": [70.0, 90.0], "torch": '
            '"2.11"}: states range, torch, but',
        ),
        (
            {"steady": steady(gemm_bf16_tflops={"value": 80.0, "cards": 3, "size": 8192})},
            'steady.gemm_bf16_tflops = {"value": 80.0, "cards": 3, "size": 8192}: measured, '
            "but without workers, torch",
        ),
        (
            {"steady": steady(sustained_tflops=MEASURED | {"value": 80.0})},
            "steady.sustained_tflops = ",
        ),
        (
            {"steady": steady(gemm_bf16_tflops=MEASURED | {"value": 80.0, "range": (81.0, 90.0)})},
            "steady.gemm_bf16_tflops = ",
        ),
        (
            {"steady": steady(gemm_bf16_tflops={"value": 80.0, "runs": 4, "spread": 0.01})},
            'steady.gemm_bf16_tflops = {"value": 80.0, "runs": 4, "spread": 0.01}: states runs, spread, but',
        ),
        (
            {"steady": steady(gemm_bf16_tflops=MEASURED | {"value": 80.0, "cards": 1, "spread": 0.01})},
            "steady.gemm_bf16_tflops = ",
        ),
        ({"peak_tflops": Rates(), "steady": steady()}, "peak_tflops = {}: no peak at all"),
        (
            {"steady": steady(training_speedup=0.9)},
            "steady.training_speedup = 0.9: less than any card gives; write 1 to 20",
        ),
        (
            {"steady": steady(training_speedup=20.5)},
            "steady.training_speedup = 20.5: more than any card gives; write 1 to 20",
        ),
        (
            {"temperature": TemperatureLimits(slowdown_c=95, shutdown_c=90)},
            "temperature.slowdown_c = 95: not under shutdown_c = 90",
        ),
        (
            {"temperature": TemperatureLimits(max_operating_c=90, shutdown_c=90)},
            "temperature.max_operating_c = 90: not under shutdown_c = 90",
        ),
        (
            {
                "power_curve": (
                    PowerPoint(limit_share=0.5, rate_share=0.9),
                    PowerPoint(limit_share=0.8, rate_share=0.7),
                )
            },
            "power_curve[1] = ",
        ),
        (
            {
                "power_curve": (
                    PowerPoint(limit_share=0.8, rate_share=0.9),
                    PowerPoint(limit_share=0.8, rate_share=1),
                )
            },
            "power_curve[1] = ",
        ),
    ],
)
def test_a_table_that_cannot_be_right_is_reported(changes, expected):
    (line,) = lint_sku(FILE, sku(**changes), KINDS)
    assert line.startswith(f"{FILE}: {expected}")
    assert "; " in line


@pytest.mark.parametrize(("floor", "sound"), [(29.9, False), (30.1, True), (109, True), (110.1, False)])
def test_a_floor_lies_between_30_and_110_percent_of_the_peak(floor, sound):
    assert (floor_problem(floor, 100, "TFLOP/s", 0.30) is None) is sound


@pytest.mark.parametrize("speedup", [1.0, 9.0, 20.0])
def test_a_speedup_that_a_card_can_have_is_sound(speedup):
    assert lint_sku(FILE, sku(steady=steady(training_speedup=speedup)), KINDS) == []


def test_boost_clocks_past_the_printed_peak_are_no_mistake():
    assert lint_sku(FILE, sku(steady=steady(gemm_bf16_tflops=110)), KINDS) == []


@pytest.mark.parametrize("spread", [0, -0.01, 1.1, math.nan, math.inf, "0.01", True])
def test_a_spread_is_a_share(spread):
    with pytest.raises(ValidationError, match="spread"):
        Figure(**MEASURED, value=80.0, spread=spread)
