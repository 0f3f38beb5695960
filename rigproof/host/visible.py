"""Which GPUs CUDA_VISIBLE_DEVICES leaves visible, by CUDA's rules with indices in PCI bus order."""

from collections.abc import Sequence

from rigproof.records.identity import GpuIdentity


def visible_gpus(gpus: Sequence[GpuIdentity], setting: str | None) -> tuple[GpuIdentity, ...]:
    """The GPUs that `setting` names, in NVML order; all of them where it is None (not set).

    Entries are indices, or UUIDs of which the beginning is enough. As in CUDA (programming guide,
    environment variables), what cannot be resolved ends the list: "-1", an index too high, a UUID of
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
