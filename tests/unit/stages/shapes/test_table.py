"""What a reader sees: rates by model of cards, a sentence of advice, and what was not measured."""

from copy import copy
from dataclasses import replace
from types import SimpleNamespace

import pytest

from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.laps import judge_all
from rigproof.profiles.loading.load import load_rig
from rigproof.records.measurements import Event, Round
from rigproof.records.verdict import Outcome
from rigproof.report.content.stage_tables import tables_of
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.registry import KINDS
from rigproof.stages.shapes.criteria import tables
from rigproof.stages.shapes.rates import ModelRates, _of_tokens, advice, rates_by_model

CARDS = ("localhost/gpu0", "localhost/gpu1")


@pytest.fixture(scope="module")
def simulated():
    return simulated_recording(load_rig("h200-x2", KINDS), "extended")


@pytest.fixture
def recording(simulated):
    """To be changed: its lists and tables are the test's own."""
    return copy(simulated)


def kept(recording, which):
    recording.put(Round, [one for one in recording.rounds if one.stage != "shapes" or which(one)])
    return recording


def test_rates_are_those_of_the_model_and_the_best_size_is_the_measure(recording):
    by_size, variants = tables(recording)
    assert {row[0] for row in by_size.rows} == {"NVIDIA H200 (median of 2)"}
    assert [row[1] for row in by_size.rows] == [
        "2304",
        "2432",
        "2464",
        "2480",
        "2488",
        "2495",
        "2496",
        "2560",
    ]
    share = {row[1]: row[-1] for row in by_size.rows}
    assert share["2495"] == "35 %"
    assert share["2432"] in ("97 %", "98 %")  # the noise decides
    assert float(by_size.rows[0][-2]) == pytest.approx(617, rel=0.02)  # TFLOP/s of a simulated H200
    assert "100 %" in (share["2304"], share["2560"])
    assert {"vocabulary 50257", "attention 128", "8,192 tokens"} <= {row[1] for row in variants.rows}
    before, after = by_size.note.split(" × as fast; ")
    before, times = before.rsplit(" ", 1)
    assert before.replace("reach 99 to 100 %", "reach 100 %") == (  # the noise decides
        "NVIDIA H200: hidden sizes that are multiples of 256 reach 100 % of the best, 2495 reaches "
        "35 %; a vocabulary padded from 50257 to 50304 is"
    )
    assert float(times) == pytest.approx(0.98 / 0.35, rel=0.01)  # what is simulated, and its noise
    assert after == (
        "attention is fastest with heads of 128; 8,192 tokens in a step are enough for 90 % of the rate."
    )


def test_a_size_of_which_a_product_was_not_measured_says_so(recording):
    left = kept(recording, lambda one: (one.label("product"), one.label("size")) != ("up", 2432))
    (row,) = [row for row in next(tables(left)).rows if row[1] == "2432"]
    assert row[3:] == (row[3], row[4], "not measured", row[6], "not measured", "")


@pytest.mark.parametrize("changes", [{"verified": False}, {"phase": "warmup"}])
def test_where_nothing_was_measured_that_is_what_the_table_says(recording, changes):
    rounds = [replace(one, **changes) if one.stage == "shapes" else one for one in recording.rounds]
    recording.put(Round, rounds)
    by_size, variants = tables(recording)
    assert by_size.rows == (("NVIDIA H200 (median of 2)", *[""] * 6, "not measured", ""),)
    assert (by_size.note, variants.rows) == ("", ())


def test_two_rounds_are_no_rate(recording):
    seen = {}

    def first_two(one):
        key = (one.subject, one.label("product"), one.label("size"), one.label("tokens"))
        seen[key] = seen.get(key, 0) + (one.phase == "measure")
        return seen[key] <= 2

    (one,) = rates_by_model(kept(recording, first_two))
    assert not one.rates


def test_a_run_without_the_stage_has_no_such_table(recording):
    del recording.stages["shapes"]
    assert not [one for one in tables_of(recording) if one.section == "Best shapes"]


def test_the_stage_has_no_criterion_but_a_wrong_product_fails_the_card(recording):
    assert not [name for name, one in CATALOGUE.items() if "shapes" in one.stages]
    message = "bf16 up of hidden size 2560 has the checksum 01, not 02"
    recording.add(Event(900.0, "wrong_result", CARDS[0], message, "shapes", f"{CARDS[0]}#0"))
    found = {(one.criterion, one.subject): one for one in judge_all(recording)}
    verdict = found["compute.exact", CARDS[0]]
    assert (verdict.outcome, verdict.detail) == (Outcome.FAIL, f"{message} in the shapes stage")


def of_rates(**more):
    layer = {("qkv", size, 8): rate for size, rate in ((256, 100.0), (255, 40.0))}
    rates = {(name, size, tokens): rate for (_, size, tokens), rate in layer.items()
             for name in ("qkv", "out", "up", "down")}  # fmt: skip
    return ModelRates("X", 1, rates | more.get("rates", {}))


def test_advice_by_literals():
    assert advice(of_rates()) == (
        "X: hidden sizes that are multiples of 256 reach 100 % of the best, 255 reaches 40 %."
    )
    words = {("vocabulary 50257", 256, 8): 50.0, ("vocabulary 50304", 256, 8): 75.0}
    assert advice(of_rates(rates=words)).endswith(
        "; a vocabulary padded from 50257 to 50304 is 1.50 × as fast."
    )
    tokens = words | {("up", 256, 4): 91.0, ("up", 256, 2): 80.0}
    assert advice(of_rates(rates=tokens)).endswith("; 4 tokens in a step are enough for 90 % of the rate.")
    assert advice(ModelRates("X", 1, {})) == ""
    assert advice(replace(of_rates(), is_cpu=True)) == (
        "X: the CPU gets tiny sizes, which show that the stage works, and no advice."
    )


def test_a_layer_s_rate_weighs_its_products_by_their_work():
    rates = {("qkv", 8, 1): 1.0, ("out", 8, 1): 1.0, ("up", 8, 1): 2.0, ("down", 8, 1): 2.0}
    assert ModelRates("X", 1, rates).of_layer(8) == pytest.approx((3 + 1 + 4 + 4) / (3 + 1 + 2 + 2))


def test_a_stage_that_is_over_with_its_set_up_is_not_measured(tmp_path):
    profile = tmp_path / "short.toml"
    profile.write_text('name = "short"\nextends = "h200-x2"\n[stages.shapes]\nlength_s = { quick = 0.5 }\n')
    verdicts = judge_all(simulated_recording(load_rig(str(profile), KINDS), "quick"))
    ratio = next(one for one in verdicts if one.criterion == "clock.ratio")
    assert (ratio.outcome, "shapes" in ratio.detail) == (Outcome.NOT_MEASURED, True)


def test_as_few_tokens_as_reach_just_nine_tenths_of_the_best_rate_are_enough():
    one = SimpleNamespace(by_tokens=lambda: {512: 89.9, 1024: 90.0, 2048: 99.0, 4096: 100.0})
    assert _of_tokens(one) == ["1,024 tokens in a step are enough for 90 % of the rate"]
