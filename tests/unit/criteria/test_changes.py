import math
import random
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import ttest_ind

from rigproof.criteria.changes import Change, Spread, change, spread_of

RATES = st.lists(st.floats(1.0, 1000.0), min_size=3, max_size=8)


@given(RATES, RATES)
def test_the_interval_is_that_of_students_test_where_both_sides_spread_alike(before, after) -> None:
    logs = [[math.log(one) for one in side] for side in (after, before)]
    own = [spread_of([side]) for side in (before, after)]
    both = spread_of([before, after])
    assert both is not None
    assume(min(one.variance for one in own if one is not None) > 1e-12)  # scipy warns of data nearly alike
    expected = ttest_ind(*logs).confidence_interval(1 - 0.05 / 7)
    found = change(before, after, [], 7)
    assert found.low is not None
    assert found.high is not None
    low = math.log1p(max(found.low, -100 + 1e-12) / 100)
    alike = all(one is not None and one.variance <= both.variance * (1 + 1e-12) for one in own)
    if alike and expected.low > -20 and expected.high < 50:
        assert low == pytest.approx(expected.low, rel=1e-6, abs=1e-9)
        assert math.log1p(found.high / 100) == pytest.approx(expected.high, rel=1e-6, abs=1e-9)
    elif expected.low > -20 and expected.high < 50:
        assert low <= expected.low + 1e-9  # a side that spreads more has the last word


def test_too_few_runs_are_compared_by_the_spread_of_others_alone() -> None:
    others = [[50, 50.2, 49.9, 50.1, 50.0]]
    assert change([100], [95], [], 1).answer == "too few runs to tell"
    assert change([100], [95], [others[0][:4]], 1).answer == "too few runs to tell"
    assert change([100], [95], others, 1).answer == "slower"
    assert change([100], [99.8], others, 1).answer == "no difference shown"
    assert change([95, 95], [100], others, 1).answer == "faster"
    assert change([100], [95], [], 1) == Change(pytest.approx(-5))


def test_an_interval_widens_with_the_number_of_comparisons() -> None:
    widths = []
    for comparisons in (1, 15, 120):
        found = change([100, 101, 99], [100, 102, 98], [], comparisons)
        assert found.low is not None
        assert found.high is not None
        widths.append(found.high - found.low)
    assert all(one < other for one, other in pairwise(widths))


def test_the_spread_is_inside_groups_and_not_between_them() -> None:
    assert spread_of([]) is None
    assert spread_of([[100], [50]]) is None
    assert spread_of([[], [100, 100]]) == Spread(0.0, 1)
    found = spread_of([[100, 101, 102], [50, 50.5]])
    assert found is not None
    assert found.freedom == 3
    assert math.sqrt(found.variance) == pytest.approx(0.0095, rel=0.1)  # of groups 50 % apart


def test_rates_that_do_not_vary_at_all_are_told_apart_exactly() -> None:
    assert change([100] * 3, [100] * 3, [], 1).answer == "no difference shown"
    assert change([100] * 3, [99] * 3, [], 1).answer == "slower"


@pytest.mark.parametrize(("before", "after"), [(3, 3), (5, 4), (10, 3), (2, 9)])
def test_alike_runs_are_called_different_as_seldom_as_is_promised(before: int, after: int) -> None:
    """15 figures: in at most 5 of 100 comparisons one of them is slower or faster, but for chance."""
    source = random.Random(1)
    alarms = 0
    for _ in range(400):
        figures = (
            change(*([source.gauss(100, 0.4) for _ in range(size)] for size in (before, after)), [], 15)
            for _ in range(15)
        )
        alarms += any(one.answer in ("slower", "faster") for one in figures)
    assert alarms <= 32  # 20 expected; 4.4 is the standard deviation
