"""Whether a rate is lower than a card's earlier ones: alone, or together with those right before it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.criteria.losses import compared

SOUND = (100.0, 100.3, 99.8, 100.1, 99.9, 100.2, 99.7, 100.0, 100.1, 99.9)  # ± 0.18 %
ALL = 120, 0.01, 0.02  # 8 cards × 15 figures, errors of a run, share
RATES = st.lists(st.floats(90, 110), min_size=5, max_size=14)


@pytest.mark.parametrize(
    ("now", "fell"), [(100.0, False), (110.0, False), (98.2, False), (97.9, True), (95.0, True), (50.0, True)]
)
def test_a_loss_of_the_share_that_is_beyond_the_spread_counts(now, fell):
    found = compared(SOUND, now, *ALL)
    assert found is not None
    assert (found.fell, found.since) == (fell, None)
    assert found.before == pytest.approx(100, abs=0.01)
    assert found.least == pytest.approx(98.0, abs=0.01)
    assert found.loss == pytest.approx(1 - now / 100, abs=1e-3)


def test_what_is_within_the_spread_is_no_loss_however_large():
    noisy = [100 + 10 * (one - 100) for one in SOUND]  # ± 1.8 %
    found = compared(noisy, 94.0, *ALL)
    assert found is not None
    assert not found.fell
    assert found.least < 90
    assert compared(noisy, 80.0, *ALL).fell


@pytest.mark.parametrize("number", range(5))
def test_fewer_than_five_runs_are_too_few(number):
    if number:
        assert compared(SOUND[:number], 50.0, *ALL) is None
    assert compared(SOUND[:5], 50.0, *ALL).fell


def test_one_wild_run_of_before_is_no_reason_to_fail_and_hides_no_large_loss():
    wild = (*SOUND[:5], 92.0, *SOUND[5:])
    assert not compared(wild, 98.5, *ALL).fell
    assert compared(wild, 75.0, *ALL).fell


def test_a_loss_of_several_runs_none_of_which_is_low_enough_alone_counts_from_the_first_of_them_on():
    spread = (100.0, 100.7, 99.2, 100.3, 99.5, 100.8, 99.3, 100.4, 99.6, 100.2, 100.6, 99.4)
    lower = [0.966 * one for one in spread[:7]]
    assert not compared(spread, lower[0], *ALL).fell
    found = compared([*spread, *lower[:-1]], lower[-1], *ALL)
    assert (found.fell, found.since) == (True, len(spread))
    assert found.loss == pytest.approx(0.034, abs=0.004)


def test_a_card_is_held_against_its_best_level_and_not_only_against_the_one_before():
    down = [100.0 * 0.985**step * one / 100 for step in range(3) for one in SOUND]  # 1.5 % each time
    found = compared(down[:-1], down[-1], *ALL)
    assert found.fell
    assert found.loss == pytest.approx(0.03, abs=0.003)


def test_a_card_that_was_mended_is_held_against_what_it_does_since():
    mended = [0.9 * one for one in SOUND] + list(SOUND)
    found = compared(mended, 100.0, *ALL)
    assert (found.fell, found.before) == (False, pytest.approx(100, abs=0.01))
    assert compared(mended, 93.0, *ALL).fell  # faster than it was at first


def test_more_figures_and_a_smaller_error_ask_for_more():
    wide = [100 + 3 * (one - 100) for one in SOUND]
    least = [compared(wide, 100.0, tests, 0.01, 0.02).least for tests in (1, 15, 120, 1000)]
    assert least == sorted(least, reverse=True)
    assert compared(wide, 100.0, 120, 0.0001, 0.02).least < least[2]


@given(RATES, st.floats(50, 150), st.floats(0.1, 1e6))
def test_the_unit_does_not_matter(earlier, now, factor):
    one = compared(earlier, now, *ALL)
    other = compared([factor * rate for rate in earlier], factor * now, *ALL)
    assert other.least == pytest.approx(factor * one.least, rel=1e-6)
    if abs(now / one.least - 1) > 1e-6:
        assert one.fell == other.fell


@given(RATES, st.floats(50, 150), st.floats(0.5, 1))
def test_a_lower_rate_is_never_the_better_one(earlier, now, share):
    if compared(earlier, now, *ALL).fell:
        assert compared(earlier, share * now, *ALL).fell


@given(RATES, st.floats(0.0, 1.0))
def test_nothing_that_lost_less_than_the_share_fails(earlier, place):
    now = max(earlier) * (1 - 0.0199 * place)
    assert not compared(earlier, now, *ALL).fell or not math.isclose(now, max(earlier))


def test_one_wild_run_is_no_level_that_later_ones_are_held_against():
    for place in (0, 5, 10):
        high = [*SOUND[:place], 120.0, *SOUND[place:]]
        for more in range(1, 4):
            assert not compared([*high, *SOUND[: more - 1]], 100.0, *ALL).fell


def test_two_low_runs_are_no_lasting_loss_yet():
    spread = [100 + 3 * (one - 100) for one in SOUND]
    assert not compared([*spread, 97.2], 97.2, *ALL).fell
