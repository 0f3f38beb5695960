import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.criteria.floors import power_scale
from rigproof.profiles.models import Sku
from rigproof.records.verdict import Outcome

GPU, BF16 = "pc1/gpu0", "throughput.gemm_bf16"


def sku(*points):
    return Sku.model_validate(
        {
            "name": "card",
            "nvml_names": ["card"],
            "memory_gib": 24,
            "memory_bandwidth_gbps": 936,
            "power_limit_w": 350,
            "peak_tflops": {"bf16": 71.2},
            "steady_tflops": {"bf16": 66},
            "power_curve": [{"limit_share": x, "rate_share": y} for x, y in points],
        }
    )


@pytest.mark.parametrize(
    ("points", "share", "expected"),
    [
        ((), 1.0, 1.0),
        ((), 1.3, 1.0),
        ((), 0.8, 0.8),
        (((0.8, 0.95),), 0.8, 0.95),
        (((0.8, 0.95),), 0.9, 0.975),
        (((0.8, 0.95),), 0.4, 0.475),
        (((0.5, 0.7), (0.8, 0.95)), 0.65, 0.825),
        (((0.8, 0.95), (0.5, 0.7)), 0.65, 0.825),
        (((1.0, 1.0), (0.8, 0.95)), 1.0, 1.0),
    ],
)
def test_the_power_curve_is_followed_between_its_points(points, share, expected):
    assert power_scale(sku(*points), share) == pytest.approx(expected)


@given(st.floats(0.01, 2), st.floats(0.01, 0.99), st.floats(0.01, 1))
def test_the_scale_is_a_share(limit_share, x, y):
    assert 0 <= power_scale(sku((x, y)), limit_share) <= 1


def floor(bench):
    verdict = bench.verdict(BF16, GPU)
    return verdict.limit, verdict.limit_source


def test_without_more_the_floor_is_a_share_of_the_skus_steady_rate(bench):
    assert floor(bench) == (660 * 0.75, "hwprofiles/gpus/h200.toml")


def test_a_lower_power_limit_lowers_the_sku_floor_and_says_so(bench):
    bench.gpu(GPU, power_limit_w=350)
    assert floor(bench) == (660 * 0.75 / 2, "hwprofiles/gpus/h200.toml, scaled to 350 W of 700 W")


def test_the_skus_own_default_limit_stands_in_for_one_that_nvml_does_not_give(bench):
    bench.gpu(GPU, power_limit_w=350, power_limit_default_w=None)
    assert floor(bench)[0] == 660 * 0.75 / 2


def test_a_champion_comes_before_the_sku_file(bench):
    bench.champions = {f"GPU-{GPU}": {BF16: 680.0}}
    assert floor(bench) == (680 * 0.95, "this GPU's champion × 0.95 of hwprofiles/defaults.toml")


def test_the_share_of_a_champion_is_the_profiles(bench):
    bench.champions = {f"GPU-{GPU}": {BF16: 680.0}}
    bench.limits(champion_share=0.9)
    assert floor(bench)[0] == 680 * 0.9


def test_a_card_that_is_a_tenth_slower_than_its_champion_fails(bench):
    bench.champions = {f"GPU-{GPU}": {BF16: 660.0}}
    bench.slow(GPU, 0.9, "gemm")
    assert bench.verdict(BF16, GPU).outcome is Outcome.FAIL


def test_a_profile_without_a_share_of_champions_falls_back_on_the_sku_file(bench):
    bench.champions = {f"GPU-{GPU}": {BF16: 680.0}}
    bench.limits(champion_share=None)
    assert floor(bench)[1] == "hwprofiles/gpus/h200.toml"


def test_the_champion_of_another_gpu_or_criterion_does_not_count(bench):
    bench.champions = {"GPU-other": {BF16: 680.0}, f"GPU-{GPU}": {"throughput.gemm_fp32": 60.0}}
    assert floor(bench)[1] == "hwprofiles/gpus/h200.toml"


def test_the_rig_profile_comes_before_everything(bench):
    bench.champions = {f"GPU-{GPU}": {BF16: 680.0}}
    gpu = {"sku": "h200", "workers": 2, "floors": {"gemm_bf16_tflops": 600.0}}
    bench.rig(nodes=[{"name": "pc1", "gpus": [gpu]}])
    assert floor(bench) == (600.0, "hwprofiles/rigs/two-nodes.toml")


def test_the_sustained_floor_is_that_of_the_precision_that_ran(bench):
    bench.rounds(GPU, "sustained", precision="fp16")
    assert bench.verdict("throughput.sustained", GPU).limit == 680 * 0.75
