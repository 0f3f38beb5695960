"""Limits on CPU, memory and threads of the cgroup that this process is in: version 2, or version 1.

A limit can be set on the process's own group or on any group above it: the tightest one counts. In a
container the groups above are not visible, and the path in /proc/self/cgroup may be the host's: then
the group mounted at the root is the container's own.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from rigproof.host import proc
from rigproof.host.proc import PROC

CGROUP = Path("/sys/fs/cgroup")
MIB = 2**20
UNLIMITED_BYTES = 2**62  # version 1 has the highest number of pages for "no limit"


@dataclass(frozen=True, slots=True)
class CpuQuota:
    """CPU seconds per second that a group may use, and the file that has its usage."""

    cpus: float
    usage_file: Path
    version: int

    def busy_s(self) -> float:
        """CPU seconds that all processes of the group have used.

        Raises:
            OSError, ValueError: if the file cannot be read.
        """
        if self.version == 1:
            return int(self.usage_file.read_text()) * 1e-9  # cpuacct.usage, ns
        return _entry(self.usage_file, "usage_usec") * 1e-6


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """RAM that a group may use, and the files that have its usage.

    `others`: looser limits, of groups below and above it. One above may be full first, by its other members.
    """

    limit_mib: float
    usage_file: Path
    stat_file: Path
    inactive_key: str  # file cache that the kernel can reclaim
    others: tuple["MemoryLimit", ...] = ()

    def used_mib(self) -> float:
        """Memory that is used and cannot simply be reclaimed.

        Raises:
            OSError, ValueError: if the files cannot be read.
        """
        cache = _entry(self.stat_file, self.inactive_key)
        return max(0, int(self.usage_file.read_text()) - cache) / MIB

    def free_mib(self) -> float:
        """Memory that each of these groups still allows.

        Raises:
            OSError, ValueError: if one of the files cannot be read.
        """
        own_mib = max(0.0, self.limit_mib - self.used_mib())
        return min([own_mib, *(other.free_mib() for other in self.others)])


@dataclass(frozen=True, slots=True)
class PidsLimit:
    """How many threads the processes of a group may have together (`pids.max`), and how many they have."""

    limit: int
    used: int
    file: Path


def _entry(file: Path, key: str) -> int:
    """The number of a key, in a file of `key number` lines."""
    for line in file.read_text().splitlines():
        name, _, value = line.partition(" ")
        if name == key:
            return int(value)
    raise ValueError(f"{file} has no {key}")


def cpu_quota(proc_root: Path = PROC, cgroup_root: Path = CGROUP) -> CpuQuota | None:
    """The tightest CPU quota for this process; None if there is none."""
    found = []
    for group in _groups(proc_root, cgroup_root, "cpu"):
        if _is_v2(cgroup_root):
            cpus, usage_file, version = _v2_cpus(group), group / "cpu.stat", 2
        else:
            cpus, usage_file, version = _v1_cpus(group), _v1_usage(proc_root, cgroup_root, group), 1
        if cpus is not None:
            found.append(CpuQuota(cpus, usage_file, version))
    return min(found, key=lambda quota: quota.cpus, default=None)


def cpu_groups(proc_root: Path = PROC, cgroup_root: Path = CGROUP) -> tuple[Path, ...]:
    """This process's group in the tree of the CPU controller, and every one above it that can be seen."""
    return tuple(_groups(proc_root, cgroup_root, "cpu"))


def throttled_s(group: Path) -> float | None:
    """CPU seconds that a group's quota withheld from its processes so far; None if it cannot have one.

    Of cpu.stat (kernel: scheduler/sched-bwc.rst): `throttled_usec` in version 2, `throttled_time` in ns in 1.
    The waits of all CPUs are added up.
    """
    for key, unit_s in (("throttled_usec", 1e-6), ("throttled_time", 1e-9)):
        with contextlib.suppress(OSError, ValueError):
            return _entry(group / "cpu.stat", key) * unit_s
    return None


def memory_limit(proc_root: Path = PROC, cgroup_root: Path = CGROUP) -> MemoryLimit | None:
    """The tightest memory limit for this process, with the others; None if there is none.

    In version 2 `memory.high` is one too: whoever exceeds it is not ended, but slowed down almost to a stop.
    """
    if _is_v2(cgroup_root):
        limits, usage_name, inactive_key = ["memory.max", "memory.high"], "memory.current", "inactive_file"
    else:
        limits, usage_name = ["memory.limit_in_bytes"], "memory.usage_in_bytes"
        inactive_key = "total_inactive_file"
    found = []
    for group in _groups(proc_root, cgroup_root, "memory"):
        read = (_number(group / name) for name in limits)
        stated = [limit for limit in read if limit is not None and limit < UNLIMITED_BYTES]
        if stated:
            files = (group / usage_name, group / "memory.stat")
            found.append(MemoryLimit(min(stated) / MIB, *files, inactive_key))
    if not found:
        return None
    tightest = min(found, key=lambda group: group.limit_mib)
    return replace(tightest, others=tuple(group for group in found if group is not tightest))


def pids_limits(proc_root: Path = PROC, cgroup_root: Path = CGROUP) -> list[PidsLimit]:
    """The limits on threads of this process's group and of those above it; each counts its own members."""
    found = []
    for group in _groups(proc_root, cgroup_root, "pids"):
        limit, used = _number(group / "pids.max"), _number(group / "pids.current")
        if limit is not None and used is not None:
            found.append(PidsLimit(limit, used, group / "pids.max"))
    return found


def usable_memory(limit: MemoryLimit | None, proc_root: Path = PROC) -> proc.Memory:
    """Memory that this process can use: the host's, or its group's if `limit` is lower; swap is the host's.

    Raises:
        OSError, LookupError, ValueError: if one of the files cannot be read.
    """
    host = proc.memory(proc_root)
    if limit is None or limit.limit_mib >= host.total_mib:
        return host
    available_mib = min(host.available_mib, limit.free_mib())
    return proc.Memory(limit.limit_mib, limit.used_mib(), available_mib, host.swap_used_mib)


def oom_kills(proc_root: Path = PROC, cgroup_root: Path = CGROUP) -> int | None:
    """How many processes the kernel's OOM killer has ended since the host started; None if it cannot be read.

    Of the whole host; if that is not readable, of this process's own cgroup (version 2).
    """
    for file in (proc_root / "vmstat", next(_groups(proc_root, cgroup_root, "memory")) / "memory.events"):
        with contextlib.suppress(OSError, ValueError):
            return _entry(file, "oom_kill")
    return None


def _is_v2(cgroup_root: Path) -> bool:
    return (cgroup_root / "cgroup.controllers").exists()


def _groups(proc_root: Path, cgroup_root: Path, controller: str) -> Iterator[Path]:
    """This process's group in that controller's tree, then every one above it."""
    mount = cgroup_root if _is_v2(cgroup_root) else _v1_mount(cgroup_root, controller)
    group = mount / _own_path(proc_root, "" if mount == cgroup_root else controller).lstrip("/")
    if not group.is_dir():  # the path is the host's, the mount is this container's
        group = mount
    while True:
        yield group
        if group == mount:
            return
        group = group.parent


def _v1_mount(cgroup_root: Path, controller: str) -> Path:
    """Where version 1 mounts a controller: "cpu" and "cpuacct" are mounted separately or together."""
    for name in (controller, "cpu,cpuacct", "cpuacct,cpu"):
        if (cgroup_root / name).is_dir():
            return cgroup_root / name
    return cgroup_root / controller


def _v1_usage(proc_root: Path, cgroup_root: Path, group: Path) -> Path:
    """The file with the CPU time of a group of the "cpu" tree: that of the same group in the "cpuacct" tree.

    If the "cpuacct" tree has no such group, it is the file of this process's own group there.
    """
    same = _v1_mount(cgroup_root, "cpuacct") / group.relative_to(_v1_mount(cgroup_root, "cpu"))
    own = next(_groups(proc_root, cgroup_root, "cpuacct"))
    return (same if same.is_dir() else own) / "cpuacct.usage"


def _own_path(proc_root: Path, controller: str) -> str:
    """This process's group as /proc/self/cgroup has it; empty if it is not there.

    Lines are `0::PATH` in version 2 and `N:CONTROLLERS:PATH` in version 1.
    """
    try:
        lines = (proc_root / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        parts = line.split(":", 2)
        if len(parts) == 3 and controller in parts[1].split(","):
            path = os.path.normpath(parts[2])
            return "" if ".." in path else path  # outside of this cgroup namespace
    return ""


def _v2_cpus(group: Path) -> float | None:
    """The CPUs that `cpu.max` allows ("QUOTA PERIOD" or "max PERIOD", in µs); None if there is no limit."""
    try:
        quota, period = (group / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        return None


def _v1_cpus(group: Path) -> float | None:
    """The CPUs that quota over period (both in µs) allow; None if there is no quota (-1)."""
    quota, period = _number(group / "cpu.cfs_quota_us"), _number(group / "cpu.cfs_period_us")
    return quota / period if quota is not None and period is not None and quota > 0 else None


def _number(file: Path) -> int | None:
    """The file's number; None if there is no such file, or its content is "max"."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None
