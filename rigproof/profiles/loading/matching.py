"""Which SKU file describes a card, by its NVML name, and which promised GPU it is."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from rigproof.profiles.loading.loaded import PromisedDevice
from rigproof.profiles.tables.models import Sku
from rigproof.records.identity import GpuIdentity

SkuOf = Callable[[str], str | None]  # NVML's device name to a SKU's file stem

_VENDOR = frozenset({"nvidia", "corporation", "geforce", "tesla"})
_MEMORY_KIND = re.compile(r"(hbm|gddr)\d\w*")
_MEMORY_SIZE = re.compile(r"(\d+)(gb|gib)")
_SIZE_TOLERANCE = 0.1  # a printed size and what the driver shows differ by a few percent


def match_sku(nvml_name: str, skus: Mapping[str, Sku]) -> str | None:
    """The stem of the SKU for `nvml_name`, or None.

    The same name, ignoring case, comes first; then the longest that `nvml_name` contains as a whole. A word
    beyond it that could tell a different model (Ti, SUPER, Laptop, D, NVL, MIG, …) is no match: only the
    vendor's words and the memory's kind and size may be added or left out.
    """
    wanted = _words(nvml_name)
    best: tuple[bool, int, str] | None = None
    for stem in sorted(skus):
        for known in map(_words, skus[stem].nvml_names):
            if known == wanted or _holds(wanted, known, skus[stem].memory_gib):
                rank = (known == wanted, len(known), stem)
                best = rank if best is None or rank[:2] > best[:2] else best
    return best[2] if best else None


def assign_gpus(
    promised: Sequence[PromisedDevice], found: Sequence[GpuIdentity], sku_of: SkuOf
) -> dict[str, GpuIdentity]:
    """Promised subject to the GPU that it is, its `subject` and `sku` filled in; missing ones are left out.

    `promised` are one node's CUDA devices in the profile's order, `found` that node's GPUs in NVML order. A
    pinned UUID comes first, then the promised SKU, then those of unknown SKU, each in NVML order. What is
    left stands in the places of promised SKUs that are not there, so that the verdict can name it. A pinned
    UUID that is not there is missing: no other card takes its place.

    This function completes a profile, and in the run it assigns the completed profile's GPUs again.
    The order makes both agree: the second time, every subject gets a card of the SKU that it was planned for.
    """
    free = {gpu.uuid: gpu for gpu in found}
    skus = {gpu.uuid: sku_of(gpu.name) for gpu in found}
    assigned: dict[str, GpuIdentity] = {}

    def take(device: PromisedDevice, gpu: GpuIdentity | None) -> None:
        if gpu is not None and device.subject not in assigned:
            assigned[device.subject] = free.pop(gpu.uuid)

    for device in promised:
        if device.gpu.uuid is not None:
            take(device, free.get(device.gpu.uuid))
    loose = [device for device in promised if device.gpu.uuid is None]
    for device in loose:
        if device.sku_stem is not None:
            take(device, next((gpu for gpu in free.values() if skus[gpu.uuid] == device.sku_stem), None))
    for device in sorted(loose, key=lambda device: device.sku_stem is not None):
        if device.subject not in assigned:
            take(device, next(iter(free.values()), None))
    return {subject: replace(gpu, subject=subject, sku=skus[gpu.uuid]) for subject, gpu in assigned.items()}


def _words(name: str) -> tuple[str, ...]:
    return tuple(re.split(r"[\s_-]+", name.strip().lower()))


def _holds(wanted: tuple[str, ...], known: tuple[str, ...], memory_gib: float) -> bool:
    model = tuple(word for word in known if word not in _VENDOR)
    rest = tuple(word for word in wanted if word not in _VENDOR)
    for start in range(len(rest) - len(model) + 1):
        if model and rest[start : start + len(model)] == model:
            added = rest[:start] + rest[start + len(model) :]
            return all(_harmless(word, memory_gib) for word in added)
    return False


def _harmless(word: str, memory_gib: float) -> bool:
    """Whether a word beyond the model's name indicates no other model."""
    size = _MEMORY_SIZE.fullmatch(word)
    if size:
        return abs(int(size[1]) - memory_gib) <= _SIZE_TOLERANCE * memory_gib
    return _MEMORY_KIND.fullmatch(word) is not None
