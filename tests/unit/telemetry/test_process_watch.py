"""Process lists become few records: who came, changed much and went, and that somebody looked."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rigproof.host.processes import Who
from rigproof.records.processes import GpuProcess, ProcessLimits, ProcessWatch
from rigproof.simulation.nvml.library import installed
from rigproof.simulation.nvml.model import Fault, SimulatedDriver, SimulatedGpu, SimulatedProcess
from rigproof.telemetry.nvml.errors import GpuLost
from rigproof.telemetry.nvml.processes import Listed, read_processes, read_sm_use
from rigproof.telemetry.nvml.protocol import Code
from rigproof.telemetry.nvml.session import Nvml, open_nvml
from rigproof.telemetry.process_watch import ProcessWatcher

SUBJECT, UUID = "pc1/gpu0", "GPU-1"
LIMITS = ProcessLimits(growth_mib=512, sm_percent=5)


def watcher() -> ProcessWatcher:
    return ProcessWatcher(SUBJECT, LIMITS, lambda pid: Who("ml", f"program{pid}", (1,)))


def on(used_mib: float | None, pid: int = 7, graphics: bool = False) -> tuple[Listed, ...]:
    return (Listed(pid, used_mib, graphics),)


def changes(records: list[GpuProcess | ProcessWatch]) -> list[GpuProcess]:
    return [one for one in records if isinstance(one, GpuProcess)]


def test_a_process_is_reported_when_it_comes_and_when_it_goes() -> None:
    look = watcher()
    assert changes(look.take(1.0, (), {})) == []
    assert changes(look.take(2.0, on(600), {})) == [
        GpuProcess(2.0, SUBJECT, 7, used_mib=600, sm_percent=0.0, user="ml", name="program7", parents=(1,))
    ]
    assert changes(look.take(3.0, on(600), {})) == []
    assert changes(look.take(4.0, (), {})) == [GpuProcess(4.0, SUBJECT, 7, gone=True)]


def test_memory_growth_that_matters_is_reported_also_in_small_steps() -> None:
    look = watcher()
    look.take(0.0, on(600), {})
    looks = [look.take(t_s, on(600 + 100 * t_s), {}) for t_s in range(1, 30)]
    assert [one.used_mib for look in looks for one in changes(look)] == [1200, 1800, 2400, 3000]


def test_one_second_of_drawing_is_no_work_and_five_of_computing_are() -> None:
    look = watcher()
    look.take(0.0, on(600), {})
    assert changes(look.take(1.0, on(600), {7: 20})) == []
    for t_s in (2.0, 3.0, 4.0, 5.0, 6.0):
        assert changes(look.take(t_s, on(600), {})) == []
    reported = [one for t_s in range(7, 30) for one in changes(look.take(t_s, on(600), {7: 48}))]
    assert [one.sm_percent for one in reported] == [9.6, 19.2, 28.8, 48.0]


def test_a_long_quiet_run_leaves_a_line_in_half_a_minute() -> None:
    look = watcher()
    records = [one for t_s in range(3600) for one in look.take(t_s, on(40_000), {7: 97})]
    assert len(changes(records)) <= 6
    assert len(records) < 130


def test_what_was_watched_is_reported_with_its_longest_gap() -> None:
    look = watcher()
    for t_s in (0.5, 1.5, 5.5, 6.5):
        look.take(t_s, (), None)
    assert look.watch() == ProcessWatch(6.5, SUBJECT, 0.5, 4, 4.0, sm_readable=False)


def test_a_list_that_never_comes_counts_no_reading_and_one_that_stops_ends_the_watch() -> None:
    look = watcher()
    look.take(0.5, None, None)
    assert look.watch() == ProcessWatch(0.5, SUBJECT, 0.5, 0, 0.0, sm_readable=False)
    look.take(1.5, (), {})
    look.take(2.5, None, None)
    watch = look.watch()
    assert watch is not None
    assert (watch.t_s, watch.readings) == (1.5, 1)


def test_a_worker_and_what_it_started_are_ours_also_when_that_is_learnt_later() -> None:
    own: set[int] = set()
    look = ProcessWatcher(SUBJECT, LIMITS, lambda pid: Who(parents=(pid // 10,)), lambda: own)
    both = (*on(600, pid=7), *on(500, pid=70), *on(400, pid=9))
    assert [one.own for one in changes(look.take(0.0, both, {}))] == [False] * 3
    own.add(7)
    assert [(one.pid, one.own) for one in changes(look.take(1.0, both, {}))] == [(7, True), (70, True)]


def test_a_process_that_is_not_listed_once_is_not_reported_as_gone_without_a_list() -> None:
    look = watcher()
    look.take(0.0, on(600), {})
    assert changes(look.take(1.0, None, None)) == []


# Through the real pynvml


@contextmanager
def opened(gpu: SimulatedGpu) -> Iterator[tuple[SimulatedDriver, Nvml]]:
    with installed(SimulatedDriver([gpu])) as driver, open_nvml() as nvml:
        yield driver, nvml


def test_both_lists_are_read_and_who_draws_is_marked() -> None:
    processes = [
        SimulatedProcess(10, 400.0, sm_percent=60),
        SimulatedProcess(20, 600.0),
        SimulatedProcess(20, 600.0, graphics=True),  # in both lists
        SimulatedProcess(30, None, graphics=True),
    ]
    with opened(SimulatedGpu(UUID, processes=processes)) as (_, nvml):
        assert read_processes(nvml.gpu(UUID, SUBJECT, 0.0)) == (
            Listed(10, 400.0, graphics=False),
            Listed(20, 600.0, graphics=True),
            Listed(30, None, graphics=True),
        )
        assert read_sm_use(nvml.gpu(UUID, SUBJECT, 0.0)) == {10: 60.0}
        assert nvml.problems() == []


def test_nobody_is_an_empty_list_and_an_unreadable_one_is_none() -> None:
    with opened(SimulatedGpu(UUID)) as (_, nvml):
        assert read_processes(nvml.gpu(UUID, SUBJECT, 0.0)) == ()
        assert read_sm_use(nvml.gpu(UUID, SUBJECT, 0.0)) == {}
        assert nvml.problems() == []
    with opened(SimulatedGpu(UUID, processes=None)) as (_, nvml):
        assert read_processes(nvml.gpu(UUID, SUBJECT, 0.0)) is None
        assert read_sm_use(nvml.gpu(UUID, SUBJECT, 0.0)) is None


def test_a_lost_gpu_is_lost_to_the_watch_too() -> None:
    with opened(SimulatedGpu(UUID)) as (driver, nvml):
        read_processes(nvml.gpu(UUID, SUBJECT, 0.0))
        driver.inject(Fault("nvmlDeviceGetProcessUtilization", code=Code.GPU_IS_LOST))
        with pytest.raises(GpuLost):
            read_sm_use(nvml.gpu(UUID, SUBJECT, 0.0))
        with pytest.raises(GpuLost):
            read_processes(nvml.gpu(UUID, SUBJECT, 0.0))
