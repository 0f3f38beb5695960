"""The sampling grid on a made-up clock."""

import threading
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rigproof.records.measurements import Event
from rigproof.records.recording import Sample
from rigproof.records.samples import GpuSample
from rigproof.telemetry.nvml.errors import GpuLost
from rigproof.telemetry.sampler import Grid, Sampler


class Clock:
    """Time that passes by sleeping, and by what a reading costs."""

    def __init__(self) -> None:
        self.now = 1000.0

    def now_s(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


def run(rate_hz: float, costs_s: Sequence[float]) -> tuple[Sampler, list[tuple[float, float]]]:
    """Sample once for each cost; the sampler, and (time since the start, lateness) of each reading."""
    clock = Clock()
    readings: list[tuple[float, float]] = []

    def read(t_s: float, lateness_s: float) -> list[Sample | Event]:
        readings.append((t_s - 1000.0, lateness_s))
        clock.now += costs_s[len(readings) - 1]
        if len(readings) == len(costs_s):
            sampler.ask_to_stop()
        return [GpuSample(t_s, "pc1/gpu0", lateness_s=lateness_s)]

    sampler = Sampler(rate_hz, read, clock.now_s, clock.sleep)
    sampler.run()
    return sampler, readings


def test_readings_fall_on_the_grid_whatever_each_costs() -> None:
    sampler, readings = run(4.0, [0.0, 0.125, 0.1875, 0.0, 0.0])
    assert readings == [(0.0, 0.0), (0.25, 0.0), (0.5, 0.0), (0.75, 0.0), (1.0, 0.0)]
    assert sampler.missed == 0
    assert [sample.t_s for sample in sampler.drain()] == [1000.0, 1000.25, 1000.5, 1000.75, 1001.0]
    assert sampler.drain() == []


def test_lateness_under_a_period_is_recorded_and_misses_nothing() -> None:
    sampler, readings = run(4.0, [0.375, 0.0, 0.0])
    assert readings == [(0.0, 0.0), (0.375, 0.125), (0.5, 0.0)]
    assert sampler.missed == 0


def test_a_long_reading_misses_grid_points_and_counts_them() -> None:
    sampler, readings = run(4.0, [1.125, 0.0, 0.0])
    # 0.25, 0.5 and 0.75 have gone; 1.0 is read late.
    assert readings == [(0.0, 0.0), (1.125, 0.125), (1.25, 0.0)]
    assert sampler.missed == 3


@settings(deadline=None)  # a busy host is no failure
@given(
    rate_hz=st.floats(0.1, 100),
    costs=st.lists(st.floats(0, 20), min_size=1, max_size=30),
)
def test_readings_and_missed_points_make_up_the_grid(rate_hz: float, costs: list[float]) -> None:
    sampler, readings = run(rate_hz, costs)
    period = 1 / rate_hz
    assert all(-1e-6 <= lateness <= period + 1e-6 for _, lateness in readings)
    points = [(t - lateness) * rate_hz for t, lateness in readings]
    assert all(abs(point - round(point)) < 1e-3 for point in points)
    assert all(later > earlier for earlier, later in pairwise(points))
    assert round(points[-1]) + 1 == len(readings) + sampler.missed


@settings(deadline=None)  # a busy host is no failure
@given(start=st.floats(0, 1e6), rate_hz=st.floats(0.01, 1000), after=st.floats(0, 1e4))
def test_skipping_ends_on_the_last_point_that_has_come(start: float, rate_hz: float, after: float) -> None:
    grid = Grid(start, rate_hz)
    now = start + after
    skipped = grid.skip_passed(now)
    assert skipped == grid.next >= 0
    assert grid.due_s <= now
    assert start + (grid.next + 1) / rate_hz > now
    assert grid.skip_passed(now) == 0


def failing(errors: Sequence[Exception | None]) -> Sampler:
    """A sampler whose readings raise `errors` in turn, None being a good reading; run to its end."""
    clock = Clock()
    left = list(errors)

    def read(t_s: float, _lateness_s: float) -> list[Sample | Event]:
        error = left.pop(0)
        if not left:
            sampler.ask_to_stop()
        if error is not None:
            raise error
        return [GpuSample(t_s, "pc1/gpu0")]

    sampler = Sampler(10.0, read, clock.now_s, clock.sleep, subject="pc1")
    sampler.run()
    return sampler


def test_an_exception_becomes_an_event_and_sampling_goes_on() -> None:
    sampler = failing([None, OSError("no such sensor"), None])
    before, event, after = sampler.drain()
    assert isinstance(before, GpuSample)
    assert isinstance(after, GpuSample)
    assert isinstance(event, Event)
    assert (event.kind, event.subject) == ("nvml_error", "pc1")
    assert event.message == "OSError: no such sensor"
    assert event.t_s == pytest.approx(1000.1)


def test_the_same_exception_is_reported_once_and_counted() -> None:
    sampler = failing([RuntimeError("a"), RuntimeError("a"), RuntimeError("b"), RuntimeError("a")])
    assert [event.message for event in sampler.drain() if isinstance(event, Event)] == [
        "RuntimeError: a",
        "RuntimeError: b",
    ]
    assert sampler.failures == 4


def test_a_lost_gpu_is_reported_for_that_gpu() -> None:
    (event,) = failing([GpuLost("pc1/gpu3", "GPU-3", "gone")]).drain()
    assert event.subject == "pc1/gpu3"


def test_a_hung_reading_holds_neither_drain_nor_stop() -> None:
    entered, released = threading.Event(), threading.Event()
    now = [5.0]

    def read(t_s: float, _lateness_s: float) -> list[Sample | Event]:
        if entered.is_set():
            return []
        entered.set()
        released.wait()
        return [GpuSample(t_s, "pc1/gpu0")]

    sampler = Sampler(10.0, read, lambda: now[0], lambda _s: None)
    assert sampler.stuck_for_s(now[0]) == 0.0
    sampler.start()
    assert entered.wait(60)
    now[0] = 12.5
    assert sampler.stuck_for_s(now[0]) == 7.5
    assert sampler.drain() == []
    assert sampler.stop(0.01) is False
    released.set()
    assert sampler.stop(20) is True
    assert sampler.stuck_for_s(now[0]) == 0.0
    assert len(sampler.drain()) == 1  # it came in the end


def test_stop_before_start_is_no_error() -> None:
    assert Sampler(10.0, lambda _t, _l: [], lambda: 0.0).stop(1.0) is True


def test_the_thread_samples_until_it_is_stopped() -> None:
    clock = Clock()
    enough = threading.Event()
    readings: list[float] = []

    def read(t_s: float, _lateness_s: float) -> list[Sample | Event]:
        readings.append(t_s)
        if len(readings) == 5:
            enough.set()
        return []

    sleep: Callable[[float], None] = clock.sleep
    sampler = Sampler(10.0, read, clock.now_s, sleep)
    sampler.start()
    assert enough.wait(60)
    assert sampler.stop(20)
    count = len(readings)
    assert count >= 5
    assert len(readings) == count
