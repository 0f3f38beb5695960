import pytest

from rigproof.records.verdict import Decision, Outcome, Verdict
from rigproof.report.order import count_line, meaning, reading_order, word


def of(*outcomes, required=True):
    return [Verdict("c.x", f"n{place}", outcome, required=required) for place, outcome in enumerate(outcomes)]


def test_failures_are_read_first_and_passes_last(verdicts):
    assert [word(verdict) for verdict in reading_order(verdicts)] == [
        "FAIL", "WARN", "NOT MEASURED", "not measured", "no limit", "pass", "pass", "pass",
    ]  # fmt: skip


def test_counts_are_said_in_one_line(verdicts):
    assert count_line(verdicts) == "3 pass, 1 warn, 1 fail, 2 not measured, 1 no limit"
    assert count_line([]) == "nothing was judged"


@pytest.mark.parametrize(
    ("decision", "verdicts", "words"),
    [
        (Decision.ACCEPTED, of(Outcome.PASS), "this rig is fit for training"),
        (Decision.ACCEPTED, of(Outcome.WARN), "this rig is fit for training; look at 1 warning"),
        (
            Decision.REJECTED,
            of(Outcome.FAIL),
            "1 criterion failed; do not train on this rig until that is fixed",
        ),
        (Decision.REJECTED, of(Outcome.FAIL, Outcome.FAIL), "2 criteria failed; do not train"),
        (
            Decision.INCOMPLETE,
            of(Outcome.NOT_MEASURED),
            "nothing failed, but 1 required criterion was not measured",
        ),
        (Decision.INCOMPLETE, of(Outcome.NOT_MEASURED, required=False), "nothing proves the rig fit either"),
        (Decision.INCOMPLETE, [], "nothing proves the rig fit either"),
    ],
)
def test_a_decision_says_what_it_means(decision, verdicts, words):
    assert words in meaning(decision, verdicts)


def test_an_interrupted_run_says_so():
    assert meaning(Decision.INCOMPLETE, of(Outcome.NOT_MEASURED), interrupted=True).startswith(
        "the run was stopped"
    )
