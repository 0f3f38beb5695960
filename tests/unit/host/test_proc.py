"""What is read from a made-up /proc."""

import mmap
import platform
import resource
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rigproof.host.proc import (
    TICKS_PER_S,
    CoreTimes,
    boot_id,
    busy_percent,
    core_times,
    cpu_name,
    load_1m,
    memory,
    own_data_bytes,
    own_files,
    own_memory,
    waited_s,
)

seconds = st.floats(0, 1e9)


def test_idle_includes_waiting_for_io_and_guests_are_not_counted_twice(tmp_path: Path) -> None:
    #                user nice system idle iowait irq softirq steal guest guest_nice
    (tmp_path / "stat").write_text(
        "cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 100 20 30 400 50 6 7 8 90 15\ncpu12 1 0 0 2 0 0 0 0\n"
        "intr 1 2 3\nctxt 5\n"
    )
    cores = core_times(tmp_path)
    assert cores.keys() == {0, 12}
    assert cores[0].busy_s == pytest.approx(171 / TICKS_PER_S)
    assert cores[0].idle_s == pytest.approx(450 / TICKS_PER_S)


def test_an_old_kernel_without_the_later_columns(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu0 10 0 0 30\n")
    assert core_times(tmp_path)[0] == CoreTimes(10 / TICKS_PER_S, 30 / TICKS_PER_S)


def test_busy_percent_between_two_readings() -> None:
    assert busy_percent(CoreTimes(1.0, 1.0), CoreTimes(1.75, 1.25)) == 75.0
    assert busy_percent(CoreTimes(1.0, 1.0), CoreTimes(1.0, 2.0)) == 0.0


def test_no_time_between_two_readings_is_no_share() -> None:
    assert busy_percent(CoreTimes(1.0, 1.0), CoreTimes(1.0, 1.0)) is None


@settings(deadline=None)  # a busy host is no failure
@given(seconds, seconds, seconds, seconds)
def test_busy_percent_is_a_percentage_even_where_counters_step_back(
    busy: float, idle: float, later_busy: float, later_idle: float
) -> None:
    share = busy_percent(CoreTimes(busy, idle), CoreTimes(later_busy, later_idle))
    assert share is None or 0 <= share <= 100


def test_memory_in_mib(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text(
        "MemTotal:       2097152 kB\nMemFree:  1 kB\nMemAvailable:   1048576 kB\n"
        "SwapTotal:        10240 kB\nSwapFree:          5120 kB\nHugePages_Total:       0\n"
    )
    found = memory(tmp_path)
    assert (found.total_mib, found.used_mib, found.available_mib) == (2048.0, 1024.0, 1024.0)
    assert found.swap_used_mib == 5.0


def test_the_cpu_s_name_is_the_kernel_s_else_the_architecture(tmp_path: Path) -> None:
    assert cpu_name(tmp_path) == platform.machine()
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: A CPU @ 3 GHz\nmodel name\t: B\n")
    assert cpu_name(tmp_path) == "A CPU @ 3 GHz"


def test_what_this_process_has_is_counted_in_bytes(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/statm").write_text("300 20 10 1 0 100 0\n")
    (tmp_path / "self/status").write_text("Name:\tpython\nVmPeak:\t 99 kB\nVmData:\t    12 kB\n")
    found = own_memory(tmp_path)
    assert (found.mapped, found.resident) == (300 * resource.getpagesize(), 20 * resource.getpagesize())
    assert own_data_bytes(tmp_path) == 12 * 1024
    (tmp_path / "self/status").write_text("Name:\tpython\n")
    with pytest.raises(RuntimeError, match="cannot be capped"):
        own_data_bytes(tmp_path)


def test_what_this_process_takes_is_seen_at_once() -> None:
    mapped, data = own_memory().mapped, own_data_bytes()
    with mmap.mmap(-1, 2**26, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS):
        assert own_memory().mapped >= mapped + 2**26
        assert own_data_bytes() >= data + 2**26


def test_the_files_that_are_mapped(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/maps").write_text(
        "7f00-7f01 r--p 00000000 08:01 12   /lib/lib c.so.6\n7f02-7f03 rw-p 00000000 00:00 0\n"
        "7f04-7f05 rw-p 00000000 00:00 0    [heap]\n7f06-7f07 r--p 00000000 08:01 13 /lib/libz.so (deleted)\n"
    )
    assert list(own_files(tmp_path)) == ["/lib/lib c.so.6", "/lib/libz.so (deleted)"]


def test_load(tmp_path: Path) -> None:
    assert load_1m(tmp_path) is None
    (tmp_path / "loadavg").write_text("1.25 0.9 0.8 2/300 4242\n")
    assert load_1m(tmp_path) == 1.25


def kernel(root, boot_id, *mounts):
    (root / "sys/kernel/random").mkdir(parents=True)
    (root / "self").mkdir()
    (root / "sys/kernel/random/boot_id").write_text(boot_id)
    lines = [f"{n} 1 0:5 / {mount} rw - proc proc rw\n" for n, mount in enumerate(("/proc", *mounts))]
    (root / "self/mountinfo").write_text("".join(lines))
    return root


BOOT = "b48742fe-0af8-4210-958a-a15aa6f8fa70"


def test_the_boot_id_is_the_kernel_s(tmp_path):
    assert boot_id(kernel(tmp_path, f"{BOOT}\n", "/proc/sys")).value == BOOT


def test_a_boot_id_that_is_a_container_s_own_is_none_of_the_host(tmp_path):
    found = boot_id(kernel(tmp_path, f"{BOOT}\n", "/proc/sys/kernel/random/boot_id"))
    assert found.value is None
    assert "container's own" in found.reason


def test_a_boot_id_that_cannot_be_read_is_none_with_the_reason(tmp_path):
    assert "cannot be read" in boot_id(tmp_path).reason
    assert boot_id(kernel(tmp_path, "none\n")).value is None


def test_the_boot_id_of_this_host_stays_the_same():
    assert boot_id() == boot_id()


def test_how_long_threads_waited_for_a_cpu(tmp_path: Path) -> None:
    for path, text in {
        "thread-self": "100 2000000000 3\n",
        "7/task/7": "1 1500000000 1\n",
        "7/task/8": "1 1000000000 1\n",
    }.items():
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / path / "schedstat").write_text(text)
    assert waited_s(tmp_path) == 2.0
    assert waited_s(tmp_path, pid=7) == 2.5
    (tmp_path / "7/task/8/schedstat").write_text("0\n")
    assert waited_s(tmp_path, pid=7) is None
    assert waited_s(tmp_path / "none") is None
    assert waited_s(tmp_path / "none", pid=7) is None
