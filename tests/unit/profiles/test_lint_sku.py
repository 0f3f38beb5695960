import pytest

from rigproof.profiles.lint_sku import floor_problem, lint_sku
from rigproof.profiles.load import all_skus
from rigproof.profiles.models import PowerPoint, Rates, Sku, TemperatureLimits

FILE = "hwprofiles/gpus/x.toml"


def sku(**changes) -> Sku:
    plain = Sku(
        name="X",
        nvml_names=("X",),
        memory_gib=24,
        memory_bandwidth_gbps=900,
        power_limit_w=300,
        peak_tflops=Rates(fp32=30, bf16=100),
        steady_tflops=Rates(bf16=80),
    )
    return plain.model_copy(update=changes)


def test_a_sound_table_is_clean():
    assert lint_sku(FILE, sku()) == []


@pytest.mark.parametrize("stem", all_skus())
def test_every_shipped_sku_is_clean(stem):
    assert lint_sku(f"hwprofiles/gpus/{stem}.toml", all_skus()[stem]) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"steady_tflops": Rates(bf16=0.08)},
            "steady_tflops.bf16 = 0.08: its floor, 0.75 × 0.08, is 0.1% of the peak",
        ),
        ({"floor_share": 0.3}, "steady_tflops.bf16 = 80: its floor, 0.3 × 80, is 24.0% of the peak"),
        (
            {"steady_tflops": Rates(bf16=116)},
            "steady_tflops.bf16 = 116: 116% of the peak of 100 TFLOP/s, past what",
        ),
        ({"steady_tflops": Rates(fp16=80)}, "steady_tflops.fp16 = 80: there is no peak to hold it against"),
        ({"peak_tflops": Rates(), "steady_tflops": Rates()}, "peak_tflops = {}: no peak at all"),
        ({"training_speedup": 0.9}, "training_speedup = 0.9: 16-bit slows no card down; write 1 to 20"),
        (
            {"training_speedup": 20.5},
            "training_speedup = 20.5: more than any card's 16-bit rate gives; write 1 to 20",
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
def test_a_table_that_cannot_be_right_is_told(changes, expected):
    (line,) = lint_sku(FILE, sku(**changes))
    assert line.startswith(f"{FILE}: {expected}")
    assert "; " in line


@pytest.mark.parametrize(("floor", "sound"), [(29.9, False), (30.1, True), (109, True), (110.1, False)])
def test_a_floor_lies_between_30_and_110_percent_of_the_peak(floor, sound):
    assert (floor_problem(floor, 100) is None) is sound


@pytest.mark.parametrize("speedup", [1.0, 9.0, 20.0])
def test_a_speedup_that_a_card_can_have_is_sound(speedup):
    assert lint_sku(FILE, sku(training_speedup=speedup)) == []


def test_boost_clocks_past_the_printed_peak_are_no_mistake():
    assert lint_sku(FILE, sku(steady_tflops=Rates(bf16=110))) == []
