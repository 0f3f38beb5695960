"""CPU quotas and memory limits in made-up cgroup trees."""

from pathlib import Path

import pytest

from rigproof.host.cgroup import PidsLimit, cpu_quota, memory_limit, oom_kills, pids_limits, usable_memory

GIB = 2**30


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def trees(tmp_path: Path, own: str, files: dict[str, str]) -> tuple[Path, Path]:
    """A proc tree with `own` as /proc/self/cgroup, and a cgroup tree of `files`."""
    proc, cgroup = tmp_path / "proc", tmp_path / "cgroup"
    write(proc, {"self/cgroup": own})
    cgroup.mkdir()
    write(cgroup, files)
    return proc, cgroup


def test_v2_quota_of_the_own_group(tmp_path: Path) -> None:
    roots = trees(
        tmp_path,
        "0::/\n",
        {
            "cgroup.controllers": "cpu memory\n",
            "cpu.max": "150000 100000\n",
            "cpu.stat": "usage_usec 2500000\nuser_usec 2000000\n",
        },
    )
    quota = cpu_quota(*roots)
    assert quota is not None
    assert (quota.cpus, quota.version) == (1.5, 2)
    assert quota.busy_s() == pytest.approx(2.5)


def test_v2_the_tightest_group_above_counts_with_its_own_usage(tmp_path: Path) -> None:
    roots = trees(
        tmp_path,
        "0::/slice/unit/leaf\n",
        {
            "cgroup.controllers": "cpu\n",
            "slice/cpu.max": "200000 100000\n",
            "slice/cpu.stat": "usage_usec 9000000\n",
            "slice/unit/cpu.max": "max 100000\n",
            "slice/unit/leaf/cpu.max": "800000 100000\n",
            "slice/unit/leaf/cpu.stat": "usage_usec 1000000\n",
        },
    )
    quota = cpu_quota(*roots)
    assert quota is not None
    assert (quota.cpus, quota.busy_s()) == (2.0, 9.0)


@pytest.mark.parametrize("own", ["0::/docker/elsewhere\n", "0::/../outside\n", "", "nonsense\n"])
def test_a_path_that_is_not_in_sight_means_the_mounted_root(tmp_path: Path, own: str) -> None:
    files = {"cgroup.controllers": "cpu\n", "cpu.max": "50000 100000\n", "cpu.stat": "usage_usec 1\n"}
    quota = cpu_quota(*trees(tmp_path, own, files))
    assert quota is not None
    assert quota.cpus == 0.5


@pytest.mark.parametrize(("cpu", "account"), [("cpu", "cpuacct"), ("cpu,cpuacct", "cpu,cpuacct")])
def test_v1_quota(tmp_path: Path, cpu: str, account: str) -> None:
    own = "4:cpu,cpuacct:/docker/x\n" if cpu == account else "4:cpu:/docker/x\n5:cpuacct:/docker/x\n"
    roots = trees(
        tmp_path,
        own,
        {
            f"{cpu}/docker/x/cpu.cfs_quota_us": "300000\n",
            f"{cpu}/docker/x/cpu.cfs_period_us": "100000\n",
            f"{account}/docker/x/cpuacct.usage": "4000000000\n",
            f"{cpu}/cpu.cfs_quota_us": "-1\n",
            f"{cpu}/cpu.cfs_period_us": "100000\n",
        },
    )
    quota = cpu_quota(*roots)
    assert quota is not None
    assert (quota.cpus, quota.version, quota.busy_s()) == (3.0, 1, 4.0)


def test_v1_quota_above_is_counted_by_the_same_group_of_the_other_tree(tmp_path: Path) -> None:
    roots = trees(
        tmp_path,
        "4:cpu:/box/leaf\n5:cpuacct:/box/leaf\n",
        {
            "cpu/box/cpu.cfs_quota_us": "50000\n",
            "cpu/box/cpu.cfs_period_us": "100000\n",
            "cpu/box/leaf/cpu.cfs_quota_us": "-1\n",
            "cpu/box/leaf/cpu.cfs_period_us": "100000\n",
            "cpuacct/box/cpuacct.usage": "7000000000\n",
            "cpuacct/box/leaf/cpuacct.usage": "2000000000\n",
        },
    )
    quota = cpu_quota(*roots)
    assert quota is not None
    assert (quota.cpus, quota.busy_s()) == (0.5, 7.0)


def test_v1_trees_that_differ_count_the_group_that_the_process_is_in(tmp_path: Path) -> None:
    roots = trees(
        tmp_path,
        "4:cpu:/box\n5:cpuacct:/other\n",
        {
            "cpu/box/cpu.cfs_quota_us": "50000\n",
            "cpu/box/cpu.cfs_period_us": "100000\n",
            "cpuacct/other/cpuacct.usage": "3000000000\n",
        },
    )
    quota = cpu_quota(*roots)
    assert quota is not None
    assert (quota.cpus, quota.busy_s()) == (0.5, 3.0)


def test_no_cgroup_at_all(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path / "proc", tmp_path / "cgroup") is None
    assert memory_limit(tmp_path / "proc", tmp_path / "cgroup") is None


MEMINFO = (
    "MemTotal: 16777216 kB\nMemFree: 1 kB\nMemAvailable: 8388608 kB\nSwapTotal: 2048 kB\nSwapFree: 1024 kB\n"
)


def v2(limit: str, used: int) -> dict[str, str]:
    return {
        "cgroup.controllers": "memory\n",
        "memory.max": f"{limit}\n",
        "memory.current": f"{used}\n",
        "memory.stat": f"anon 5\ninactive_file {GIB}\n",
    }


def v1(limit: str, used: int) -> dict[str, str]:
    return {
        "memory/memory.limit_in_bytes": f"{limit}\n",
        "memory/memory.usage_in_bytes": f"{used}\n",
        "memory/memory.stat": f"cache 5\ntotal_inactive_file {GIB}\n",
    }


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, (16384, 8192, 8192)),
        (v2("max", 3 * GIB), (16384, 8192, 8192)),
        (v1("9223372036854771712", 3 * GIB), (16384, 8192, 8192)),  # version 1's way to say none
        (v2(str(4 * GIB), 3 * GIB), (4096, 2048, 2048)),  # file cache can be had
        (v1(str(4 * GIB), 3 * GIB), (4096, 2048, 2048)),
        (v2(str(15 * GIB), 3 * GIB), (15360, 2048, 8192)),  # others on the host have the rest
        (v1(str(15 * GIB), 3 * GIB), (15360, 2048, 8192)),
        (v2(str(GIB), 3 * GIB), (1024, 2048, 0)),  # lowered since
    ],
)
def test_a_group_bounds_the_memory_that_can_be_used(
    tmp_path: Path, files: dict[str, str], expected: tuple[float, float, float]
) -> None:
    proc, cgroup = trees(tmp_path, "0::/\n7:memory:/\n", files)
    write(proc, {"meminfo": MEMINFO})
    found = usable_memory(memory_limit(proc, cgroup), proc)
    assert (found.total_mib, found.used_mib, found.available_mib) == expected
    assert found.swap_used_mib == 1.0


@pytest.mark.parametrize(("high", "expected"), [("max", 4096.0), (str(3 * GIB), 3072.0)])
def test_v2_more_than_memory_high_only_slows_down(tmp_path: Path, high: str, expected: float) -> None:
    files = {**v2(str(4 * GIB), 2 * GIB), "memory.high": f"{high}\n"}
    proc, cgroup = trees(tmp_path, "0::/\n", files)
    write(proc, {"meminfo": MEMINFO})
    found = usable_memory(memory_limit(proc, cgroup), proc)
    assert (found.total_mib, found.used_mib, found.available_mib) == (expected, 1024.0, expected - 1024.0)


def below(group: str, files: dict[str, str]) -> dict[str, str]:
    return {f"{group}/{name}" if name.startswith("memory.") else name: text for name, text in files.items()}


def test_a_group_above_may_be_full_before_the_tightest_is(tmp_path: Path) -> None:
    """Such as a job's group, whose other steps have taken most of it."""
    files = {**below("job", v2(str(6 * GIB), 6 * GIB)), **below("job/step", v2(str(4 * GIB), 2 * GIB))}
    proc, cgroup = trees(tmp_path, "0::/job/step\n", files)
    write(proc, {"meminfo": MEMINFO})
    found = usable_memory(memory_limit(proc, cgroup), proc)
    assert (found.total_mib, found.used_mib, found.available_mib) == (4096, 1024, 1024)


@pytest.mark.parametrize("meminfo", [None, "", "MemTotal: many kB\n", "MemTotal:\n"])
def test_memory_that_cannot_be_read_is_an_error(tmp_path: Path, meminfo: str | None) -> None:
    if meminfo is not None:
        write(tmp_path, {"meminfo": meminfo})
    with pytest.raises((OSError, LookupError, ValueError)):
        usable_memory(None, tmp_path)


def test_a_stat_file_without_its_key_is_an_error_not_zero(tmp_path: Path) -> None:
    files = {"cgroup.controllers": "cpu\n", "cpu.max": "50000 100000\n", "cpu.stat": "nr_periods 0\n"}
    quota = cpu_quota(*trees(tmp_path, "0::/\n", files))
    assert quota is not None
    with pytest.raises(ValueError, match="usage_usec"):
        quota.busy_s()


def test_killings_for_lack_of_memory_are_the_host_s_or_else_the_own_group_s(tmp_path: Path) -> None:
    events = "low 0\nhigh 0\noom 3\noom_kill 2\n"
    files = {"cgroup.controllers": "memory\n", "own/memory.events": events}
    proc, cgroup = trees(tmp_path, "0::/own\n", files)
    assert oom_kills(proc, cgroup) == 2
    write(proc, {"vmstat": "nr_free_pages 17\noom_kill 5\n"})
    assert oom_kills(proc, cgroup) == 5


def test_without_a_count_nobody_knows_of_killings(tmp_path: Path) -> None:
    proc, cgroup = trees(tmp_path, "0::/\n", {})
    write(proc, {"vmstat": "nr_free_pages 17\n"})
    assert oom_kills(proc, cgroup) is None


def test_each_group_that_limits_threads_is_told_with_its_own_count(tmp_path: Path) -> None:
    """Not one without a limit, nor one whose threads nobody counts."""
    files = {
        "cgroup.controllers": "pids\n",
        "a/pids.max": "500\n",
        "a/pids.current": "120\n",
        "a/b/pids.max": "max\n",
        "a/b/pids.current": "7\n",
        "a/b/c/pids.max": "60\n",
    }
    proc, cgroup = trees(tmp_path, "0::/a/b/c\n", files)
    assert pids_limits(proc, cgroup) == [PidsLimit(500, 120, cgroup / "a" / "pids.max")]
