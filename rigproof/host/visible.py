"""Which GPUs CUDA_VISIBLE_DEVICES leaves visible, by CUDA's rules with indices in PCI bus order."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from rigproof.host.proc import PROC
from rigproof.records.identity import GpuIdentity

NAME = "CUDA_VISIBLE_DEVICES"
NAMES = ("GPU-", "MIG-")  # how entries begin that name a device by its UUID

ParentOf = Callable[[str], str | None]  # a MIG device's UUID to that of its GPU, if there is one


def own_setting() -> str | None:
    """The setting of this process; None if not set."""
    value = os.environ.get(NAME)
    return None if value is None else _text(os.fsencode(value))


def parents_setting(proc: Path = PROC) -> str | None:
    """The setting that this process's parent was started with; our own if that cannot be read."""
    try:
        entries = (proc / str(os.getppid()) / "environ").read_bytes().split(b"\0")
    except OSError:
        return own_setting()
    for entry in entries:
        key, _, value = entry.partition(b"=")
        if key == NAME.encode():
            return _text(value)
    return None


def visible_gpus(
    gpus: Sequence[GpuIdentity], setting: str | None, parent_of: ParentOf
) -> tuple[GpuIdentity, ...]:
    """The GPUs that `setting` names, in NVML order; all of them if it is None (not set).

    Entries are indices, or UUIDs, also abbreviated to their beginning. As in CUDA (programming guide,
    environment variables), an entry that cannot be resolved ends the list: "-1", an index too high, a UUID of
    no GPU or of several. "" names none, and so does a list that names one GPU twice. A MIG device, as
    `MIG-GPU-<uuid>/…` (before driver 470) or as `MIG-<uuid>` of its own, stands for its parent GPU; several
    of one parent are fine.
    """
    if setting is None:
        return tuple(gpus)
    named: dict[str, bool] = {}  # UUID to whether a MIG device named it
    for entry in map(str.strip, setting.split(",")):
        mig = entry.startswith("MIG-")
        gpu = _resolve(gpus, (_parent(entry, parent_of) or "") if mig else entry)
        if gpu is None:
            break
        if gpu.uuid in named and not (mig and named[gpu.uuid]):
            return ()
        named[gpu.uuid] = mig
    return tuple(gpu for gpu in gpus if gpu.uuid in named)


def unresolved(
    gpus: Sequence[GpuIdentity], setting: str | None, visible: Sequence[GpuIdentity]
) -> str | None:
    """Why a `setting` that means to name a GPU leaves none of `gpus` visible; None if that is not so.

    "", "-1", and words such as "NoDevFiles" hide all GPUs on purpose.
    """
    first = (setting or "").partition(",")[0].strip()
    if visible or not gpus or not (_is_index(first) or first.startswith(NAMES)):
        return None
    listed = ", ".join(gpu.uuid for gpu in gpus)
    return f"{NAME}={setting} names no GPU here, or one of them twice; unset it, or name one of {listed}"


def _text(value: bytes) -> str:
    """A setting that can be written anywhere; what is no UTF-8 names no GPU in any case."""
    return value.decode(errors="replace")


def _parent(mig: str, parent_of: ParentOf) -> str | None:
    """The UUID of the GPU that a MIG device is a part of."""
    uuid = mig.removeprefix("MIG-").partition("/")[0]
    if uuid.startswith("GPU-"):
        return uuid
    return parent_of(mig) if mig.isascii() else None


def _is_index(entry: str) -> bool:
    return entry.isascii() and entry.isdigit()


def _resolve(gpus: Sequence[GpuIdentity], entry: str) -> GpuIdentity | None:
    if _is_index(entry):
        return next((gpu for gpu in gpus if gpu.index == int(entry)), None)
    if not entry.startswith("GPU-"):
        return None
    matches = [gpu for gpu in gpus if gpu.uuid.startswith(entry)]
    return matches[0] if len(matches) == 1 else None
