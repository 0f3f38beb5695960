from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.criteria.evidence.evidence import Evidence
from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.judge import judge
from rigproof.profiles.planning.floor_basis import power_scale
from rigproof.records.champions import ChampionRate, champions_event
from rigproof.records.verdict import Outcome
from support.rig_profile import MODELS

GPU, BF16 = "pc1/gpu0", "throughput.gemm_bf16"


def sku(*points):
    return MODELS.sku.model_validate(
        {
            "name": "card",
            "nvml_names": ["card"],
            "memory_gib": 24,
            "memory_bandwidth_gbps": 936,
            "power_limit_w": 350,
            "peak_tflops": {"bf16": 71.2},
            "steady": {"gemm_bf16_tflops": {"value": 66}},
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


FROM_SKU = "0.75 of 660 TFLOP/s, printed or reached by others{}; hwprofiles/gpus/h200.toml"


def test_without_more_the_floor_is_a_share_of_the_skus_steady_rate(bench):
    assert floor(bench) == (660 * 0.75, FROM_SKU.format(""))


def test_a_card_whose_silicon_is_known_is_not_said_to_have_no_ceiling(bench):
    assert bench.verdict(BF16, GPU).detail == ""


def test_a_lower_power_limit_lowers_the_sku_floor_and_says_so(bench):
    bench.gpu(GPU, power_limit_w=350)
    assert floor(bench) == (660 * 0.75 / 2, FROM_SKU.format(", scaled to 350 W of 700 W"))


def test_the_sku_floor_of_each_card_is_scaled_to_its_own_power_limit(bench):
    bench.gpu("pc2/gpu0", power_limit_w=350)
    evidence = Evidence(bench.recording, bench.loaded)
    own, other = (judge(CATALOGUE[BF16], subject, evidence).limit for subject in (GPU, "pc2/gpu0"))
    assert own == floor(bench)[0]
    assert other == pytest.approx(own / 2)


def test_the_skus_own_default_limit_stands_in_for_one_that_nvml_does_not_give(bench):
    bench.gpu(GPU, power_limit_w=350, power_limit_default_w=None)
    assert floor(bench)[0] == 660 * 0.75 / 2


def champions(*rates, uuid=f"GPU-{GPU}", figure="gemm_bf16_tflops", workers=1, unit="TFLOP/s", **labels):
    """(TFLOP/s, power limit) of one GPU."""
    labels = {"precision": "bf16", "size": 1024} | labels
    kept = tuple(ChampionRate(value, unit, limit_w, labels, workers, "run-7") for value, limit_w in rates)
    return {uuid: {figure: kept}}


CHAMPION = "this GPU's champion (run run-7{}) × 0.95 of hwprofiles/defaults.toml"


@pytest.mark.parametrize(
    ("tflops", "expected"),
    [(680.0, (680 * 0.95, CHAMPION.format(""))), (500.0, (495.0, FROM_SKU.format("")))],
)
def test_the_higher_one_of_champion_and_sku_file_is_the_floor(bench, tflops, expected):
    bench.champions = champions((tflops, 700))
    assert floor(bench) == expected


@pytest.mark.parametrize(("now_w", "holds"), [(700, True), (693, True), (707, True), (None, False)])
def test_a_champion_holds_under_its_own_power_limit(bench, now_w, holds):
    bench.champions = champions((680.0, 700))
    bench.gpu(GPU, power_limit_w=now_w)
    assert (floor(bench)[1] == CHAMPION.format("")) is holds


def test_a_champion_that_no_silicon_can_do_is_no_floor(bench):
    ceiling = Evidence(bench.recording, bench.loaded).device(GPU).silicon.ceiling("bf16")
    most = ceiling.value
    bench.champions = champions((most * 1.001, 700))
    assert floor(bench)[1] == FROM_SKU.format("")
    bench.champions = champions((most * 1.001, 700), (680.0, 700))
    assert floor(bench) == (680 * 0.95, CHAMPION.format(""))
    bench.champions = champions((most, 700))
    assert floor(bench)[0] == pytest.approx(most * 0.95)


@pytest.mark.parametrize(
    "other", [{"precision": "fp16"}, {"size": 8192}, {"batch": 8}, {"workers": 2}, {"unit": "GFLOP/s"}]
)
def test_a_champion_of_other_work_is_no_floor(bench, other):
    bench.champions = champions((680.0, 700), **other)
    assert floor(bench)[1] == FROM_SKU.format("")


def test_in_the_sustained_stage_all_planned_processes_count(bench):
    rate = "throughput.sustained"
    bench.champions = champions((680.0, 700), figure="sustained_tflops", workers=2)
    assert bench.verdict(rate, GPU).limit == 680 * 0.95
    bench.champions = champions((680.0, 700), figure="sustained_tflops", workers=1)
    assert bench.verdict(rate, GPU).limit == pytest.approx(660 * 0.75 * 0.9)


def test_one_measured_without_a_known_limit_holds_where_none_is_known(bench):
    bench.champions = champions((680.0, None))
    assert floor(bench)[1] == FROM_SKU.format("")
    bench.gpu(GPU, power_limit_w=None)
    assert floor(bench) == (680 * 0.95, CHAMPION.format(""))


def test_under_a_lower_limit_the_nearest_higher_champion_is_scaled_down(bench):
    bench.champions = champions((680.0, 700), (600.0, 600))
    bench.gpu(GPU, power_limit_w=540)
    assert floor(bench) == (
        pytest.approx(600 * 540 / 600 * 0.95),
        CHAMPION.format(" at 600 W, scaled to 540 W"),
    )


def test_a_scaled_champion_never_lowers_the_floor_of_the_sku_file(bench):
    bench.champions = champions((500.0, 700))
    bench.gpu(GPU, power_limit_w=350)
    assert floor(bench) == (660 * 0.75 / 2, FROM_SKU.format(", scaled to 350 W of 700 W"))


def test_a_champion_under_a_lower_limit_is_no_floor_under_a_higher_one(bench):
    bench.champions = champions((500.0, 500))
    assert floor(bench) == (660 * 0.75, FROM_SKU.format(""))


def test_above_the_default_limit_a_champion_is_scaled_in_proportion(bench):
    bench.champions = champions((690.0, 840))
    assert floor(bench)[0] == pytest.approx(690 * 700 / 840 * 0.95)


@given(st.floats(100, 900), st.floats(100, 900), st.floats(1, 2000))
def test_a_champion_is_never_scaled_up(new_bench, now_w, then_w, tflops):
    bench = BENCHES.setdefault("one", new_bench())
    bench.champions = champions((tflops, then_w))
    bench.gpu(GPU, power_limit_w=now_w)
    value, source = floor(bench)
    assert "champion" not in source or value <= tflops * 0.95 * (1 + 1e-9)


BENCHES = {}  # a healthy recording takes a while to make


def test_the_cpu_has_no_floor_from_champions(bench):
    bench.rig(nodes=[{"name": "pc1", "gpus": [{"sku": "h200", "device": "cpu"}]}])
    cpu = "pc1/cpu0"
    bench.recording.gpus[cpu] = bench.recording.gpus[GPU]
    bench.recording.rounds = [replace(one, subject=cpu) for one in bench.recording.rounds]
    bench.champions = champions((680.0, 700))
    assert "champion" not in bench.verdict(BF16, cpu).limit_source


def test_the_champions_that_a_run_recorded_hold_unless_others_are_given(bench):
    bench.recording.add(champions_event(champions((680.0, 700)), 3.0))
    assert floor(bench)[0] == 680 * 0.95
    bench.champions = {}
    assert floor(bench)[1] == FROM_SKU.format("")


RATE = {
    "value": 680.0,
    "unit": "TFLOP/s",
    "power_limit_w": 700.0,
    "labels": {"precision": "bf16", "size": 1024},
    "workers": 1,
    "run_id": "run-7",
}


@pytest.mark.parametrize(
    "gpus",
    [
        {f"GPU-{GPU}": {BF16: [RATE | {"value": -1.0}]}},
        {f"GPU-{GPU}": {BF16: [RATE | {"value": "fast"}]}},
        {f"GPU-{GPU}": {BF16: [RATE | {"labels": {"size": [1024]}}]}},
        {f"GPU-{GPU}": {BF16: [{"value": 680.0}]}},
        {f"GPU-{GPU}": [680.0]},
        None,
    ],
)
def test_champions_that_cannot_be_read_are_no_pass(bench, gpus):
    bench.event("champions", "rig", stage=None, gpus=gpus)
    verdict = bench.verdict(BF16, GPU)
    assert verdict.outcome is Outcome.NOT_MEASURED


def test_the_share_of_a_champion_is_the_profiles(bench):
    bench.champions = champions((680.0, 700))
    bench.limits(champion_share=0.9)
    assert floor(bench)[0] == 680 * 0.9


def test_a_card_that_is_a_tenth_slower_than_its_champion_fails(bench):
    bench.champions = champions((660.0, 700))
    bench.slow(GPU, 0.9, "gemm")
    assert bench.verdict(BF16, GPU).outcome is Outcome.FAIL


def test_a_profile_without_a_share_of_champions_falls_back_on_the_sku_file(bench):
    bench.champions = champions((680.0, 700))
    bench.limits(champion_share=None)
    assert floor(bench)[1] == FROM_SKU.format("")


def test_the_champion_of_another_gpu_or_figure_does_not_count(bench):
    fp32 = champions((60.0, 700), figure="gemm_fp32_tflops")
    bench.champions = champions((680.0, 700), uuid="GPU-other") | fp32
    assert floor(bench)[1] == FROM_SKU.format("")


def test_the_rig_profile_comes_before_everything(bench):
    bench.champions = champions((680.0, 700))
    gpu = {"sku": "h200", "workers": 2, "floors": {"gemm_bf16_tflops": 600.0}}
    bench.rig(nodes=[{"name": "pc1", "gpus": [gpu]}])
    assert floor(bench) == (600.0, "hwprofiles/rigs/two-nodes.toml")


def test_the_sustained_floor_is_that_of_the_precision_that_ran(bench):
    bench.rounds(GPU, "sustained", precision="fp16")
    assert bench.verdict("throughput.sustained", GPU).limit == pytest.approx(680 * 0.75 * 0.9)
