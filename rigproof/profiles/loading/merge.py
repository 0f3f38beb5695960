"""Merges one profile over another and records which file every value came from.

Tables merge key by key, `nodes` merge by `name`, every other list replaces the one below it. Works on the
raw tables that TOML gives, valid or not: malformed parts are reported by the check of their own file.
"""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Layer = tuple[str, dict[str, Any]]  # a file as users know it, and its tables
DEEPEST = 8  # a rig's tables nest less; deeper ones are unknown keys, which the check of the file reports


@dataclass(frozen=True, slots=True)
class Origin:
    """The place of a value: the file as users know it, and the key as it is written there."""

    file: str
    key: str


@dataclass(frozen=True, slots=True)
class KeyPath:
    """The merge's place in the tables: the file, the dotted key, the key as written, how deep."""

    file: str
    dotted: str = ""
    written: str = ""
    depth: int = 0

    def inside(self, key: str) -> "KeyPath":
        """The path of a key of this table."""
        dot = "." if self.dotted else ""
        return KeyPath(self.file, f"{self.dotted}{dot}{key}", f"{self.written}{dot}{key}", self.depth + 1)

    def element(self, index: int) -> "KeyPath":
        """The path of an element of this list."""
        return KeyPath(self.file, f"{self.dotted}.{index}", f"{self.written}[{index}]", self.depth + 1)


@dataclass(slots=True)
class Merged:
    """The tables so far. `origins` is keyed by dotted key, nodes by name: `nodes.pc1.gpus.0.sku`."""

    tree: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)  # in the order in which they were merged
    _nodes: dict[str, dict[str, Any]] = field(default_factory=dict)

    def lay_over(self, table: Mapping[str, Any], file: str) -> None:
        """Merge `table`, read from `file`, over the tables so far."""
        self.files.append(file)
        rest = {key: value for key, value in table.items() if key != "nodes"}
        self._tables(self.tree, rest, KeyPath(file))
        nodes = table.get("nodes")
        if isinstance(nodes, list):
            self.origins.setdefault("nodes", Origin(file, "nodes"))
            for index, node in enumerate(nodes):
                if isinstance(node, dict) and isinstance(node.get("name"), str):
                    self._node(node, file, f"nodes[{index}]")

    def origin(self, *keys: str) -> Origin | None:
        """The origin of the first of `keys` that has one."""
        return next((self.origins[key] for key in keys if key in self.origins), None)

    def value(self, dotted: str) -> Any:
        """The value of a key of `origins` that stands in a table outside of `nodes`."""
        value: Any = self.tree
        for part in dotted.split("."):
            value = value[part]
        return value

    def _node(self, node: dict[str, Any], file: str, written: str) -> None:
        below = self._nodes.get(node["name"])
        if below is None:
            below = self._nodes[node["name"]] = {"name": node["name"]}
            self.tree.setdefault("nodes", []).append(below)
        self._tables(below, node, KeyPath(file, f"nodes.{node['name']}", written))

    def _tables(self, below: dict[str, Any], table: Mapping[str, Any], at: KeyPath) -> None:
        if at.depth > DEEPEST:
            return
        for key, value in table.items():
            here = at.inside(key)
            if isinstance(value, dict):
                if not isinstance(below.get(key), dict):
                    if key in below:
                        self._forget(here.dotted)
                    below[key] = {}
                self._tables(below[key], value, here)
            else:
                if isinstance(below.get(key), dict | list):
                    self._forget(here.dotted)
                below[key] = copy.copy(value)
                self._remember(value, here)

    def _forget(self, dotted: str) -> None:
        for key in [key for key in self.origins if key == dotted or key.startswith(f"{dotted}.")]:
            del self.origins[key]

    def _remember(self, value: object, at: KeyPath) -> None:
        """Note where `value` came from; a list of tables also value by value."""
        if at.depth > DEEPEST:
            return
        if isinstance(value, dict):
            for key, inner in value.items():
                self._remember(inner, at.inside(key))
            return
        self.origins[at.dotted] = Origin(at.file, at.written)
        if isinstance(value, list):
            for index, element in enumerate(value):
                if isinstance(element, dict):
                    self._remember(element, at.element(index))


def merge(layers: Iterable[Layer]) -> Merged:
    """The tables of these files, each laid over those before it."""
    merged = Merged()
    for file, tables in layers:
        merged.lay_over(tables, file)
    return merged
