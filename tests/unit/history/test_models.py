"""Is a card normal? Its last rates beside its model's."""

import json
import math
import random
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.criteria.changes import LEAST_SPREAD
from rigproof.history.calibration import spread
from rigproof.history.listing import history_content, trend_lines, trends_json
from rigproof.history.models import FEWEST_CARDS, beside, beside_lines, half_width, skus_with, way_out
from rigproof.history.reading import Kept, StoredRate, read_history
from rigproof.profiles.tables.sku import Figure
from rigproof.report.page.history_page import write_history_page
from support.histories import lab, listed

SAMPLES = Path(__file__).parents[3] / "reports" / "samples" / "h200-x2-history"
SKUS = skus_with(None)
MEASURED = {"size": 8192, "workers": 1, "torch": "2.11"}
H200 = {
    "title": "throughput.gemm_fp16",
    "figure": "gemm_fp16_tflops",
    "rate": 623.0,
    "unit": "TFLOP/s",
    "subject": "vm/gpu0",
    "gpu_uuid": "GPU-1",
    "gpu_name": "NVIDIA H200",
    "torch": "2.11.0+cu130",
    "workers": 1,
    "power_limit_w": 700.0,
    "labels": {"precision": ["fp16"], "size": [8192]},
}


def kept(**changes) -> Kept:
    return Kept.model_validate({**H200, **changes})


def known(**changes) -> dict:
    """The H200, with another figure of fp16 products."""
    sku = SKUS["h200-sxm"]
    figure = sku.steady.figure("gemm_fp16_tflops").model_copy(update=changes)
    return {
        "h200-sxm": sku.model_copy(
            update={"steady": sku.steady.model_copy(update={"gemm_fp16_tflops": figure})}
        )
    }


def said(*every: Kept, skus=SKUS) -> list[str]:
    found = [(one, beside(one, skus)) for one in every]
    return [text for _, text in beside_lines(found)]


def test_a_rate_like_those_of_other_cards_is_normal():
    assert said(kept()) == [
        "normal for H200 SXM 141 GB: throughput.gemm_fp16 623 TFLOP/s (605 to 652 by 13 cards)"
    ]
    assert said(kept(), skus=known(runs=24))[0].endswith("(605 to 652 by 24 runs of 13 cards)")


@pytest.mark.parametrize(
    ("rate", "answer"), [(604, "slower"), (606, "normal"), (651, "normal"), (653, "faster"), (1e-9, "slower")]
)
def test_what_other_cards_do_not_show_is_never_normal(rate, answer):
    assert beside(kept(rate=float(rate)), SKUS).answer == answer


@pytest.mark.parametrize(("figures", "quantile"), [(1, 2.776), (5, 4.604)])  # Student's t of 4 degrees
def test_the_interval_is_that_of_a_new_observation_in_all_figures(figures, quantile):
    figure = Figure(value=100.0, cards=5, spread=0.01, **MEASURED)
    expected = quantile * 0.01 * math.sqrt(1 + math.pi / 2 / 5)
    assert half_width(figure, figures) == pytest.approx(expected, rel=1e-3)


def test_a_sound_card_is_normal_in_all_figures_as_often_as_stated():
    draw, sound = random.Random(5), 0
    for _ in range(500):
        inside = True
        for _ in range(11):
            cards = [[math.exp(draw.gauss(0.0, 0.01))] for _ in range(6)]
            figure = Figure(value=median(one for (one,) in cards), cards=6, spread=spread(cards), **MEASURED)
            far = abs(draw.gauss(0.0, 0.01) - math.log(figure.value))
            inside = inside and far <= half_width(figure, 11)
        sound += inside
    assert 0.93 < sound / 500 < 0.98


@given(
    st.integers(1, 1000),
    st.none() | st.floats(1e-12, 1.0),
    st.floats(1e-3, 1e6),
    st.floats(1e-3, 1e6),
    st.none() | st.integers(1, 1000),
)
def test_normal_is_said_only_between_limits_by_enough_cards(cards, own_spread, value, rate, runs):
    found = beside(kept(rate=rate), known(value=value, cards=cards, spread=own_spread, runs=runs))
    assert json.loads(json.dumps(found.low)) == found.low
    if cards < FEWEST_CARDS or own_spread is None:
        assert (found.answer, found.low, found.cards) == ("not known", None, cards)
        assert f"on {cards} card" in found.why
    else:
        assert found.low <= value * (1 - LEAST_SPREAD) < value * (1 + LEAST_SPREAD) <= found.high
        assert (found.answer == "normal") is (found.low <= rate <= found.high)
        assert (found.answer == "slower") is (rate < found.low)
        assert found.why == ""


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"torch": "2.13.0"}, "with torch 2.11, here 2.13"),
        ({"torch": None}, "with torch 2.11, here unknown"),
        ({"workers": 2}, "with 1 worker, here 2"),
        ({"workers": None}, "with 1 worker, here unknown"),
        ({"labels": {"size": [4096]}}, "at size 8192, here 4096"),
        ({"labels": {}}, "at size 8192, here unknown"),
        ({"labels": {"size": []}}, "at size 8192, here unknown"),
        ({"labels": {"size": [8192, 4096]}}, "at size 8192, here unknown"),
        ({"power_limit_w": 600.0}, "only at 700 W, here 600 W"),
        ({"power_limit_w": None}, "only at 700 W, here unknown"),
        ({"shortened": "for 2 s of load"}, "only in full length"),
        (
            {"figure": "sustained_tflops", "labels": {"precision": ["fp16"], "size": [8192]}},
            "in bf16, here fp16",
        ),
    ],
)
def test_a_rate_under_other_conditions_is_not_compared(changes, why):
    found = beside(kept(**changes), SKUS)
    assert (found.answer, found.why) == ("not known", f"H200 SXM 141 GB was measured {why}")


@pytest.mark.parametrize(
    ("name", "sku"),
    [
        ("NVIDIA H200", "h200-sxm"),
        ("NVIDIA H200 NVL", "h200-nvl"),
        ("NVIDIA H20", "h20"),
        ("NVIDIA GeForce RTX 3090", "rtx-3090"),
        ("NVIDIA GeForce RTX 3090 Ti", "rtx-3090-ti"),
        ("NVIDIA GeForce RTX 3060", None),  # of 8 or of 12 GB
        ("NVIDIA H200 MIG 1g.18gb", None),
        ("NVIDIA GeForce RTX 9090", None),
    ],
)
def test_a_card_stands_beside_its_own_model_alone(name, sku):
    found = beside(kept(gpu_name=name), SKUS)
    assert found.sku == sku
    assert found.answer == ("normal" if name == "NVIDIA H200" else "not known")
    if sku is None:
        assert found.why == f"no SKU file, or more than one, is of {name}; name one with --sku"


@pytest.mark.parametrize(
    "changes",
    [
        {"figure": "transfer_h2d_gbps", "unit": "GB/s"},  # of the slot
        {"figure": None},
        {"figure": "no_such_tflops"},
        {"unit": "ops/s"},
        {"gpu_name": None},
        {"gpu_uuid": "CPU-1", "gpu_name": "AMD EPYC 9654"},
    ],
)
def test_what_is_no_figure_of_a_model_is_not_compared(changes):
    assert beside(kept(**changes), SKUS) is None


def test_a_card_is_told_in_a_sentence_for_each_answer():
    every = [
        kept(),
        kept(title="throughput.gemm_fp32", figure="gemm_fp32_tflops", rate=45.0),
        kept(title="throughput.gemm_tf32", figure="gemm_tf32_tflops", rate=326.0),
        kept(title="throughput.gemm_bf16", figure="gemm_bf16_tflops", workers=2),
        kept(title="throughput.gemm_fp8", figure="gemm_fp8_tflops", rate=1150.0, workers=2),
    ]
    assert said(*every) == [
        "slower than normal for H200 SXM 141 GB: throughput.gemm_fp32 45 TFLOP/s (49.0 to 51.4 by 13 cards)",
        "normal for H200 SXM 141 GB: 2 figures; nearest to a limit: "
        "throughput.gemm_tf32 326 TFLOP/s (325 to 350 by 13 cards)",
        "not known whether normal, of throughput.gemm_bf16 and 1 more: "
        "H200 SXM 141 GB was measured with 1 worker, here 2",
    ]


def test_the_list_of_real_cards_says_it_once_for_each():
    lines = list(listed(SAMPLES, skus=SKUS))
    assert [lines[at : at + 2] for at, line in enumerate(lines) if "normal" in line] == [
        [
            "  normal for H200 SXM 141 GB: 11 figures; nearest to a limit:",
            "    throughput.gemm_fp32 50.7 TFLOP/s (49.0 to 51.4 by 13 cards)",
        ],
        [
            "  normal for H200 SXM 141 GB: 11 figures; nearest to a limit:",
            "    throughput.gemm_fp16 623 TFLOP/s (605 to 652 by 13 cards)",
        ],
    ]
    assert max(map(len, lines)) <= 80


RTX = {"figure": "gemm_bf16_tflops", "workers": 1, "labels": {"size": [8192]}}


def test_of_a_model_without_measured_figures_it_says_what_to_type():
    rates = lab(title="throughput.gemm_bf16", unit="TFLOP/s", **RTX)
    lines = list(trend_lines(rates, skus=SKUS))
    unknown = "  not known whether normal: the SKU file of GeForce RTX 3090 has printed figures"
    assert lines.count(unknown) == 2
    assert lines[-3:] == [
        "what is normal for GeForce RTX 3090, by runs of 5 such cards, also of others:",
        "  rigproof calibrate --sku rtx-3090 --out ./rtx-3090.toml reports/runs/*",
        "  rigproof history --sku ./rtx-3090.toml",
    ]
    assert max(map(len, lines)) <= 80
    assert "normal" not in "\n".join(trend_lines(rates))


def test_what_no_file_of_runs_can_answer_has_no_such_way_out():
    capped, newer = (beside(kept(**one), SKUS) for one in ({"power_limit_w": 600.0}, {"torch": "2.13.0"}))
    assert list(way_out([capped])) == []
    assert len(list(way_out([capped, newer, newer]))) == 3


def test_a_file_of_ones_own_takes_the_place_of_the_shipped_one(tmp_path):
    own = tmp_path / "mine.toml"
    figure = '{ value = 70.0, cards = 5, runs = 9, spread = 0.01, size = 8192, workers = 1, torch = "2.13" }'
    shipped = (Path(__file__).parents[3] / "hwprofiles" / "gpus" / "rtx-3090.toml").read_text()
    own.write_text(shipped.replace("{ value = 78 }  # as fp16", f"{figure}  # as fp16"))
    lines = list(trend_lines(lab(title="throughput.gemm_bf16", unit="TFLOP/s", **RTX), skus=skus_with(own)))
    assert "(67.8 to 72.3 by 9 runs of 5 cards)" in " ".join(map(str.strip, lines))
    assert not any("rigproof calibrate" in line for line in lines)
    assert list(way_out([beside(kept(gpu_name="NVIDIA GeForce RTX 3090"), skus_with(own))])) == []


def test_simulated_rates_stand_beside_real_ones_and_say_what_they_are():
    rates = [StoredRate("lab", "0001_a", "2026-01-02", kept(simulated=True, torch="simulated"))]
    lines = list(trend_lines(rates, skus=SKUS))
    assert lines[-4].startswith("SIMULATED vm/gpu0 H200 ")
    assert lines[-2].startswith("  normal for H200 SXM 141 GB: ")
    simulated = lab(title="throughput.gemm_bf16", unit="TFLOP/s", simulated=True, **RTX)
    assert "rigproof calibrate" not in "\n".join(trend_lines(simulated, skus=SKUS))


def test_programs_and_the_page_get_the_same(tmp_path):
    (folder,) = SAMPLES.iterdir()
    rates = read_history(folder).everything
    found = {one["title"]: one["model"] for one in trends_json(rates, skus=SKUS)}
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["transfer.h2d"] is None
    told = found["throughput.gemm_fp16"]
    assert (told["sku"], told["answer"], told["cards"], told["why"]) == ("h200-sxm", "normal", 13, "")
    assert (told["low"], told["high"]) == pytest.approx((604.8, 652.0), abs=0.1)
    write_history_page(tmp_path / "page.html", history_content(rates, SKUS), ())
    page = (tmp_path / "page.html").read_text()
    assert page.count(">normal (605 to 652)</td>") == 2
    write_history_page(tmp_path / "page.html", history_content(lab(**RTX), SKUS), ())
    page = (tmp_path / "page.html").read_text()
    assert (
        page.count("<p>Not known whether normal: the SKU file of GeForce RTX 3090 has printed figures alone.")
        == 2
    )
