"""Which GPUs CUDA_VISIBLE_DEVICES leaves visible, by CUDA's rules with indices in PCI bus order."""

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from rigproof.host.proc import PROC
from rigproof.records.identity import GpuIdentity
from rigproof.records.message_text import one_line
from rigproof.records.verdict import count_of

NAME = "CUDA_VISIBLE_DEVICES"
NAMES = ("GPU-", "MIG-")  # how entries begin that name a device by its UUID
INDEX = re.compile(r"0|[1-9][0-9]*")
END = "-1"  # ends the list on purpose: NVIDIA's own example for an index that no GPU has
HIDING = frozenset({"", END, "none", "void", "nodevfiles"})  # whole values, in any case, that hide every GPU
# Of a container, read when it was started (NVIDIA Container Toolkit, Docker Specialized Configurations).
ORDER = "CUDA_DEVICE_ORDER"
BY_BUS = "PCI_BUS_ID"  # its default, FASTEST_FIRST, is no other order where all cards are of one model
CONTAINER_NAME = "NVIDIA_VISIBLE_DEVICES"
SHOWN_UUIDS = 8  # in a message

ParentOf = Callable[[str], str | None]  # a MIG device's UUID to that of its GPU, if there is one


def own_setting() -> str | None:
    """CUDA_VISIBLE_DEVICES of this process; None if not set."""
    value = os.environ.get(NAME)
    return None if value is None else _text(os.fsencode(value))


def parents_setting(proc: Path = PROC) -> str | None:
    """CUDA_VISIBLE_DEVICES that this process's parent was started with; our own if that cannot be read."""
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
        matches = _matches(gpus, entry, parent_of)
        if len(matches) != 1:
            break
        uuid, mig = matches[0].uuid, entry.startswith("MIG-")
        if uuid in named and not (mig and named[uuid]):
            return ()
        named[uuid] = mig
    return tuple(gpu for gpu in gpus if gpu.uuid in named)


def by_speed(setting: str | None, order: str | None) -> bool:
    """Whether CUDA counts from the fastest card, so that nobody but CUDA knows which card an index means."""
    entries = map(str.strip, (setting or "").split(","))
    return order != BY_BUS and any(INDEX.fullmatch(one) for one in entries)


def hides_all(setting: str | None) -> bool:
    """Whether `setting` hides every GPU on purpose: "", "-1" (also before others), "none", "NoDevFiles"."""
    if setting is None:
        return False
    return setting.strip().lower() in HIDING or setting.partition(",")[0].strip() == END


def container_hides(*, driver_there: bool) -> str | None:
    """NVIDIA_VISIBLE_DEVICES, if it kept every GPU out of this container on purpose; else None.

    "none" leaves the driver's files in the container, "void" does not. Where the driver is there
    (`driver_there`), "void" says nothing: a container that got its GPUs through CDI has it too.
    """
    value = os.environ.get(CONTAINER_NAME, "")
    return shown(value, CONTAINER_NAME) if value in ("none", *([] if driver_there else ["void"])) else None


def wrong_setting(gpus: Sequence[GpuIdentity], setting: str | None, parent_of: ParentOf) -> str | None:
    """Why CUDA would not show what `setting` means, and what is accepted; None if nothing is wrong with it.

    `gpus` are all GPUs here; without any, only entries that are no index and no UUID are wrong.
    """
    if setting is None or hides_all(setting):
        return None
    entries = [entry.strip() for entry in setting.split(",")]
    while len(entries) > 1 and not entries[-1]:
        entries.pop()
    entries = entries[: entries.index(END)] if END in entries else entries
    named: dict[str, bool] = {}  # UUID to whether a MIG device named it
    for entry in entries:
        if not (INDEX.fullmatch(entry) or entry.startswith(NAMES)):
            return _refusal(gpus, setting, f"'{one_line(entry)}' is neither the index nor the UUID of a GPU")
        matches = _matches(gpus, entry, parent_of)
        if gpus and len(matches) != 1:
            what = (
                f"the UUIDs of {count_of(len(matches), 'GPUs')} begin with it"
                if matches
                else "no GPU here has it"
            )
            return _refusal(gpus, setting, f"'{one_line(entry)}': {what}")
        for gpu in matches:
            mig = entry.startswith("MIG-")
            if gpu.uuid in named and not (mig and named[gpu.uuid]):
                return _refusal(gpus, setting, f"it names {gpu.uuid} twice, and CUDA then shows no GPU")
            named[gpu.uuid] = mig
    return None


def shown(setting: str, name: str = NAME) -> str:
    """A setting as people read it: `CUDA_VISIBLE_DEVICES=0,1`."""
    return f"{name}={one_line(setting)}" if setting.strip() else f'{name}="{one_line(setting)}"'


def _refusal(gpus: Sequence[GpuIdentity], setting: str, what: str) -> str:
    accepted = "indices such as 0,1 or UUIDs such as GPU-8932f937"
    if gpus:
        uuids = [gpu.uuid for gpu in gpus[:SHOWN_UUIDS]]
        more = [f"{len(gpus) - SHOWN_UUIDS} more"] if len(gpus) > SHOWN_UUIDS else []
        indices = ",".join(str(gpu.index) for gpu in gpus[:SHOWN_UUIDS])
        accepted = f"indices of the GPUs here ({indices}) or their UUIDs ({', '.join([*uuids, *more])})"
    return (
        f"{shown(setting)}: {what}; unset it, or write {accepted}, separated by commas, or {END} to hide "
        "every GPU on purpose"
    )


def _text(value: bytes) -> str:
    """A setting as text that can be written anywhere; what is no UTF-8 names no GPU in any case."""
    return value.decode(errors="replace")


def _parent(mig: str, parent_of: ParentOf) -> str | None:
    """The UUID of the GPU that a MIG device is a part of."""
    uuid = mig.removeprefix("MIG-").partition("/")[0]
    if uuid.startswith("GPU-"):
        return uuid
    return parent_of(mig) if mig.isascii() else None


def _matches(gpus: Sequence[GpuIdentity], entry: str, parent_of: ParentOf) -> list[GpuIdentity]:
    """All GPUs that an entry can mean: exactly one, unless the entry is wrong."""
    if INDEX.fullmatch(entry):
        return [gpu for gpu in gpus if str(gpu.index) == entry]
    uuid = (_parent(entry, parent_of) or "") if entry.startswith("MIG-") else entry
    return [gpu for gpu in gpus if gpu.uuid.startswith(uuid)] if uuid.startswith("GPU-") else []
