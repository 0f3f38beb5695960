import pytest

from rigproof.history.goodness import keep_good
from rigproof.records.verdict import Outcome, Verdict


def stored(criterion="throughput.gemm_bf16", subject="pc1/gpu0"):
    return {"name": "x", "extra_info": {"criterion": criterion, "subject": subject}, "stats": {"ops": 70}}


def verdict(outcome, criterion="throughput.gemm_bf16", subject="pc1/gpu0"):
    return Verdict(criterion, subject, outcome)


@pytest.mark.parametrize(
    ("outcome", "stays"),
    [
        (Outcome.PASS, True),
        (Outcome.WARN, True),
        (Outcome.NO_LIMIT, True),
        (Outcome.FAIL, False),
        (Outcome.NOT_MEASURED, False),
    ],
)
def test_only_what_a_criterion_accepted_is_kept(outcome, stays):
    content = {"version": "5", "benchmarks": [stored()]}
    kept = keep_good(content, [verdict(outcome)])
    assert kept == {"version": "5", "benchmarks": [stored()] if stays else []}
    assert len(content["benchmarks"]) == 1


def test_each_card_is_kept_or_dropped_for_itself():
    content = {"benchmarks": [stored(), stored(subject="pc1/gpu1"), stored("throughput.sustained")]}
    verdicts = [
        verdict(Outcome.PASS),
        verdict(Outcome.FAIL, subject="pc1/gpu1"),
        verdict(Outcome.PASS, "throughput.sustained"),
    ]
    assert keep_good(content, verdicts)["benchmarks"] == [stored(), stored("throughput.sustained")]


def test_what_nobody_judged_is_not_kept():
    assert keep_good({"benchmarks": [stored(), {"name": "foreign"}]}, [])["benchmarks"] == []


def test_a_simulated_run_leaves_nothing_in_the_history():
    assert keep_good({"benchmarks": [stored()]}, [verdict(Outcome.PASS)], simulated=True)["benchmarks"] == []
