from hypothesis import given
from hypothesis import strategies as st

from rigproof.stages.gemm.workload import Settling


def fed(rates: list[float], seconds: float = 0.5, limit_s: float = 100) -> Settling:
    settling = Settling(limit_s)
    for rate in rates:
        settling.add(seconds, rate * seconds)
    return settling


def test_equal_seconds_are_steady():
    assert fed([660, 660, 660, 660]).steady


def test_a_rate_that_falls_by_two_percent_is_not_steady():
    assert not fed([680, 680, 666, 666]).steady


def test_only_the_last_two_seconds_count():
    assert fed([780, 780, 780, 661, 660, 660, 660]).steady


def test_less_than_two_seconds_are_never_steady():
    assert not fed([660, 660, 660]).steady
    assert not Settling(10).steady


def test_warm_up_lasts_at_least_two_seconds_even_when_steady():
    settling = fed([660] * 10)
    assert not settling.done(1.9)
    assert settling.done(2.0)


def test_the_limit_ends_a_warm_up_that_never_settles():
    settling = fed([100, 200] * 5, seconds=1.0, limit_s=8)
    assert not settling.steady
    assert not settling.done(7.9)
    assert settling.done(8.0)


def test_a_limit_under_two_seconds_is_kept():
    assert Settling(0.5).done(0.5)


def test_rounds_longer_than_the_windows_are_compared_one_by_one():
    assert fed([10, 10], seconds=3.0).steady
    assert not fed([10, 11], seconds=3.0).steady


@given(st.lists(st.floats(0.1, 3), min_size=40, max_size=60), st.floats(1, 1000))
def test_a_constant_rate_is_steady_whatever_the_round_lengths(lengths, rate):
    settling = Settling(100)
    for seconds in lengths:
        settling.add(seconds, rate * seconds)
    assert settling.steady


@given(st.floats(0.03, 0.5))
def test_a_drop_in_the_last_window_is_seen(drop):
    assert not fed([100.0] * 10 + [100.0 * (1 - drop)] * 5, seconds=0.2).steady
