"""Bursts on the CPU, whose products take as long as a clock that is set by hand says."""

import pytest
import torch

from rigproof.devices.cpu import CpuDevice
from rigproof.records.crews import Member
from rigproof.stages.transient.stage import Arm, TransientSpec
from rigproof.stages.transient.workload import run_transient
from support.devices import RecordingContext

BEGINS_S = 100.0
FIRST, BOTH = Arm(1, 5, 3.0, 4), Arm(2, 20, 5.0, 6)
SIZE = 256


class Clock:
    """Run time, which passes only while somebody sleeps or multiplies."""

    def __init__(self) -> None:
        self.now_s = BEGINS_S

    def sleep(self, seconds):
        self.now_s += seconds


class ClockMark:
    def __init__(self, clock):
        self.clock_s = clock.now_s

    def wait(self):
        """The CPU is done when the call returns."""

    def reached(self):
        return False

    def seconds_since(self, earlier):
        return self.clock_s - earlier.clock_s


class SlowCpu(CpuDevice):
    """Every product takes `product_s` of the clock, whatever it really takes; `spoil` may change a result."""

    clock = None

    def __init__(self, clock, product_s):
        super().__init__(cpu_threads=1)
        self.clock, self.product_s, self.spoil, self.products = clock, product_s, lambda number, out: None, 0

    def mark(self):
        return ClockMark(self.clock)

    def multiply(self, a, b, out):
        super().multiply(a, b, out)
        if self.clock is not None:  # not while it is opened
            self.clock.now_s += self.product_s * (out.shape[0] / SIZE) ** 3
            self.products += 1
            self.spoil(self.products, out)


class Context(RecordingContext):
    """A worker whose crew begins at BEGINS_S."""

    crew = Member("host", rank=0, size=2, begins_s=BEGINS_S)

    def __init__(self, clock, stop_when=lambda context: False):
        super().__init__(stop_when)
        self.clock, self.signs = clock, 0

    def now_s(self):
        return self.clock.now_s

    def alive(self):
        self.signs += 1


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def device(clock):
    return SlowCpu(clock, 0.002)


def made(
    device, clock, *, rank=0, arms=(FIRST, BOTH), size=SIZE, stop_when=lambda context: False, left_out=""
):
    context = Context(clock, stop_when)
    run_transient(TransientSpec("transient", size, rank, arms, left_out), device, context, clock.sleep)
    return context


def begins(rounds):
    return [one.t_s - one.seconds - BEGINS_S for one in rounds]


def test_each_burst_begins_when_its_wave_is_due_and_lasts_half_a_period(device, clock):
    rounds = made(device, clock).rounds
    first, both = ([one for one in rounds if one.label("hz") == arm.hz] for arm in (FIRST, BOTH))
    assert begins(first) == pytest.approx([FIRST.due_s(wave) for wave in range(4)])
    assert begins(both) == pytest.approx([BOTH.due_s(wave) for wave in range(6)])
    assert [one.seconds for one in first] == pytest.approx([0.1] * 4)
    assert [one.seconds for one in both] == pytest.approx([0.024] * 6)  # whole products in 25 ms
    assert {one.label("gpus") for one in first} == {1}
    assert {one.label("gpus") for one in both} == {2}


def test_every_product_is_verified_and_the_first_wave_of_a_frequency_warms_up(device, clock):
    context = made(device, clock)
    assert all(one.verified for one in context.rounds)
    assert [one.phase for one in context.rounds] == ["warmup", *["measure"] * 3, "warmup", *["measure"] * 5]
    assert [one.work / one.seconds for one in context.rounds] == pytest.approx(
        [2 * SIZE**3 / 1e12 / 0.002] * 10
    )
    assert len(context.events("reference")) == 1


def test_a_gpu_that_joins_later_waits_idle_and_reports_that_it_lives(device, clock):
    context = made(device, clock, rank=1)
    assert {one.label("gpus") for one in context.rounds} == {2}
    assert context.signs >= 3


@pytest.mark.parametrize("product_s", [0.005, 0.0025])  # of the larger size 40 and 20 ms
def test_matrices_are_made_smaller_until_several_products_fit_the_shortest_burst(clock, product_s):
    """Of 25 ms; four of 20 ms would fit the longest."""
    context = made(SlowCpu(clock, product_s), clock, size=2 * SIZE)
    assert {one.label("size") for one in context.rounds} == {SIZE}
    assert max(one.seconds for one in context.rounds if one.label("hz") == 20) <= 0.025


def test_a_burst_adapts_to_a_device_that_slows_down(device, clock):
    def stop_when(context):
        if len(context.rounds) == 2:
            device.product_s = 0.004
        return False

    rounds = made(device, clock, arms=(FIRST,), stop_when=stop_when).rounds
    assert [one.seconds for one in rounds] == pytest.approx([0.1, 0.1, 0.2, 0.1])


def test_a_wave_that_is_half_over_is_left_out(device, clock):
    def stop_when(context):
        if len(context.rounds) == 2:
            clock.now_s = max(clock.now_s, BEGINS_S + FIRST.due_s(2) + 0.15)  # something held the worker up
        return False

    rounds = made(device, clock, arms=(FIRST,), stop_when=stop_when).rounds
    assert begins(rounds) == pytest.approx([FIRST.due_s(wave) for wave in (0, 1, 3)])


def test_a_late_burst_shows_how_late_it_was(device, clock):
    def stop_when(context):
        if len(context.rounds) == 2:
            clock.now_s = max(clock.now_s, BEGINS_S + FIRST.due_s(2) + 0.03)
        return False

    rounds = made(device, clock, arms=(FIRST,), stop_when=stop_when).rounds
    assert begins(rounds)[2] == pytest.approx(FIRST.due_s(2) + 0.03)


def test_a_wrong_product_in_a_burst_is_reported_and_the_burst_counts_for_nothing(device, clock):
    def spoil(number, out):
        if number == device.products and clock.now_s > BEGINS_S + FIRST.due_s(2):
            out[0, 0] *= 2  # 1 more would be rounded away
            device.spoil = lambda number, out: None

    device.spoil = spoil
    context = made(device, clock)
    (event,) = context.events("wrong_result")
    assert event.message == f"{device.half} product {event.data['pair']} is not exact"
    assert event.data["round"] == 2
    assert [one.verified for one in context.rounds].count(False) == 1


def test_who_is_told_to_stop_ends_within_a_burst(device, clock):
    context = made(device, clock, stop_when=lambda context: len(context.rounds) >= 2)
    assert len(context.rounds) == 2


def test_want_of_memory_is_an_event_and_ends_the_task(device, clock, monkeypatch):
    def full(*_arguments):
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(device, "empty", full)
    context = Context(clock)
    with pytest.raises(MemoryError, match="operands of size 256: no room"):
        run_transient(TransientSpec("transient", SIZE, 0, (FIRST,)), device, context, clock.sleep)
    (event,) = context.events("oom")
    assert event.data["recovered"] is False


def test_a_card_that_is_left_out_says_why_and_does_nothing(device, clock):
    context = made(device, clock, arms=(), left_out="a display is active on it")
    (event,) = context.events("waves_left_out")
    assert event.message == "a display is active on it"
    assert not context.rounds
    assert device.products == 0


def test_a_gpu_without_a_part_does_nothing(device, clock):
    assert not made(device, clock, arms=(FIRST,), rank=1).rounds


def test_on_the_real_clock_bursts_are_made_and_verified(cpu):
    import time  # noqa: PLC0415 - the only test that waits

    begun_s = time.monotonic()

    class Real(RecordingContext):
        crew = Member("host", begins_s=0.0)

        def now_s(self):
            return time.monotonic() - begun_s

    context = Real()
    run_transient(TransientSpec("transient", 256, 0, (Arm(1, 5, 1.0, 3),)), cpu, context)
    assert len(context.rounds) <= 3  # how many is up to the machine
    assert all(one.verified and one.t_s - one.seconds > 0.99 for one in context.rounds)
