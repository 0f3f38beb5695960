"""Checks that need more than one key: CPU bands and their warning, unknown SKUs, nodes named twice.

They read the raw tables, so that these problems are reported together with wrong types and unknown keys.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from rigproof.profiles.errors import nearest, problem, shown
from rigproof.profiles.loading.files import stems
from rigproof.profiles.loading.merge import Merged

UNKNOWN_SKU = "unknown"
PROBLEMS_SHOWN = 100


def merged_problems(merged: Merged, file: str) -> list[str]:
    """Problems of the whole rig, each naming the file that its value came from."""
    tree = merged.tree
    found = list(_band_problems(merged, "cpu", _table(tree, "cpu"), {}))
    if not _nodes(tree):
        found.append(
            problem(
                file,
                "nodes",
                [],
                "no node is promised",
                "write a [[nodes]] table with its name and [[nodes.gpus]]",
            )
        )
    skus = stems("gpus")
    for node in _nodes(tree):
        dotted = f"nodes.{node['name']}"
        found += _band_problems(merged, f"{dotted}.cpu", _table(node, "cpu"), _table(tree, "cpu"))
        gpus = node.get("gpus")
        for index, gpu in enumerate(gpus if isinstance(gpus, list) else ()):
            sku = gpu.get("sku") if isinstance(gpu, dict) else None
            if isinstance(sku, str) and sku != UNKNOWN_SKU and sku not in skus:
                found.append(_unknown_sku(merged, f"{dotted}.gpus.{index}.sku", sku, skus))
    return found[:PROBLEMS_SHOWN]


def repeated_nodes(table: Mapping[str, Any], file: str) -> list[str]:
    """Node names that one file uses twice."""
    names = [node["name"] for node in _nodes(table)]
    return [
        problem(file, "nodes[].name", name, f"{times} nodes have this name", "give each node its own")
        for name, times in list(Counter(names).items())[:PROBLEMS_SHOWN]
        if times > 1
    ]


def _unknown_sku(merged: Merged, dotted: str, sku: str, skus: tuple[str, ...]) -> str:
    origin = merged.origins[dotted]
    hint = nearest(sku, skus)
    return problem(
        origin.file,
        origin.key,
        sku,
        "no such file in hwprofiles/gpus",
        f'{hint} A card without a file is "{UNKNOWN_SKU}"'
        if hint.endswith("?")
        else f'{hint}, or "{UNKNOWN_SKU}"',
    )


def _band_problems(
    merged: Merged, dotted: str, own: Mapping[str, Any], below: Mapping[str, Any]
) -> Iterator[str]:
    """Problems of the CPU band of the table at `dotted`: its `own` values over those of the rig, `below`.

    There are none if `own` states neither of the two values.
    """
    band = own.get("band_percent", below.get("band_percent"))
    if not (isinstance(band, list) and len(band) == 2 and all(_is_number(end) for end in band)):
        return
    low, high = band
    if low >= high and "band_percent" in own:
        origin = merged.origins[f"{dotted}.band_percent"]
        wrong = "low end above high end" if low > high else "low end equals high end"
        turned = [high, low] if low > high else [70, 85]
        yield problem(origin.file, origin.key, band, wrong, f"write e.g. {shown(turned)}")
    warn = own.get("warn_percent", below.get("warn_percent"))
    stated = "band_percent" in own or "warn_percent" in own
    if stated and _is_number(warn) and warn < max(band):
        # The file that was merged last made the two disagree.
        stated_keys = [key for key in ("warn_percent", "band_percent") if key in own]
        key = max(stated_keys, key=lambda key: merged.files.index(merged.origins[f"{dotted}.{key}"].file))
        origin = merged.origins[f"{dotted}.{key}"]
        yield problem(
            origin.file,
            origin.key,
            own[key],
            f"warn_percent {shown(warn)} is below the band's high end {shown(max(band))}",
            f"write warn_percent = {shown(max(band))} or more",
        )


def _nodes(tree: Mapping[str, Any]) -> list[dict[str, Any]]:
    nodes = tree.get("nodes")
    if not isinstance(nodes, list):
        return []
    return [node for node in nodes if isinstance(node, dict) and isinstance(node.get("name"), str)]


def _table(tree: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    table = tree.get(key)
    return table if isinstance(table, dict) else {}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
