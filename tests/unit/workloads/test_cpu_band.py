import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.workloads.cpu_band import Controller, Usage

cpus = st.floats(0, 128)


def test_a_quiet_host_gets_the_whole_target():
    decision = Controller(threads=2, target_percent=75).step(Usage(0.0, 0.0, 2.0))
    assert decision.share == 0.75
    assert decision.short_cpus == 0


def test_what_others_use_is_taken_off_at_once():
    decision = Controller(threads=2, target_percent=75).step(Usage(1.0, 0.0, 2.0))
    assert decision.share == 0.25


def test_our_own_load_is_not_taken_for_others():
    controller = Controller(threads=2, target_percent=75)
    controller.step(Usage(0.0, 0.0, 2.0))
    assert controller.step(Usage(1.5, 1.5, 2.0)).share == 0.75


def test_others_above_the_target_leave_nothing_to_do_whatever_the_trim():
    controller = Controller(threads=2, target_percent=75)
    for _ in range(100):
        controller.step(Usage(1.0, 1.0, 2.0))
    assert controller.trim_cpus > 0
    assert controller.step(Usage(1.5, 0.0, 2.0)).share == 0
    assert controller.step(Usage(2.0, 0.0, 2.0)).share == 0


def test_too_few_threads_saturate_and_it_is_told_by_how_much():
    decision = Controller(threads=2, target_percent=75).step(Usage(0.0, 0.0, 4.0))
    assert decision.share == 1
    assert decision.short_cpus == pytest.approx(1.0)


def test_a_saturated_controller_does_not_wind_up():
    controller = Controller(threads=2, target_percent=75)
    for _ in range(1000):
        controller.step(Usage(2.0, 2.0, 4.0))
    assert controller.trim_cpus == 0


@pytest.mark.parametrize(("threads", "target"), [(0, 75), (2, -1), (2, 101)])
def test_impossible_settings_are_refused(threads, target):
    with pytest.raises(ValueError, match=r"= (0|-1|101):"):
        Controller(threads, target)


@given(
    st.integers(1, 200), st.floats(0, 100), st.lists(st.tuples(cpus, cpus, st.floats(0.1, 128)), max_size=30)
)
def test_the_share_stays_within_a_thread_and_the_trim_within_its_limit(threads, target, readings):
    controller = Controller(threads, target)
    for busy, own, capacity in readings:
        before = controller.trim_cpus
        decision = controller.step(Usage(busy, own, capacity))
        assert 0 <= decision.share <= 1
        assert decision.short_cpus >= 0
        assert controller.trim_cpus == before or abs(controller.trim_cpus) <= 0.05 * capacity


@given(
    st.integers(1, 64),
    st.lists(st.tuples(cpus, cpus), max_size=10),
    st.floats(0, 64),
    st.floats(0, 64),
    st.floats(0, 64),
)
def test_more_foreign_load_never_raises_the_share(threads, history, own, foreign, more):
    def after(foreign_cpus):
        controller = Controller(threads, 77.5)
        for busy, own_before in history:
            controller.step(Usage(busy, own_before, 64.0))
        return controller.step(Usage(own + foreign_cpus, own, 64.0)).share

    assert after(foreign + more) <= after(foreign) + 1e-12


@given(
    capacity=st.integers(2, 96),
    headroom=st.floats(0, 0.15),
    loss=st.floats(0, 0.04),
    changes=st.lists(st.tuples(st.integers(5, 40), st.floats(0, 1)), min_size=1, max_size=8),
)
def test_a_simulated_host_is_in_its_band_except_in_the_step_of_each_change(capacity, headroom, loss, changes):
    """Foreign load of 0 to 1 CPU comes and goes; threads lose a few percent of what they are told."""
    threads = math.ceil(capacity * (0.8 + headroom))
    controller = Controller(threads, 77.5)
    share = controller.step(Usage(0.0, 0.0, capacity)).share
    for steps, foreign in changes:
        for step in range(steps):
            own = min(share * threads * (1 - loss), capacity - foreign)
            busy = own + foreign
            if step > 0:
                assert 70 <= 100 * busy / capacity <= 85
            share = controller.step(Usage(busy, own, capacity)).share
