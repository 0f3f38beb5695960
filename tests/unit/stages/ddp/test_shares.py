"""The examples of a step go to devices in proportion to their rates."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.stages.ddp.shares import shared_out

RATES = st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=32)


@pytest.mark.parametrize(
    ("examples", "rates", "expected"),
    [
        (32, [1.0, 1.0], [16, 16]),
        (32, [78.0, 40.6], [21, 11]),
        (3, [1.0, 1e-3], [2, 1]),  # nobody is left without one
        (5, [2.0, 1.0, 1.0], [3, 1, 1]),
    ],
)
def test_a_faster_device_gets_more(examples, rates, expected):
    assert shared_out(examples, rates) == expected


@given(RATES, st.integers(0, 500))
def test_all_are_given_out_and_no_slower_device_gets_more(rates, more):
    found = shared_out(len(rates) + more, rates)
    assert sum(found) == len(rates) + more
    assert min(found) >= 1
    order = sorted(range(len(rates)), key=rates.__getitem__)
    assert all(found[slow] <= found[fast] for slow, fast in pairwise(order) if rates[slow] < rates[fast])


@pytest.mark.parametrize("rates", [[1.0, 0.0], [math.nan, 1.0], [math.inf, 1.0], [1.0, 1.0, 1.0]])
def test_what_cannot_be_shared_out_is_refused(rates):
    with pytest.raises(ValueError, match="cannot be shared out"):
        shared_out(2, rates)
