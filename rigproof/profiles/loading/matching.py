"""Finds the SKU file that describes a card, by its NVML name, and the promised GPU that the card is."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from rigproof.profiles.errors import VENDOR
from rigproof.profiles.loading.loaded import PromisedDevice
from rigproof.profiles.tables.sku import Sku
from rigproof.records.identity import GpuIdentity

SkuOf = Callable[[GpuIdentity], str | None]  # a card that was found to its SKU's file stem

_MEMORY_KIND = re.compile(r"(hbm|gddr)\d\w*")
_MEMORY_SIZE = re.compile(r"(\d+)(gb|gib)")
_SIZE_TOLERANCE = 0.1  # a printed size and what the driver shows differ by a few percent
_MORE_MEMORY = 1.02  # times what its SKU file states: more than that is another model's memory


def sku_of(skus: Mapping[str, Sku]) -> SkuOf:
    """A function that finds the SKU of a card among `skus`, by its name and memory (see `match_sku`)."""
    return lambda gpu: match_sku(gpu.name, skus, gpu.memory_total_mib / 1024)


def match_sku(nvml_name: str, skus: Mapping[str, Sku], memory_gib: float = 0.0) -> str | None:
    """The file stem of the SKU of a card that NVML calls `nvml_name`; None if no SKU file names it.

    A SKU's name that equals `nvml_name`, ignoring case, comes first. Otherwise it is the longest name whose
    words `nvml_name` contains in a row; the vendor's words (NVIDIA, GeForce, …) do not count. `nvml_name` may
    add the memory's kind, and a size that is that of the SKU. Any other added word (Ti, SUPER, Laptop, D,
    NVL, MIG, …) could mean a different model, so there is no match.

    Models of one name differ in `memory_gib`, the card's memory (an RTX 3060 has 12 or 8 GB): the least that
    holds all of it. So a card that lacks some is not taken for the smaller model, and one with more than any
    of them was rebuilt and is none of them.
    """
    wanted = _words(nvml_name)
    ranks: dict[str, tuple[bool, int]] = {}
    for stem in sorted(skus):
        for known in map(_words, skus[stem].nvml_names):
            if known == wanted or _holds(wanted, known, skus[stem].memory_gib):
                ranks[stem] = max(ranks.get(stem, (False, 0)), (known == wanted, len(known)))
    best = [stem for stem, rank in ranks.items() if rank == max(ranks.values())]
    if len(best) > 1:
        best = [stem for stem in best if memory_gib <= _MORE_MEMORY * skus[stem].memory_gib]
    return min(best, key=lambda stem: skus[stem].memory_gib, default=None)


def assign_gpus(
    promised: Sequence[PromisedDevice], found: Sequence[GpuIdentity], find_sku: SkuOf
) -> dict[str, GpuIdentity]:
    """Assign a node's cards to its promised GPUs. Returns the card of each subject that has one, by subject.

    `promised` are one node's CUDA devices in the profile's order, `found` that node's cards in NVML order.
    The cards that are returned have `subject` and `sku` filled in. A promised GPU without a card is missing.

    Promised GPUs with a pinned UUID are assigned first, then those with a SKU, then those of unknown SKU,
    each in NVML order. Cards that are left go to promised SKUs that were not found, so that the verdict can
    name the card that is there instead. No other card takes the place of a pinned UUID that is missing.

    This function is called to complete a profile, and once more in the run with the completed profile. This
    order makes both agree: the second time, every subject gets a card of the SKU that it was planned for.
    """
    free = {gpu.uuid: gpu for gpu in found}
    skus = {gpu.uuid: find_sku(gpu) for gpu in found}
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
    model = tuple(word for word in known if word not in VENDOR)
    rest = tuple(word for word in wanted if word not in VENDOR)
    for start in range(len(rest) - len(model) + 1):
        if model and rest[start : start + len(model)] == model:
            added = rest[:start] + rest[start + len(model) :]
            return all(_harmless(word, memory_gib) for word in added)
    return False


def _harmless(word: str, memory_gib: float) -> bool:
    """Whether a word beside the model's name is only the memory's kind, or the size that the SKU has."""
    size = _MEMORY_SIZE.fullmatch(word)
    if size:
        return abs(int(size[1]) - memory_gib) <= _SIZE_TOLERANCE * memory_gib
    return _MEMORY_KIND.fullmatch(word) is not None
