"""The host's CPUs and memory from /proc, its boot id, and what this process holds of its memory."""

import contextlib
import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class CoreTimes:
    """CPU seconds of one logical CPU since boot."""

    busy_s: float  # including what was stolen: that time is not available here
    idle_s: float  # idle and waiting for I/O: both are available to others
    stolen_s: float = 0.0  # taken by a hypervisor while something here wanted to run


def core_times(proc_root: Path) -> dict[int, CoreTimes]:
    """Times of every logical CPU that is online, by number.

    Columns of /proc/stat (man 5 proc): user nice system idle iowait irq softirq steal guest guest_nice.
    Guest time is in user and nice already.

    Raises:
        OSError: if /proc/stat cannot be read.
    """
    cores = {}
    for line in (proc_root / "stat").read_text().splitlines():
        name, *columns = line.split()
        if not name.startswith("cpu"):
            break  # CPUs come first; the interrupts below are long
        if name == "cpu":
            continue
        ticks = [int(column) for column in columns[:8]] + [0] * (8 - len(columns))
        idle = ticks[3] + ticks[4]
        busy = sum(ticks) - idle
        cores[int(name[3:])] = CoreTimes(busy / TICKS_PER_S, idle / TICKS_PER_S, ticks[7] / TICKS_PER_S)
    return cores


def busy_percent(before: CoreTimes, after: CoreTimes) -> float | None:
    """Share of the time in between that the CPU was busy; None if none passed.

    Counters of iowait and steal can step back (man 5 proc): such a step counts as nothing.
    """
    busy_s = max(0.0, after.busy_s - before.busy_s)
    total_s = busy_s + max(0.0, after.idle_s - before.idle_s)
    return 100 * (busy_s / total_s) if total_s > 0 else None


PRESSURE = "pressure/cpu"


def pressure_s(file: Path) -> float | None:
    """Seconds so far in which something waited for a CPU; None if this kernel does not count them.

    Line `some` of /proc/pressure/cpu or a cgroup's cpu.pressure, `total` in µs (kernel: accounting/psi.rst).
    """
    try:
        for line in file.read_text(encoding="ascii").splitlines():
            if line.startswith("some "):
                return int(line.rpartition("total=")[2]) * 1e-6
    except (OSError, ValueError):
        pass
    return None


@dataclass(frozen=True, slots=True)
class Memory:
    """RAM and swap of the host, or of what this process may use of it, MiB."""

    total_mib: float
    used_mib: float
    available_mib: float
    swap_used_mib: float


def memory(proc_root: Path) -> Memory:
    """The content of /proc/meminfo (its kB are KiB).

    Raises:
        OSError, LookupError, ValueError: if the file or one of its lines is missing, or is not a number.
    """
    entries: Mapping[str, float] = {
        name: int(value.split()[0]) / 1024
        for name, _, value in (
            line.partition(":") for line in (proc_root / "meminfo").read_text().splitlines() if ":" in line
        )
    }
    return Memory(
        total_mib=entries["MemTotal"],
        used_mib=entries["MemTotal"] - entries["MemAvailable"],
        available_mib=entries["MemAvailable"],
        swap_used_mib=entries["SwapTotal"] - entries["SwapFree"],
    )


def cpu_name(proc_root: Path = PROC) -> str:
    """The CPU's model name as /proc/cpuinfo has it, else the architecture."""
    with contextlib.suppress(OSError):
        for line in (proc_root / "cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


@dataclass(frozen=True, slots=True)
class OwnMemory:
    """Memory of this process in bytes, as /proc/self/statm counts it."""

    mapped: int  # what RLIMIT_AS limits
    resident: int


def own_memory(proc_root: Path = PROC) -> OwnMemory:
    """This process's memory. OSError if it cannot be read."""
    mapped, resident = (proc_root / "self/statm").read_text(encoding="ascii").split()[:2]
    return OwnMemory(int(mapped) * PAGE_BYTES, int(resident) * PAGE_BYTES)


def own_data_bytes(proc_root: Path = PROC) -> int:
    """Memory that this process has mapped for data, as RLIMIT_DATA counts it (proc(5): VmData).

    Raises:
        OSError, RuntimeError: if it cannot be read, or does not exist.
    """
    status = proc_root / "self/status"
    for line in status.read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"{status} has no VmData: this process's memory cannot be capped")


def own_files(proc_root: Path = PROC) -> Iterator[str]:
    """The files mapped by this process, such as its libraries, once for each mapping.

    Raises:
        OSError: if they cannot be read.
    """
    for line in (proc_root / "self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        if "/" in line:
            yield line[line.find("/") :]


def waited_s(proc_root: Path = PROC, *, pid: int | None = None) -> float | None:
    """Seconds for which this thread, or all threads of a process, were ready and had no CPU.

    The second figure of schedstat (kernel: Documentation/scheduler/sched-stats); None if it is not told.
    """
    one = proc_root / "thread-self" / "schedstat"
    paths = [one] if pid is None else [*(proc_root / str(pid) / "task").glob("*/schedstat")]
    try:
        return sum(int(path.read_text().split()[1]) for path in paths) / 1e9 if paths else None
    except (OSError, ValueError, IndexError):
        return None


def load_1m(proc_root: Path) -> float | None:
    """Load average of the last minute."""
    try:
        return float((proc_root / "loadavg").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None


BOOT_ID = "sys/kernel/random/boot_id"


@dataclass(frozen=True, slots=True)
class BootId:
    """A host's boot id (random(4)), or None with the reason if the host's own cannot be read."""

    value: str | None
    reason: str = ""


def boot_id(proc_root: Path = PROC) -> BootId:
    """The id that the kernel generated when it started: a new one after each start.

    LXC and systemd-nspawn mount one of their own over it, which changes with each start of the container
    and says nothing about the host.
    """
    try:
        text = (proc_root / BOOT_ID).read_text(encoding="ascii").strip()
        value = str(UUID(text))
    except (OSError, ValueError) as error:
        return BootId(None, f"/proc/{BOOT_ID} cannot be read here: {error}")
    try:
        mounts = (proc_root / "self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        mounts = []
    if any(f"/proc/{BOOT_ID}" in line.split()[4:5] for line in mounts):
        return BootId(None, f"/proc/{BOOT_ID} is this container's own here, not the host's")
    return BootId(value)
