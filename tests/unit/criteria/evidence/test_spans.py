"""Spans of several processes or groups are, one by one, what each has by itself."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rigproof.criteria.evidence.spans import overlaps, unbroken

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
