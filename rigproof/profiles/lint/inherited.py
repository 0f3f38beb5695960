"""Finds what a rig has of the rig that it extends although it was set for other cards or machines."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rigproof.profiles.errors import problem, shown
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.loading.merge import Layer, Merged, merge

# Figures of cards, links, disks and machines. A share, a temperature or a time suits any.
# Floors in TFLOP/s are refused, by the lint of their stage.
OF_HARDWARE = re.compile(r"(limits|stages\.\w+)\.(\w+_(gbps|mbps|mhz|w)|nvlinks|pcie_generation|pcie_width)")
OF_A_MACHINE = ("address", "cpus", "ram_gib", "psu_w")


@dataclass(frozen=True)
class Inherited:
    """The values that the rig's own file leaves as a file below it states them, and what that file was for.

    `base` is the rig as that file states it, `rig` the whole one; `file` and `own` are their files.
    """

    file: str
    own: str
    base: Merged
    rig: Merged

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The dotted keys whose values come from the file."""
        return tuple(key for key, origin in self.rig.origins.items() if origin.file == self.file)

    @property
    def of_other_cards(self) -> bool:
        """Whether the rig has other cards than the file states."""
        return Counter(_cards(self.base.tree)) != Counter(_cards(self.rig.tree))

    @property
    def of_other_machines(self) -> bool:
        """Whether the rig has other nodes, or some at other addresses."""
        return _addresses(self.base) != _addresses(self.rig)

    def cards(self) -> tuple[str, str]:
        """The cards of the file and those of the rig, in words: `rtx-3090 + rtx-3070`."""
        return _in_words(self.base.tree), _in_words(self.rig.tree)


def inherited(loaded: LoadedRig) -> Iterator[Inherited]:
    """The values that a rig has of each file that it extends; none of the defaults."""
    layers: tuple[Layer, ...] = loaded.layers
    rig = merge(layers)
    for number, (file, _) in enumerate(layers[:-1], start=1):
        yield Inherited(file, layers[-1][0], merge(layers[:number]), rig)


def inherited_warnings(loaded: LoadedRig) -> Iterator[str]:
    """Figures, machines and nodes of an extended rig that may be wrong for this one."""
    for one in inherited(loaded):
        yield from _figure_warnings(one)
        yield from _machine_warnings(one)
    yield from _added_nodes(loaded)


def _figure_warnings(one: Inherited) -> Iterator[str]:
    if not (one.of_other_cards or one.of_other_machines):
        return
    others = "cards" if one.of_other_cards else "machines"
    for key in one.keys:
        if OF_HARDWARE.fullmatch(key) or (one.of_other_cards and key == "description"):
            yield problem(
                one.file,
                one.rig.origins[key].key,
                one.rig.value(key),
                f"{one.own} extends this file and has other {others}, for which this still holds",
                f"write {key} in {one.own} too, as it is for these {others}",
            )


def _machine_warnings(one: Inherited) -> Iterator[str]:
    """Values that a node still has of a machine which stands elsewhere, or has other cards, in the base."""
    below = _by_name(one.base.tree)
    for name, node in _by_name(one.rig.tree).items():
        base = below.get(name)
        if base is None:
            continue
        moved = base.get("address") != node.get("address")
        if not moved and Counter(_cards_of(base)) == Counter(_cards_of(node)):
            continue
        kept = {key: node[key] for key in OF_A_MACHINE if f"nodes.{name}.{key}" in one.keys}
        if kept:
            values = ", ".join(f"{key} = {shown(value)}" for key, value in kept.items())
            where = "at another address" if moved else "with other cards"
            yield (
                f"{one.own}: {name} stands {where} than in {one.file}, and still has of it: {values}; "
                f"if {name} is another machine, write its own values"
            )


def _added_nodes(loaded: LoadedRig) -> Iterator[str]:
    """A warning if a file adds nodes and leaves some of those below it unchanged: a name may be mistyped."""
    if len(loaded.layers) < 2:
        return
    *below, (file, tables) = loaded.layers
    base, own = _by_name(merge(below).tree), _by_name(tables)
    added, untouched = [name for name in own if name not in base], [name for name in base if name not in own]
    if added and untouched:
        yield (
            f"{file}: adds {', '.join(added)} to the rig that it extends, so that {', '.join(untouched)} "
            f"will be tested too, {len(base) + len(added)} nodes in all; to change a node, name it as it is "
            "named there; to leave one out, copy what you need of that rig and do not extend it"
        )


def _by_name(tree: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {node["name"]: node for node in tree.get("nodes", ())}


def _addresses(merged: Merged) -> dict[str, object]:
    return {name: node.get("address") for name, node in _by_name(merged.tree).items()}


def _cards_of(node: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(gpu["sku"], gpu.get("device", "cuda")) for gpu in node.get("gpus", ())]


def _cards(tree: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [card for node in _by_name(tree).values() for card in _cards_of(node)]


def _in_words(tree: Mapping[str, Any]) -> str:
    counted = Counter("the CPU" if device == "cpu" else sku for sku, device in _cards(tree))
    return " + ".join(f"{times} × {name}" if times > 1 else name for name, times in counted.items()) or "none"
