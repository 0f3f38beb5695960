"""Who is wrong where equal cards differ."""

import pytest

from rigproof.criteria.evidence.comparable import Dissent, dissent, kind_of

DATA = {
    "precision": "bf16",
    "device": "NVIDIA H200",
    "torch": "2.13",
    "cublas": "13.1",
    "multiprocessors": 132,
}


@pytest.mark.parametrize(
    ("own", "cards_of", "expected"),
    [
        ("a", {"a": {"1", "2"}}, None),
        ("a", {"a": {"1", "2"}, "b": {"3"}}, None),
        ("b", {"a": {"2", "1"}, "b": {"3"}}, Dissent(("1", "2"), undecided=False)),
        ("a", {"a": {"1"}, "b": {"2"}}, Dissent(("2",), undecided=True)),
        ("a", {"a": {"1", "2"}, "b": {"3", "4"}, "c": {"5"}}, Dissent(("3", "4", "5"), undecided=True)),
        ("c", {"a": {"1", "2"}, "b": {"3"}, "c": {"4"}}, Dissent(("1", "2"), undecided=False)),
    ],
)
def test_the_majority_is_right_and_without_one_all_are_suspects(own, cards_of, expected):
    assert dissent(own, cards_of) == expected


def test_a_dissent_names_some_of_the_others_in_a_sentence():
    assert Dissent(("g1",), undecided=True).in_words == "different on g1: one of the two is wrong"
    assert Dissent(("g1", "g2"), undecided=True).in_words == "different on g1, g2: one side of them is wrong"
    five = Dissent(tuple(f"g{one}" for one in range(5)), undecided=False)
    assert five.in_words == "different on g0, g1, g2, g3 and others, which agree"


@pytest.mark.parametrize("other", [{"precision": "fp16"}, {"torch": "2.11"}, {"capability": "9.0"}])
def test_cards_are_comparable_if_work_and_arithmetic_are_the_same(other):
    assert kind_of(DATA, "precision") == kind_of(dict(DATA), "precision")
    assert kind_of(DATA, "precision") != kind_of(DATA | other, "precision")
