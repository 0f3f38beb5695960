"""What this host, or the container on it, offers to a GPU's programs besides the GPU."""

import importlib.util
import os
import re
from dataclasses import dataclass
from pathlib import Path

from rigproof.host import proc
from rigproof.host.proc import PROC

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - not written to
MODULES = Path("/sys/module")
GIB = 2**30
CUDA_LINE = re.compile(r"^cuda\b[^=]*=\s*['\"](\d+\.\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Offers:
    """What a GPU's programs find here; a field is None if it could not be read."""

    host_cpus: int | None  # of the host, whatever this process may use of them
    host_ram_gib: float | None
    shm_gib: float | None  # size of /dev/shm, through which processes and NCCL exchange data
    nouveau: bool | None  # whether the kernel has loaded the driver that rivals NVIDIA's
    torch_cuda: str | None  # the CUDA that torch was built for, such as "13.0"; None also without CUDA


def offers(proc_root: Path = PROC, shared_memory: Path = SHARED_MEMORY, modules: Path = MODULES) -> Offers:
    """Read the host's offers without loading torch."""
    return Offers(
        os.cpu_count(),
        _ram_gib(proc_root),
        _size_gib(shared_memory),
        _loaded(modules, "nouveau"),
        torch_cuda(),
    )


def _ram_gib(proc_root: Path) -> float | None:
    try:
        return proc.memory(proc_root).total_mib / 1024
    except (OSError, LookupError, ValueError):
        return None


def _size_gib(folder: Path) -> float | None:
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_blocks * found.f_frsize / GIB


def _loaded(modules: Path, name: str) -> bool | None:
    return (modules / name).is_dir() if modules.is_dir() else None


def torch_cuda() -> str | None:
    """The CUDA that the installed torch was built for, from its version file."""
    try:
        found = importlib.util.find_spec("torch")
        if found is None or found.origin is None:
            return None
        text = (Path(found.origin).parent / "version.py").read_text(encoding="utf-8")
    except (OSError, ValueError, ImportError):
        return None
    stated = CUDA_LINE.search(text)
    return None if stated is None else stated[1]
