import threading
import time

import pytest

from rigproof.host.cpu_band import Usage
from rigproof.host.cpu_load import MIB, STEP_S, CpuLoad, piece_bytes, seconds_per_mib, used_between
from rigproof.records.samples import CpuTimes
from support.waiting import wait_for


def own_process() -> CpuTimes:
    """A host on which this process is alone, with two CPUs."""
    return CpuTimes(time.monotonic(), time.process_time(), 2.0)


@pytest.fixture
def load():
    made = []

    def make(*arguments):
        made.append(CpuLoad(*arguments))
        made[-1].start()
        return made[-1]

    yield make
    for each in made:
        each.stop()


def test_threads_work_for_as_much_as_they_are_told(load):
    running = load(1, 20.0, own_process)
    wait_for(lambda: any(reading.usage.own_cpus > 0.1 for reading in running.readings()))
    shares = [reading.share for reading in running.readings()]
    assert 0 < max(shares) <= 0.5  # 0.4 CPUs are the target, and the trim adds 0.1 at most
    assert running.readings()[-1].short_cpus == 0


def test_a_busy_host_gets_no_load(load):
    def taken_by_others():
        now_s = time.monotonic()
        return CpuTimes(now_s, 1.9 * now_s, 2.0)

    busy = load(1, 75.0, taken_by_others)
    wait_for(lambda: len(busy.readings()) >= 3)
    assert busy.share == 0
    assert {reading.share for reading in busy.readings()} == {0.0}
    assert busy.readings()[-1].usage.busy_cpus == pytest.approx(1.9, abs=0.01)


def test_how_much_is_short_where_threads_are_too_few_is_reported(load):
    running = load(1, 75.0, lambda: CpuTimes(time.monotonic(), 0.0, 8.0))
    wait_for(running.readings)
    assert running.share == 1
    assert running.readings()[-1].short_cpus == pytest.approx(5.0)


def test_after_a_late_step_the_next_one_does_not_follow_at_once(load):
    reads = iter(range(100))

    def late_at_the_second():
        if next(reads, 0) == 1:
            time.sleep(3 * STEP_S)
        return CpuTimes(time.monotonic(), 0.0, 2.0)

    running = load(1, 10.0, late_at_the_second)
    wait_for(lambda: len(running.readings()) >= 3)
    first, second, third = (one.clock_s for one in running.readings()[:3])
    assert second - first >= 0.99 * STEP_S
    assert third - second >= 0.99 * STEP_S


def test_stop_joins_every_thread_and_a_second_stop_does_nothing(load):
    before = set(threading.enumerate())
    running = load(3, 10.0, own_process)
    wait_for(running.readings)
    assert len(set(threading.enumerate()) - before) == 4
    running.stop()
    assert set(threading.enumerate()) == before
    assert running.share == 0
    running.stop()


def test_unreadable_times_pause_the_load_and_are_reported(load):
    answers = iter([own_process, own_process, own_process])

    def failing():
        try:
            return next(answers)()
        except StopIteration:
            raise OSError("no /proc/stat") from None

    running = load(1, 20.0, failing)
    wait_for(lambda: running.error)
    assert "no /proc/stat" in running.error
    assert running.share == 0


def test_use_is_the_mean_between_two_readings():
    assert used_between(CpuTimes(10.0, 100.0, 4.0), CpuTimes(10.5, 101.0, 4.0), own_s=0.25) == Usage(
        2.0, 0.5, 4.0
    )


@pytest.mark.parametrize("later", [CpuTimes(10.0, 100.0, 4.0), CpuTimes(11.0, 101.0, 0.0)])
def test_no_time_or_no_capacity_is_no_reading(later):
    assert used_between(CpuTimes(10.0, 100.0, 4.0), later, own_s=0.0) is None


def test_counters_that_step_back_count_as_no_use():
    usage = used_between(CpuTimes(10.0, 100.0, 4.0), CpuTimes(11.0, 99.0, 4.0), own_s=0.0)
    assert usage == Usage(0.0, 0.0, 4.0)
    assert usage.foreign_cpus == 0


@pytest.mark.parametrize("of_mib_s", [0.0004, 0.003])
@pytest.mark.parametrize("threads", [8, 14, 68, 163, 400])
def test_however_many_threads_take_the_interpreter_lock_equally_often(threads, of_mib_s):
    piece_s = piece_bytes(threads, of_mib_s) / MIB * of_mib_s
    assert threads / piece_s == pytest.approx(15_000, rel=0.01)


def test_hashing_a_mib_takes_milliseconds_of_cpu_time():
    """However long this thread has worked before."""
    assert 0 < seconds_per_mib() < 0.1 < time.thread_time()


def test_few_threads_take_it_every_half_millisecond_at_most():
    assert piece_bytes(2, 0.0005) == MIB
    assert piece_bytes(2, 1.0) == MIB // 16  # a clock that lies must not end in pieces of nothing
