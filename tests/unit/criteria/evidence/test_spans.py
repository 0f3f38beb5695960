"""Rounds of one process do not overlap; spans of several processes or groups are those of each."""

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
    assert Rounds.of_records(recorded).worst_overlap(KINDS) == (0.0, 0)


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
    found, place = Rounds.of_records(recorded).worst_overlap(KINDS)
    assert found == pytest.approx(surplus_s, abs=0.15)
    assert 0 <= place < len(recorded)


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


@given(SPANS)
def test_stretches_of_several_groups_are_those_of_each(spans):
    groups = np.asarray([one for one, _, _ in spans], np.intp)
    begins_s, lengths_s = (np.asarray([one[place] for one in spans], float) for place in (1, 2))
    work = (lengths_s > 1).astype(np.intp)
    found = unbroken(groups, begins_s, begins_s + lengths_s, work)
    for group in range(3):
        own = groups == group
        alone = unbroken(groups[own], begins_s[own], (begins_s + lengths_s)[own], work[own])
        mine = found[0] == group
        assert [one[mine].tolist() for one in found] == [one.tolist() for one in alone]


def test_breaks_may_be_of_another_length_for_each_round():
    """Of what is fed, no break counts."""
    ends_s = np.asarray([1.0, 3.0, 1.0, 3.0])
    found = unbroken(
        np.asarray([0, 0, 1, 1]),
        ends_s - 1,
        ends_s,
        np.zeros(4, np.intp),
        np.asarray([0.25, 0.25, np.inf, np.inf]),
    )
    assert [one.tolist() for one in found] == [[0, 0, 1], [0.0, 2.0, 0.0], [1.0, 3.0, 3.0]]
