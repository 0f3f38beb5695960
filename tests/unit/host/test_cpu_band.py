import math
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rigproof.host.cpu_band import Controller, Usage, thread_plan

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


def test_too_few_threads_saturate_and_it_is_reported_by_how_much():
    decision = Controller(threads=2, target_percent=75).step(Usage(0.0, 0.0, 4.0))
    assert decision.share == 1
    assert decision.short_cpus == pytest.approx(1.0)


def test_a_saturated_controller_does_not_wind_up():
    controller = Controller(threads=2, target_percent=75)
    for _ in range(1000):
        controller.step(Usage(2.0, 2.0, 4.0))
    assert controller.trim_cpus == 0


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


@st.composite
def rigs(draw):
    """CPUs, and as many threads as the profile starts there."""
    capacity = draw(st.integers(2, 192))
    return capacity, sum(thread_plan(capacity, 0.70, 0.15))


@given(
    rigs(),
    st.floats(0, 0.05),
    st.lists(st.tuples(st.floats(0, 1), st.integers(2, 12), st.floats(0, 1)), min_size=1, max_size=12),
)
def test_two_steps_after_any_change_the_threads_do_what_others_leave(rig, loss, changes):
    """Others use any share of the CPUs; each change falls somewhere into a step."""
    capacity, threads = rig
    target = 0.775 * capacity
    controller = Controller(threads, 77.5)
    share, before = 0.0, 0.0
    for level, steps, part in changes:
        foreign = level * capacity
        for step in range(steps):
            used = before + (foreign - before) * part if step == 0 else foreign
            own = min(share * threads * (1 - loss), capacity - used)
            share = controller.step(Usage(used + own, own, float(capacity))).share
            if step > 0:
                left = max(0.0, target - foreign)
                assert share * threads == pytest.approx(left, abs=0.05 * capacity + 1e-9)
                assert share == 0 or foreign < target
        before = foreign


@settings(deadline=None)
@given(
    rig=rigs(),
    loss=st.floats(0, 0.02),
    begins_late=st.integers(0, 5),
    changes=st.lists(st.tuples(st.integers(250, 600), st.floats(0, 0.5)), min_size=1, max_size=5),
)
def test_only_windows_in_which_others_come_or_go_leave_the_band(rig, loss, begins_late, changes):
    """Up to half of the CPUs come and go at any moment; threads follow up to 50 ms late. Ticks of 10 ms."""
    capacity, threads = rig
    controller = Controller(threads, 77.5)
    shares = [0.0] * (begins_late + 1)
    used: list[tuple[float, float]] = []  # everybody, ourselves
    changed: set[int] = {0, 1}  # seconds; the load has just begun
    for ticks, level in [(300, 0.0), *changes]:
        changed.add(len(used) // 100)
        for _ in range(ticks):
            own = min(shares[-1 - begins_late] * threads * (1 - loss), (1 - level) * capacity)
            used.append((level * capacity + own, own))
            step = used[-10:]
            if len(used) % 10 == 0:
                usage = Usage(fmean(one[0] for one in step), fmean(one[1] for one in step), float(capacity))
                shares.append(controller.step(usage).share)
            else:
                shares.append(shares[-1])
    for second in range(len(used) // 100):
        window = used[100 * second : 100 * (second + 1)]
        percent = 100 * fmean(one[0] for one in window) / capacity
        assert second in changed or 70 <= percent <= 85, (second, percent)


@pytest.mark.parametrize(
    ("cpus", "threads"),
    [(0.5, (1, 0)), (1, (1, 0)), (2, (2, 0)), (4, (3, 1)), (16, (12, 2)), (80, (56, 12)), (192, (135, 29))],
)
def test_primary_and_secondary_threads_are_shares_of_the_cpus_rounded_up(cpus, threads):
    assert thread_plan(cpus, 0.70, 0.15) == threads


@given(st.floats(0.1, 512), st.floats(0, 1), st.floats(0, 1))
def test_all_threads_together_are_rounded_up_once(cpus, primary, secondary):
    first, second = thread_plan(cpus, primary, secondary)
    assert first >= 1
    assert second >= 0
    assert first + second <= max(1, math.ceil(cpus * (primary + secondary)))
    assert first + second >= cpus * (primary + secondary) - 1e-6
