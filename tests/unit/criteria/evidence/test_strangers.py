"""What is told of a foreign process, by when it was there and what it took."""

import math

import pytest

from rigproof.criteria.evidence.strangers import Stranger
from rigproof.criteria.evidence.windows import Window


def stranger(from_s=31.0, to_s=52.0, since_s=30.0, mib=1228.8, percent=48.0, graphics=False):
    return Stranger(5263, "ml", "python3", from_s, to_s, since_s, mib, percent, graphics)


@pytest.mark.parametrize(
    ("t_s", "near"), [(27.9, False), (28.0, True), (40.0, True), (55.0, True), (55.1, False)]
)
def test_it_may_have_been_there_three_seconds_before_and_after_it_was_seen(t_s, near):
    assert stranger().near(t_s) is near


@pytest.mark.parametrize(
    ("from_s", "to_s", "inside_s"),
    [(0.0, 100.0, 22.0), (40.0, 100.0, 12.0), (0.0, 40.0, 10.0), (0.0, 30.0, 0.0), (60.0, 70.0, 0.0)],
)
def test_it_was_inside_a_window_since_it_can_have_begun(from_s, to_s, inside_s):
    assert stranger().inside_s(Window(from_s, to_s)) == inside_s


@pytest.mark.parametrize(
    ("mib", "percent", "graphics", "warns"),
    [
        (0, 0, False, True),  # a context without memory or work
        (None, None, False, False),
        (0, None, False, False),
        (0, 1, False, False),
        (1, 0, False, False),
        (2048, 40, True, True),
    ],
)
def test_a_desktop_and_an_empty_context_only_warn(mib, percent, graphics, warns):
    assert stranger(mib=mib, percent=percent, graphics=graphics).only_warns is warns


@pytest.mark.parametrize(
    ("mib", "percent", "took"),
    [
        (1228.8, 48.0, "1.20 GiB, up to 48 % of the SMs"),
        (None, 1.0, "up to 1 % of the SMs"),
        (1024.0, 0.9, "1 GiB"),
        (None, None, ""),
    ],
)
def test_what_it_took_is_told_as_far_as_it_is_known(mib, percent, took):
    assert stranger(mib=mib, percent=percent).took == took


def test_who_stayed_has_no_end():
    assert (stranger().who, stranger().when) == ("pid 5263 (python3, user ml)", "from t=31 s to t=52 s")
    assert stranger(to_s=math.inf).when == "from t=31 s on"
