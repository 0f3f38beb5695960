import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.records.verdict import (
    SIGNS,
    Decision,
    Outcome,
    Verdict,
    compared,
    count_of,
    counts,
    decide,
    digits_to_distinguish,
    figure,
    figure_and_limit,
    limit_text,
    meets,
    sentence,
)

HOT = Verdict(
    "thermal.core_temperature",
    "pc1/gpu0",
    Outcome.FAIL,
    unit="°C",
    measured=84,
    limit=80,
    remedy="clean the heatsink or raise the fan curve",
    from_s=92,
    length_s=41,
    direction="at_most",
)


def verdict(outcome, **fields):
    return Verdict("power.draw", "pc1/gpu0", outcome, **fields)


def test_the_sentence_of_a_failure_says_measured_limit_when_how_long_and_what_to_do():
    assert sentence(HOT) == (
        "pc1/gpu0 thermal.core_temperature: 84 °C, limit ≤ 80 °C (from t=92 s, 41 s long). "
        "Clean the heatsink or raise the fan curve."
    )


@pytest.mark.parametrize(
    ("outcome", "fields", "text"),
    [
        (Outcome.NOT_MEASURED, {"detail": "no power was read"}, "not measured: no power was read"),
        (Outcome.NOT_APPLICABLE, {"detail": "ECC is off"}, "not applicable: ECC is off"),
        (Outcome.PASS, {"measured": 340.4, "limit": 367.5, "remedy": "do it"}, "340 W, limit ≤ 368 W"),
        (Outcome.FAIL, {"detail": "it is on fire", "remedy": "run"}, "it is on fire. Run."),
        (Outcome.FAIL, {"measured": 367.6, "limit": 367.5}, "367.6 W, limit ≤ 367.5 W"),
        (Outcome.FAIL, {"measured": 2.0, "from_s": 92, "length_s": 0.99}, "2 W (from t=92 s)"),
        (Outcome.FAIL, {"measured": 2.0, "from_s": 92, "length_s": 1.0}, "2 W (from t=92 s, 1 s long)"),
    ],
)
def test_a_sentence_gives_reasons_figures_and_advice_where_there_are_any(outcome, fields, text):
    assert (
        sentence(verdict(outcome, unit="W", direction="at_most", **fields)) == f"pc1/gpu0 power.draw: {text}"
    )


@pytest.mark.parametrize(
    ("value", "limit", "unit", "direction", "texts"),
    [
        (93.96, 94.0, "%", "at_least", ["93.96 %", "limit ≥ 94 %"]),  # not 94.0 %
        (84.996, 85.0, "°C", "at_most", ["84.996 °C", "limit ≤ 85 °C"]),
        (368.0, 367.55, "W", "at_most", ["368 W", "limit ≤ 367.6 W"]),
        (58.49, 58.5, "TFLOP/s", "at_least", ["58.49 TFLOP/s", "limit ≥ 58.50 TFLOP/s"]),
        (1.000001, 1.0, "", "equal", ["1.000001", "limit = 1"]),
        (94.0, 94.0, "%", "at_least", ["94 %", "limit ≥ 94 %"]),
        (0.1 + 0.2, 0.3, "ms", "at_most", ["0.30 ms", "limit ≤ 0.30 ms"]),  # the same to people
    ],
)
def test_a_figure_and_its_limit_are_different_numbers_as_they_are_read(value, limit, unit, direction, texts):
    assert figure_and_limit(value, limit, unit, direction) == texts


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_neither_number_is_rounded_past_the_other(one, other):
    low, high = sorted([one, other])
    digits = digits_to_distinguish([(low, high)])
    texts = [float(compared(low, "", digits)), float(compared(high, "", digits))]
    assert texts[0] <= texts[1]
    assert texts[0] < texts[1] or high - low < 1e-8


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (84, "°C", "84 °C"),
        (53.42, "TFLOP/s", "53.4 TFLOP/s"),
        (0.5, "GiB", "0.50 GiB"),
        (0.0743, "TFLOP/s", "0.074 TFLOP/s"),
        (0.00873, "TFLOP/s", "0.0087 TFLOP/s"),
        (0.05, "%", "0.05 %"),
        (1e-9, "s", "0.0000 s"),
        (1003.2, "W", "1003 W"),
        (3, "", "3"),
        (1, "workers", "1 worker"),
        (1, "TFLOP/s", "1 TFLOP/s"),
        (1, "ms", "1 ms"),
        (float("nan"), "W", "nan W"),
        (float("inf"), "W", "inf W"),
    ],
)
def test_a_figure_has_three_digits_under_a_tenth_two_and_its_unit(value, unit, text):
    assert figure(value, unit) == text


@pytest.mark.parametrize(
    ("limit", "direction", "text"),
    [
        (80, "at_most", "≤ 80 °C"),
        (0.5, "at_least", "≥ 0.50 °C"),
        (2, "equal", "= 2 °C"),
        (0, "at_most", "0"),
        (0, "equal", "= 0 °C"),
        (80, None, "80 °C"),
    ],
)
def test_a_limit_says_its_direction(limit, direction, text):
    assert limit_text(limit, "°C", direction) == text


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_a_figure_at_its_limit_meets_it_whatever_the_direction(value, limit):
    assert all(meets(limit, limit, direction) for direction in SIGNS)
    assert meets(value, limit, "equal") is (
        meets(value, limit, "at_least") and meets(value, limit, "at_most")
    )


@pytest.mark.parametrize(
    ("outcomes", "interrupted", "decision"),
    [
        ([Outcome.PASS, Outcome.FAIL], False, Decision.REJECTED),
        ([Outcome.FAIL], True, Decision.REJECTED),
        ([Outcome.WARN, Outcome.NO_LIMIT], False, Decision.ACCEPTED),
        ([Outcome.PASS, Outcome.NOT_APPLICABLE], False, Decision.ACCEPTED),
        ([Outcome.PASS, Outcome.NOT_MEASURED], False, Decision.INCOMPLETE),
        ([Outcome.PASS], True, Decision.INCOMPLETE),
        ([], False, Decision.INCOMPLETE),
        ([Outcome.NOT_APPLICABLE], False, Decision.INCOMPLETE),
    ],
)
def test_the_decision_follows_from_all_outcomes(outcomes, interrupted, decision):
    assert decide([verdict(one) for one in outcomes], interrupted=interrupted) is decision


def test_counts_name_every_outcome():
    found = counts([verdict(Outcome.PASS), verdict(Outcome.PASS), verdict(Outcome.FAIL)])
    assert found == {"pass": 2, "warn": 0, "fail": 1, "not_measured": 0, "not_applicable": 0, "no_limit": 0}


@given(st.lists(st.sampled_from(Outcome)), st.booleans())
def test_only_a_run_without_failures_and_gaps_is_accepted(outcomes, interrupted):
    accepted = decide([verdict(o) for o in outcomes], interrupted=interrupted) is Decision.ACCEPTED
    judged = set(outcomes) - {Outcome.NOT_APPLICABLE}
    good = bool(judged) and judged <= {Outcome.PASS, Outcome.WARN, Outcome.NO_LIMIT}
    assert accepted == (good and not interrupted)


@given(st.floats(), st.one_of(st.none(), st.floats()), st.sampled_from(Outcome))
def test_a_sentence_can_be_made_of_any_figures(measured, limit, outcome):
    text = sentence(verdict(outcome, unit="W", measured=measured, limit=limit, detail="d", remedy="r"))
    assert text.startswith("pc1/gpu0 power.draw: ")


@pytest.mark.parametrize(
    ("number", "plural", "text"),
    [
        (0, "verified rounds", "0 verified rounds"),
        (1, "verified rounds", "1 verified round"),
        (2, "workers", "2 workers"),
        (1, "processes", "1 process"),
        (1, "strategies", "1 strategy"),
        (1, "passes", "1 pass"),
        (1, "nodes", "1 node"),
        (1, "OOMs", "1 OOM"),
        (1.0, "CPUs", "1 CPU"),
        (0.5, "CPUs", "0.5 CPUs"),
        (10_000_000, "words", "10000000 words"),
    ],
)
def test_one_of_them_is_singular(number, plural, text):
    assert count_of(number, plural) == text
