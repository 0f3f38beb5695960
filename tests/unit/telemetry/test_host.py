"""The host reader on made-up trees, and on this very host."""

import os
import subprocess
import sys
import time
import uuid
from pathlib import Path
from types import SimpleNamespace

import pytest

from rigproof.host import cgroup
from rigproof.host.proc import TICKS_PER_S
from rigproof.telemetry.host import HostReader, host_addresses, hottest_cpu_c

CGROUPS = Path("/sys/fs/cgroup")


class Host:
    """A host made of files, whose clock and CPU times a test moves."""

    def __init__(self, folder: Path, cpus: int = 4) -> None:
        self.proc, self.cgroup = folder / "proc", folder / "cgroup"
        (self.proc / "self").mkdir(parents=True)
        self.cgroup.mkdir()
        (self.proc / "self" / "cgroup").write_text("0::/\n")
        (self.cgroup / "cgroup.controllers").write_text("cpu memory\n")
        (self.proc / "loadavg").write_text("0.5 0.4 0.3 1/100 1\n")
        (self.proc / "meminfo").write_text(
            "MemTotal: 8388608 kB\nMemAvailable: 6291456 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"
        )
        self.clock_s = 100.0
        self.busy = dict.fromkeys(range(cpus), 0.0)
        self.idle = dict.fromkeys(range(cpus), 0.0)
        self.stolen = dict.fromkeys(range(cpus), 0.0)
        self.affinity = set(range(cpus))
        self.sensors: dict[str, list[SimpleNamespace]] = {}
        self.sensor_reads = 0
        self.write_stat()

    def write_stat(self) -> None:
        ticks = {
            cpu: (round(s * TICKS_PER_S), round(self.idle[cpu] * TICKS_PER_S)) for cpu, s in self.busy.items()
        }
        stolen = {cpu: round(s * TICKS_PER_S) for cpu, s in self.stolen.items()}
        lines = [
            f"cpu{cpu} {busy} 0 0 {idle} 0 0 0 {stolen[cpu]} {busy} 0\n"
            for cpu, (busy, idle) in ticks.items()
        ]
        (self.proc / "stat").write_text("cpu 0 0 0 0\n" + "".join(lines) + "intr 0\n")

    def spend(self, seconds: float, shares: dict[int, float]) -> None:
        """Let time pass, each CPU busy for its share of it."""
        self.clock_s += seconds
        for cpu in self.busy:
            self.busy[cpu] += seconds * shares.get(cpu, 0.0)
            self.idle[cpu] += seconds * (1 - shares.get(cpu, 0.0))
        self.write_stat()

    def limit(self, cpu_max: str, usage_s: float) -> None:
        (self.cgroup / "cpu.max").write_text(cpu_max)
        (self.cgroup / "cpu.stat").write_text(f"usage_usec {round(usage_s * 1e6)}\n")

    def wait(self, waited_s: float, file: Path) -> None:
        file.parent.mkdir(exist_ok=True)
        numbers = f"avg10=0.00 avg60=0.00 avg300=0.00 total={round(waited_s * 1e6)}"
        file.write_text(f"some {numbers}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")

    def read_sensors(self) -> dict[str, list[SimpleNamespace]]:
        self.sensor_reads += 1
        return self.sensors

    def reader(self) -> HostReader:
        return HostReader(
            self.proc,
            self.cgroup,
            clock=lambda: self.clock_s,
            affinity=lambda: self.affinity,
            sensors=self.read_sensors,
        )


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_without_a_quota_the_share_is_the_hosts(host: Host) -> None:
    reader = host.reader()
    host.spend(2.0, {0: 1.0, 1: 1.0, 2: 0.5})
    sample = reader.sample("pc1", 7.0, 0.01, (1.5,))
    assert (sample.t_s, sample.subject, sample.lateness_s) == (7.0, "pc1", 0.01)
    assert sample.cpu_percent == pytest.approx(62.5)
    assert sample.core_percent == pytest.approx((100.0, 100.0, 50.0, 0.0))
    assert sample.wakeup_delays_ms == (1.5,)
    assert sample.load_1m == 0.5
    assert (sample.ram_used_mib, sample.ram_available_mib, sample.swap_used_mib) == (2048.0, 6144.0, 0.0)
    assert reader.usable_cpus() == 4.0
    assert reader.ram_gib() == 8.0


def test_each_sample_covers_the_time_since_the_one_before(host: Host) -> None:
    reader = host.reader()
    shares = []
    for busy in (1.0, 0.0, 0.25):
        host.spend(1.0, dict.fromkeys(range(4), busy))
        shares.append(reader.sample("pc1", 0.0, 0.0, None).cpu_percent)
    assert shares == pytest.approx([100.0, 0.0, 25.0])


def test_a_sample_without_time_before_it_is_not_zero_but_none(host: Host) -> None:
    sample = host.reader().sample("pc1", 0.0, 0.0, None)
    assert (sample.cpu_percent, sample.core_percent, sample.wakeup_delays_ms) == (None, None, None)


def test_a_sample_right_after_another_leaves_its_time_to_the_next(host: Host) -> None:
    reader, every = host.reader(), dict.fromkeys(range(4), 1.0)
    shares = []
    for seconds in (1.0, 0.01, 0.09, 0.1):
        host.spend(seconds, every if seconds < 0.1 else {})
        shares.append(reader.sample("pc1", 0.0, 0.0, None).cpu_percent)
    assert shares == [0.0, None, pytest.approx(100.0), 0.0]


def test_counters_and_clock_are_of_one_moment_though_the_thread_had_to_wait_between(host: Host) -> None:
    reader, every = host.reader(), dict.fromkeys(range(4), 1.0)
    waits = [3.0, 2.0]

    def allowed() -> set[int]:
        """Asked for when the counters have been read, and before the clock is."""
        if waits:
            host.spend(waits.pop(), every)
        return host.affinity

    reader._affinity = allowed
    host.spend(1.0, every)
    assert reader.sample("pc1", 0.0, 0.0, None).cpu_percent == pytest.approx(100.0)
    host.spend(1.0, {})
    assert reader.sample("pc1", 0.0, 0.0, None).cpu_percent == 0.0


def test_with_fewer_cpus_allowed_the_share_is_over_those(host: Host) -> None:
    host.affinity = {2, 3}
    reader = host.reader()
    host.spend(1.0, {0: 1.0, 1: 1.0, 2: 0.5})
    sample = reader.sample("pc1", 0.0, 0.0, None)
    assert sample.cpu_percent == pytest.approx(25.0)
    assert len(sample.core_percent or ()) == 4
    assert reader.usable_cpus() == 2.0


def test_under_a_quota_the_share_is_the_cgroups(host: Host) -> None:
    host.limit("150000 100000\n", usage_s=10.0)
    reader = host.reader()
    host.spend(2.0, dict.fromkeys(range(4), 1.0))  # others, outside of the cgroup
    host.limit("150000 100000\n", usage_s=12.25)
    times = reader.cpu_times()
    assert (times.clock_s, times.capacity_cpus) == (102.0, 1.5)
    assert times.busy_s == pytest.approx(12.25)
    assert reader.sample("pc1", 0.0, 0.0, None).cpu_percent == pytest.approx(75.0)
    assert reader.usable_cpus() == 1.5


def test_a_quota_over_the_allowed_cpus_gives_no_more_than_those(host: Host) -> None:
    host.limit("1600000 100000\n", usage_s=0.0)
    host.affinity = {0, 1}
    assert host.reader().usable_cpus() == 2.0


def test_a_cpu_that_goes_offline_leaves_the_cores_unmeasured_once(host: Host) -> None:
    reader = host.reader()
    del host.busy[3]
    host.spend(1.0, {0: 1.0})
    assert reader.sample("pc1", 0.0, 0.0, None).core_percent is None
    host.spend(1.0, {0: 1.0})
    assert reader.sample("pc1", 0.0, 0.0, None).core_percent == pytest.approx((100.0, 0.0, 0.0))


def test_what_a_hypervisor_takes_is_a_share_of_the_allowed_cpus_and_counts_as_used(host: Host) -> None:
    """A CPU's guest time, which is in its user time already, is not counted twice."""
    host.affinity = {0, 1}
    reader = host.reader()
    host.clock_s += 2.0
    host.busy, host.idle, host.stolen = {0: 1.0, 1: 0.5}, {0: 0.5, 1: 1.3}, {0: 0.5, 1: 0.2, 2: 1.0}
    host.write_stat()
    sample = reader.sample("pc1", 0.0, 0.0, None, own_percent=33.0)
    assert sample.stolen_percent == pytest.approx(100 * 0.7 / 4.0)
    assert sample.cpu_percent == pytest.approx(100 * 2.2 / 4.0)
    assert sample.own_percent == 33.0


def test_steal_that_steps_back_is_none(host: Host) -> None:
    host.stolen[0] = 3.0
    host.write_stat()
    reader = host.reader()
    host.stolen[0] = 2.5
    host.spend(2.0, {0: 1.0})
    assert reader.sample("pc1", 0.0, 0.0, None).stolen_percent == 0.0


def test_without_time_in_between_nothing_was_stolen_withheld_or_waited_for(host: Host) -> None:
    host.limit("200000 100000", 0.0)
    host.wait(1.0, host.proc / "pressure" / "cpu")
    sample = host.reader().sample("pc1", 0.0, 0.0, None)
    assert (sample.stolen_percent, sample.throttled_percent, sample.pressure_percent) == (None, None, None)


@pytest.mark.parametrize("key", ["throttled_usec {}", "throttled_time {}000"])
def test_what_a_quota_withheld_is_a_share_of_the_cpus_that_can_be_used(host: Host, key: str) -> None:
    """Of version 2 in µs, of version 1 in ns; here a group of its own under one of the container's."""
    group = host.cgroup / "pod" / "own"
    group.mkdir(parents=True)
    (host.proc / "self" / "cgroup").write_text("0::/pod/own\n")

    def throttle(own_s: float, above_s: float) -> None:
        for folder, waited_s in ((group, own_s), (group.parent, above_s)):
            text = f"usage_usec 0\nnr_throttled 7\n{key.format(round(waited_s * 1e6))}\n"
            (folder / "cpu.stat").write_text(text)

    throttle(5.0, 1.0)
    (group.parent / "cpu.max").write_text("200000 100000")
    reader = host.reader()
    throttle(5.2, 2.0)
    host.spend(2.0, {})
    assert reader.sample("pc1", 0.0, 0.0, None).throttled_percent == pytest.approx(25.0)
    host.spend(2.0, {})
    assert reader.sample("pc1", 0.0, 0.0, None).throttled_percent == 0.0


def test_what_others_outside_leave_too_little_of_a_quota(host: Host) -> None:
    """3 of 4 CPUs may be used, and others use 2: one of the three is missing."""
    host.limit("300000 100000", 0.0)
    reader = host.reader()
    host.limit("300000 100000", 2.0)
    host.spend(2.0, {0: 1.0, 1: 1.0, 2: 1.0})
    assert reader.sample("pc1", 0.0, 0.0, None).crowded_percent == pytest.approx(100 / 3)
    host.limit("300000 100000", 4.0)
    host.spend(2.0, {0: 1.0, 1: 0.9})
    assert reader.sample("pc1", 0.0, 0.0, None).crowded_percent == 0.0


def test_without_a_quota_nobody_is_outside(host: Host) -> None:
    reader = host.reader()
    host.spend(2.0, {0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0})
    assert reader.sample("pc1", 0.0, 0.0, None).crowded_percent == 0.0


def test_the_pressure_is_the_hosts_or_the_cgroups_whichever_is_higher(host: Host) -> None:
    files = (host.proc / "pressure" / "cpu", host.cgroup / "cpu.pressure")
    for file, waited_s in zip(files, (10.0, 20.0), strict=True):
        host.wait(waited_s, file)
    reader = host.reader()
    for file, waited_s in zip(files, (10.5, 21.5), strict=True):
        host.wait(waited_s, file)
    host.spend(2.0, {})
    assert reader.sample("pc1", 0.0, 0.0, None).pressure_percent == pytest.approx(75.0)


def test_what_is_not_counted_here_is_none(host: Host) -> None:
    reader = host.reader()
    host.spend(2.0, {})
    sample = reader.sample("pc1", 0.0, 0.0, None)
    assert (sample.throttled_percent, sample.pressure_percent, sample.own_percent) == (None, None, None)


def test_a_quota_of_a_real_cgroup_is_seen_to_throttle() -> None:
    """A group of our own with a hundredth of a CPU, and a busy process in it."""
    second = (CGROUPS / "cgroup.controllers").exists()
    group = (CGROUPS if second else CGROUPS / "cpu") / f"rigproof-{uuid.uuid4().hex[:8]}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    hog = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        quota = ("cpu.max", "1000 100000") if second else ("cpu.cfs_quota_us", "1000")
        try:
            (group / quota[0]).write_text(quota[1])
        except OSError as error:
            pytest.skip(f"no CPU quota can be set here: {error}")
        (group / "cgroup.procs").write_text(str(hog.pid))
        before = cgroup.throttled_s(group)
        assert before is not None
        end_s = time.monotonic() + 30
        while (cgroup.throttled_s(group) or 0.0) <= before and time.monotonic() < end_s:
            time.sleep(0.05)
        assert (cgroup.throttled_s(group) or 0.0) > before
    finally:
        hog.kill()
        hog.wait()
        time.sleep(0.05)
        group.rmdir()


def test_a_memory_limit_bounds_what_there_is(host: Host) -> None:
    (host.cgroup / "memory.max").write_text(str(2 * 2**30))
    (host.cgroup / "memory.current").write_text(str(2**30))
    (host.cgroup / "memory.stat").write_text("inactive_file 0\n")
    reader = host.reader()
    sample = reader.sample("pc1", 0.0, 0.0, None)
    assert reader.ram_gib() == 2.0
    assert (sample.ram_used_mib, sample.ram_available_mib) == (1024.0, 1024.0)


def test_a_memory_limit_over_the_hosts_ram_is_none(host: Host) -> None:
    (host.cgroup / "memory.max").write_text(str(2**60))
    assert host.reader().ram_gib() == 8.0


def reading(current: float | None) -> SimpleNamespace:
    return SimpleNamespace(label="", current=current)


def test_the_hottest_cpu_sensor_counts() -> None:
    sensors = {
        "coretemp": [reading(51.0), reading(63.5), reading(None)],
        "nvme": [reading(80.0)],
        "k10temp": [reading(58.0)],
    }
    assert hottest_cpu_c(sensors) == 63.5


@pytest.mark.parametrize(
    "sensors", [{}, {"nvme": [reading(40.0)]}, {"coretemp": []}, {"k10temp": [reading(0.0), reading(255.0)]}]
)
def test_no_credible_cpu_sensor_is_none(sensors: dict[str, list[SimpleNamespace]]) -> None:
    assert hottest_cpu_c(sensors) is None


def test_sensors_are_read_once_a_second(host: Host) -> None:
    reader = host.reader()
    host.sensors = {"coretemp": [reading(50.0)]}
    found = []
    for _ in range(4):
        found.append(reader.sample("pc1", 0.0, 0.0, None).cpu_temperature_c)
        host.clock_s += 0.5
    assert found == [50.0] * 4
    assert host.sensor_reads == 2


def test_this_host() -> None:
    reader = HostReader()
    assert 0 < reader.usable_cpus() <= (os.cpu_count() or 1)
    assert reader.ram_gib() > 0
    before = reader.cpu_times()
    sum(range(200_000))
    after = reader.cpu_times()
    assert after.clock_s > before.clock_s
    assert after.busy_s >= before.busy_s
    sample = reader.sample("here", 0.0, 0.0, None)
    assert sample.ram_used_mib is not None
    assert sample.ram_used_mib > 0
    assert sample.ram_available_mib is not None


def test_addresses_of_this_host() -> None:
    addresses = host_addresses()
    assert "127.0.0.1" in addresses
    assert not any("%" in address for address in addresses)
