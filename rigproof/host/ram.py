"""What the kernel knows of this host's RAM beside its size: the caches before it, and where pages are."""

from pathlib import Path

from rigproof.host.proc import PAGE_BYTES, PROC

CPUS = Path("/sys/devices/system/cpu")
OOM_SCORE = PROC / "self/oom_score_adj"
PAGE_PRESENT, PAGE_NUMBER = 1 << 63, (1 << 55) - 1  # of an entry of pagemap (proc(5))


def cache_mib(cpus: Path = CPUS) -> float:
    """Size of all last-level caches together, as sysfs lists them; 0 if it lists none."""
    found: dict[tuple[int, str], float] = {}
    for index in cpus.glob("cpu[0-9]*/cache/index[0-9]*"):
        try:
            level, size = (int((index / name).read_text().rstrip("K\n")) for name in ("level", "size"))
            found[level, (index / "shared_cpu_list").read_text()] = size / 1024
        except (OSError, ValueError):
            continue
    last = max((level for level, _ in found), default=0)
    return sum(mib for (level, _), mib in found.items() if level == last)


def physical_address(virtual: int, pagemap: Path = PROC / "self/pagemap") -> int | None:
    """The physical address of a virtual one of this process (proc(5)); None if only root may know it."""
    try:
        with pagemap.open("rb", buffering=0) as file:
            file.seek(virtual // PAGE_BYTES * 8)
            entry = int.from_bytes(file.read(8), "little")
    except (OSError, ValueError):
        return None
    number = entry & PAGE_NUMBER
    if not entry & PAGE_PRESENT or not number:
        return None
    return number * PAGE_BYTES + virtual % PAGE_BYTES


def give_way() -> None:
    """Have the kernel end this process first if memory runs out (proc(5): oom_score_adj). OSError if not."""
    OOM_SCORE.write_bytes(b"1000")
