"""Which SKU file describes a card, by the name that NVML gives it."""

import re
from collections.abc import Mapping

from rigproof.profiles.models import Sku

_VENDOR = frozenset({"nvidia", "corporation", "geforce", "tesla"})
_MEMORY_KIND = re.compile(r"(hbm|gddr)\d\w*")
_MEMORY_SIZE = re.compile(r"(\d+)(gb|gib)")
_SIZE_TOLERANCE = 0.1  # a printed size and what the driver shows differ by a few percent


def match_sku(nvml_name: str, skus: Mapping[str, Sku]) -> str | None:
    """The stem of the SKU that `nvml_name` means, or None.

    The same name, without case, comes first; then the longest that `nvml_name` holds whole. A word beyond it
    that could tell a different model (Ti, SUPER, Laptop, D, NVL, MIG, …) is no match: only the vendor's words
    and the memory's kind and size may be added or left out.
    """
    wanted = _words(nvml_name)
    best: tuple[bool, int, str] | None = None
    for stem in sorted(skus):
        for known in map(_words, skus[stem].nvml_names):
            if known == wanted or _holds(wanted, known, skus[stem].memory_gib):
                rank = (known == wanted, len(known), stem)
                best = rank if best is None or rank[:2] > best[:2] else best
    return best[2] if best else None


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
    """Whether a word beyond the model's name tells no other model."""
    size = _MEMORY_SIZE.fullmatch(word)
    if size:
        return abs(int(size[1]) - memory_gib) <= _SIZE_TOLERANCE * memory_gib
    return _MEMORY_KIND.fullmatch(word) is not None
