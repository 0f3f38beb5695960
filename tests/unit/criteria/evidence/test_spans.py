"""Rounds of one process do not overlap, and where they adjoin, they are one stretch of load."""

from dataclasses import replace
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.spans import overlaps, unbroken
from rigproof.records.measurements import TFLOP, Round
from rigproof.stages.registry import KINDS


def one_after_the_other(count=40, seconds=0.5, late_s=(), worker="w", stage="gemm", from_s=10.0, **labels):
    """Rounds that a device does without a break; `late_s`: by how much the host reports some of them late."""
    late = dict(late_s)
    ends = [from_s + (n + 1) * seconds for n in range(count)]
    ends_s = list(accumulate((end + late.get(n, 0.0) for n, end in enumerate(ends)), max))
    ends_s = [max(end, one + place * 1e-6) for place, (end, one) in enumerate(zip(ends, ends_s, strict=True))]
    fields = (stage, worker, "a", "measure", seconds, 1.0, TFLOP, True)
    return [Round(t_s, *fields, {"precision": "bf16", "size": 1, **labels}) for t_s in ends_s]


def shared_by(process):
    return one_after_the_other(stage="sharing", processes=2, process=process)


def overlaps_of(recorded):
    rounds = Rounds.of_records(recorded)
    return overlaps(rounds.process_ids(KINDS), rounds.t_s, rounds.seconds)


@pytest.mark.parametrize(
    "recorded",
    [
        one_after_the_other(),
        one_after_the_other(worker="v") + one_after_the_other(worker="w"),
        shared_by(0) + shared_by(1),
        # a host that stands still while the device goes on with what was queued, now and then
        one_after_the_other(late_s=[(5, 0.9), (20, 0.4), (30, 0.9)]),
        one_after_the_other(count=20) + one_after_the_other(count=20, seconds=0.7, from_s=30.0),
        one_after_the_other(count=4000, seconds=0.1 * 1.0005),  # a device's clock is no atomic one
    ],
    ids=["alone", "two workers", "two processes", "a late host", "two arms", "for long"],
)
def test_rounds_that_a_device_did_one_after_the_other_do_not_overlap(recorded):
    assert max(overlaps_of(recorded)) <= 0


@pytest.mark.parametrize(
    ("recorded", "surplus_s"),
    [
        (one_after_the_other() * 2, 18.5),
        (one_after_the_other() + one_after_the_other(from_s=10.1), 18.3),
        ([replace(one, seconds=0.7) for one in one_after_the_other()], 5.7),
        (
            one_after_the_other(stage="training", part="precision")
            + one_after_the_other(stage="training", part="sweep", from_s=10.2),
            18.3,
        ),
        # one that was recorded twice, in the middle of others
        (one_after_the_other() + one_after_the_other()[7:8], 0.5),
    ],
    ids=["all twice", "two of one name", "too long", "two parts of one worker", "one twice"],
)
def test_rounds_of_one_process_that_overlap_are_found_with_how_long(recorded, surplus_s):
    assert max(overlaps_of(recorded)) == pytest.approx(surplus_s, abs=0.15)


SPANS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from([0.0, 0.5, 1.0, 3.0]), st.sampled_from([0.1, 0.5, 4.0])),
    max_size=20,
)


@given(SPANS)
def test_overlaps_of_several_processes_are_those_of_each(spans):
    processes = np.asarray([one for one, _, _ in spans], np.intp)
    t_s, seconds = (np.asarray([one[place] for one in spans], float) for place in (1, 2))
    found = overlaps(processes, t_s, seconds)
    for process in range(3):
        own = processes == process
        assert found[own].tolist() == overlaps(processes[own], t_s[own], seconds[own]).tolist()


def stretches(*spans, joining_s=0.25):
    """Of rounds given as when each began and ended, and its work."""
    begins_s, ends_s, work = np.asarray(spans, float).T
    return unbroken(begins_s, ends_s, work.astype(np.intp), joining_s)


def test_rounds_are_one_stretch_unless_there_is_a_break_or_other_work():
    assert stretches((0, 1, 1), (1.2, 2, 1), (2, 3, 1)) == [(0, 3)]
    assert stretches((0, 1, 1), (1.3, 2, 1)) == [(0, 1), (1.3, 2)]
    assert stretches((0, 1, 1), (1, 2, 2), (2, 3, 1)) == [(0, 1), (1, 2), (2, 3)]


def test_a_stretch_lasts_as_long_as_its_longest_round_in_whatever_order_they_came():
    assert stretches((0.5, 1, 1), (0, 3, 1), (3.1, 4, 1)) == [(0, 4)]


def test_of_what_is_fed_no_break_counts():
    assert stretches((0, 1, 1), (9, 10, 1), joining_s=np.inf) == [(0, 10)]


def test_without_rounds_there_is_no_stretch():
    nothing = np.empty(0)
    assert unbroken(nothing, nothing, nothing.astype(np.intp)) == []
