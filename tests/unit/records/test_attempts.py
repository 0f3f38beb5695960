"""A stage that begins anew is another attempt at it; nothing of the first one is lost."""

from dataclasses import replace

import pytest

from rigproof.records.identity import RunInfo
from rigproof.records.measurements import Event, Round, Stage
from rigproof.records.recording import Recording

GEMM = Stage("gemm", 1.0, 4.0, "finished")
FIRST, LAST = Stage("sustained", 5.0, 25.0, "finished"), Stage("sustained", 26.0, 46.0, "finished")


def begun(stage):
    return replace(stage, end_s=None, status="running")


@pytest.fixture
def recording():
    found = Recording(RunInfo("run", "2026-01-01T00:00:00Z", "quick", "0", "3.11", {}, ("gemm", "sustained")))
    found.extend([begun(GEMM), GEMM, begun(FIRST), FIRST])
    return found


def test_the_end_of_a_stage_is_no_other_attempt(recording):
    assert recording.earlier_attempts == {}
    assert recording.attempts == [GEMM, FIRST]


def test_both_attempts_are_kept_in_order_and_change_the_count(recording):
    before = recording.count()
    recording.extend([begun(LAST), LAST])
    assert recording.stages == {"gemm": GEMM, "sustained": LAST}
    assert recording.earlier_attempts == {"sustained": (FIRST,)}
    assert recording.attempts == [GEMM, FIRST, LAST]
    assert recording.count() == before + 1


def test_all_attempts_are_kept_and_each_has_its_own_rounds(recording):
    third = replace(LAST, start_s=50.0, end_s=60.0)
    recording.extend([LAST, third])
    recording.rounds = [
        Round(t_s, "sustained", "n/gpu0#0", "n/gpu0", "measure", 1.0, 1.0, "TFLOP", True)
        for t_s in (10.0, 30.0, 55.0)
    ]
    assert recording.earlier_attempts == {"sustained": (FIRST, LAST)}
    assert recording.attempts == [GEMM, FIRST, LAST, third]
    for number, (stage, t_s) in {
        0: (FIRST, 10.0),
        1: (LAST, 30.0),
        7: (third, 55.0),
        None: (third, 55.0),
    }.items():
        own = recording.of_attempt(number)
        assert own.stages == {"gemm": GEMM, "sustained": stage}
        assert [one.t_s for one in own.rounds] == [t_s]


@pytest.mark.parametrize(
    ("stage", "t_s", "last"),
    [
        ("sustained", 25.9, False),
        ("sustained", 26.0, True),
        ("sustained", float("nan"), True),
        ("gemm", 3.0, True),
        (None, 3.0, True),
    ],
)
def test_what_is_of_an_attempt_that_was_repeated_is_reported_by_its_moment(recording, stage, t_s, last):
    event = Event(t_s, "oom", "pc1/gpu0", "", stage)
    assert recording.is_last(event)
    recording.add(LAST)
    assert recording.is_last(event) is last
