"""Decision and exit status of a session: both say the same, whatever pytest ended with."""

from itertools import product

import pytest

from rigproof.plugin.conclusion import Judged, decision_of, exit_status, unexplained
from rigproof.records.verdict import Decision, Outcome, Verdict

WELL = [Verdict("c.x", "n", Outcome.PASS)]
FAILED = [*WELL, Verdict("c.y", "n", Outcome.FAIL)]
MISSING = [*WELL, Verdict("c.y", "n", Outcome.NOT_MEASURED)]


def ended(verdicts, *, interrupted=False, broken=False, status=0, problems=()):
    judged = Judged({}, interrupted, broken, status, tuple(problems))
    decision = decision_of(verdicts, judged, problems)
    return decision.value, exit_status(decision, judged)


@pytest.mark.parametrize(
    ("session", "expected"),
    [
        ({}, ("ACCEPTED", 0)),
        ({"problems": ["report.html: not written"]}, ("INCOMPLETE", 6)),
        ({"status": 1}, ("INCOMPLETE", 6)),  # somebody else's test
        ({"status": 2}, ("INCOMPLETE", 2)),
        ({"interrupted": True, "status": 2}, ("INCOMPLETE", 2)),
        ({"interrupted": True}, ("INCOMPLETE", 2)),
        ({"broken": True, "status": 1}, ("INCOMPLETE", 3)),
        ({"status": 3}, ("INCOMPLETE", 3)),
        ({"status": 5}, ("INCOMPLETE", 6)),
        ({"status": 42}, ("INCOMPLETE", 6)),
    ],
)
def test_a_sound_rig_is_accepted_only_by_a_session_without_a_problem(session, expected):
    assert ended(WELL, **session) == expected


@pytest.mark.parametrize(
    ("interrupted", "broken", "status"), [*product([False, True], [False, True], [0, 1, 2, 3, 4, 5, 6, 42])]
)
def test_zero_is_accepted_and_one_is_rejected_and_nothing_else_is(interrupted, broken, status):
    session = {"interrupted": interrupted, "broken": broken, "status": status}
    assert ended(FAILED, **session) == ("REJECTED", 1)
    decision, found = ended(MISSING, **session)
    assert decision == Decision.INCOMPLETE
    assert found in (2, 3, 6)
    decision, found = ended(WELL, **session)
    assert (decision == Decision.ACCEPTED) == (found == 0)
    assert found != 1


@pytest.mark.parametrize(
    ("at_the_end", "number"),
    [
        (Outcome.FAIL, 0),
        (Outcome.NOT_MEASURED, 0),  # later records show that others caused it
        (Outcome.PASS, 1),
        (Outcome.WARN, 1),
        (Outcome.NO_LIMIT, 1),
        (Outcome.NOT_APPLICABLE, 1),
    ],
)
def test_a_failure_that_only_its_test_saw_makes_no_accepted_run(at_the_end, number):
    """The verdict is that of the whole recording, so that `judge` and `report` say the same."""
    failed = Verdict("c.y", "n", Outcome.FAIL, detail="slow")
    judged = Judged({("c.y", "n"): failed}, False, False, 1)
    end = [*WELL, Verdict("c.y", "n", at_the_end)]
    problems = unexplained(end, judged)
    assert len(problems) == number
    assert all("n c.y: slow" in one and one.endswith("the whole recording does not") for one in problems)
    assert decision_of(end, judged, problems) is not Decision.ACCEPTED
