"""Which GPUs CUDA_VISIBLE_DEVICES leaves visible, by CUDA's rules with indices in PCI bus order."""

import os
from collections.abc import Sequence
from pathlib import Path

from rigproof.host.proc import PROC
from rigproof.records.identity import GpuIdentity

NAME = "CUDA_VISIBLE_DEVICES"


def own_setting() -> str | None:
    """The setting of this process; None if not set."""
    return os.environ.get(NAME)


def parents_setting(proc: Path = PROC) -> str | None:
    """The setting that this process's parent was started with; our own if that cannot be read."""
    try:
        entries = (proc / str(os.getppid()) / "environ").read_bytes().split(b"\0")
    except OSError:
        return own_setting()
    for entry in entries:
        key, _, value = entry.partition(b"=")
        if key == NAME.encode():
            return value.decode()
    return None


def visible_gpus(gpus: Sequence[GpuIdentity], setting: str | None) -> tuple[GpuIdentity, ...]:
    """The GPUs that `setting` names, in NVML order; all of them if it is None (not set).

    Entries are indices, or UUIDs, also abbreviated to their beginning. As in CUDA (programming guide,
    environment variables), an entry that cannot be resolved ends the list: "-1", an index too high, a UUID of
    no GPU or of several. "" names none, and so does a list that names one GPU twice. An entry
    `MIG-GPU-<uuid>/…` stands for its parent GPU; several of one parent are fine.
    """
    if setting is None:
        return tuple(gpus)
    named: dict[str, bool] = {}  # UUID to whether a MIG device named it
    for entry in setting.split(","):
        mig = entry.strip().startswith("MIG-GPU-")
        gpu = _resolve(gpus, entry.strip().removeprefix("MIG-").partition("/")[0] if mig else entry.strip())
        if gpu is None:
            break
        if gpu.uuid in named and not (mig and named[gpu.uuid]):
            return ()
        named[gpu.uuid] = mig
    return tuple(gpu for gpu in gpus if gpu.uuid in named)


def _resolve(gpus: Sequence[GpuIdentity], entry: str) -> GpuIdentity | None:
    if entry.isascii() and entry.isdigit():
        return next((gpu for gpu in gpus if gpu.index == int(entry)), None)
    if not entry.startswith("GPU-"):
        return None
    matches = [gpu for gpu in gpus if gpu.uuid.startswith(entry)]
    return matches[0] if len(matches) == 1 else None
