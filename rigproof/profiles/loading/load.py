"""Reading rigs, SKUs and the defaults below them: files in, checked models out, every problem at once."""

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from rigproof.profiles.errors import ProfileError, nearest, problem
from rigproof.profiles.kinds.models import models_of
from rigproof.profiles.kinds.stages import StageKinds
from rigproof.profiles.loading.files import (
    CPU_DEFAULTS,
    DEFAULTS,
    profile_folder,
    read_text,
    read_toml,
    shown_path,
    stems,
    tables_of,
)
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.loading.merge import Layer, merge
from rigproof.profiles.loading.structure import checked, merged_problems, repeated_nodes, structural_problems
from rigproof.profiles.tables.sku import Sku


def load_rig(name_or_path: str, kinds: StageKinds) -> LoadedRig:
    """The rig of that name in `hwprofiles/rigs`, or in that .toml file, merged and checked.

    `kinds`: all stages.

    Raises ProfileError with everything that is wrong with it and with what it extends.
    """
    path = rig_path(name_or_path)
    layers, broken = _chain(path)
    return _assembled(layers, shown_path(path), kinds, broken)


def over_defaults(tables: dict[str, Any], file: str, kinds: StageKinds) -> LoadedRig:
    """A rig that is in no file, merged over the defaults and checked.

    Messages and sources name `file` as the place of its values. Raises ProfileError with all problems.
    """
    return _assembled([(file, tables)], file, kinds)


def load_sku(stem: str, kinds: StageKinds) -> Sku:
    """The SKU `hwprofiles/gpus/<stem>.toml`. Raises ProfileError."""
    if stem not in stems("gpus"):
        raise ProfileError(
            [
                problem(
                    f"hwprofiles/gpus/{stem}.toml", "sku", stem, "no such file", nearest(stem, stems("gpus"))
                )
            ]
        )
    return _skus([stem], kinds)[stem]


@lru_cache(maxsize=256)  # a run reads all SKU files more than once
def _sku(text: str, file: str, kinds: StageKinds) -> Sku:
    return checked(models_of(kinds).sku, tables_of(text, file), file)


def all_skus(kinds: StageKinds) -> dict[str, Sku]:
    """Every SKU of `hwprofiles/gpus`, by file stem. Raises ProfileError with the problems of all of them."""
    return _skus(stems("gpus"), kinds)


def rig_path(name_or_path: str) -> Path:
    """The file that a rig's name or path means. Raises ProfileError if there is none."""
    if "/" in name_or_path or name_or_path.endswith(".toml"):
        path = Path(name_or_path)
        if "\0" not in name_or_path and not _is_there(path) and path.stem in stems("rigs"):
            raise ProfileError(
                [f"{name_or_path}: no such file; the shipped rig of that name is plain {path.stem}"]
            )
        return path
    return _named_rig("command line", "hwprofile", name_or_path)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return True  # reading it gives the error


def _named_rig(file: str, key: str, name: str) -> Path:
    known = stems("rigs")
    if name in known:
        return profile_folder() / "rigs" / f"{name}.toml"
    hint = nearest(name, known)
    end = "" if hint.endswith("?") else ";"
    way_out = f"{hint}{end} a file of your own is named with its path, such as ./lab.toml"
    raise ProfileError([problem(file, key, name, "rigproof has no rig of that name", way_out)])


def _chain(path: Path) -> tuple[list[Layer], list[str]]:
    """The files that make up a rig: those that it extends, the farthest first, and last its own file.

    Also returns the problems of the chain: if a file that is extended cannot be read, the list begins with
    the file that extends it. Raises ProfileError if the rig's own file cannot be read.
    """
    layers: list[Layer] = [(shown_path(path), read_toml(path))]
    seen = [path.resolve()]
    current = path
    while isinstance(parent := layers[0][1].get("extends"), str):
        file = layers[0][0]
        try:
            below = _parent(current, file, parent)
            if below.resolve() in seen:
                raise ProfileError([_circle(file, parent, [*seen[seen.index(below.resolve()) :], below])])
            layers.insert(0, (shown_path(below), read_toml(below)))
        except ProfileError as error:
            return layers, list(error.problems)
        seen.append(below.resolve())
        current = below
    return layers, []


def _circle(file: str, parent: str, steps: list[Path]) -> str:
    way = " extends ".join(shown_path(step) for step in steps)
    return problem(
        file, "extends", parent, f"goes in a circle: {way}", "delete the line `extends` in one of these files"
    )


def _parent(path: Path, file: str, parent: str) -> Path:
    if "/" not in parent and not parent.endswith(".toml"):
        return _named_rig(file, "extends", parent)
    found = path.parent / parent
    try:
        there = found.is_file()
    except (OSError, ValueError):
        there = False
    if not there:
        beside = [f"./{other.name}" for other in path.parent.glob("*.toml") if other != path]
        way_out = nearest(parent, [*stems("rigs"), *beside[:20]])
        raise ProfileError([problem(file, "extends", parent, "no such file beside this one", way_out)])
    return found


def _assembled(layers: list[Layer], file: str, kinds: StageKinds, broken: Iterable[str] = ()) -> LoadedRig:
    models = models_of(kinds)
    problems = list(broken)
    every = [*default_layers(cpus_alone=of_cpus_alone(merge(layers).tree)), *layers]
    for layer_file, tables in every:
        problems += structural_problems(models.rig_file, tables, layer_file)
        problems += repeated_nodes(tables, layer_file)
    merged = merge(every)
    problems += merged_problems(merged, file)
    if problems:
        raise ProfileError(problems)
    # Files that are valid one by one can still miss a value once merged, never the other way round.
    rig = checked(models.rig, merged.tree, file)
    named = {gpu.sku for node in rig.nodes for gpu in node.gpus}
    skus = _skus((stem for stem in stems("gpus") if stem in named), kinds)
    return LoadedRig(
        rig=rig,
        skus=skus,
        sources={key: origin.file for key, origin in merged.origins.items()},
        file=file,
        kinds=kinds,
        written_keys={key: origin.key for key, origin in merged.origins.items()},
        layers=tuple(layers),
    )


def _skus(names: Iterable[str], kinds: StageKinds) -> dict[str, Sku]:
    """The SKUs that have these names."""
    skus: dict[str, Sku] = {}
    problems: list[str] = []
    for stem in names:
        path = profile_folder() / "gpus" / f"{stem}.toml"
        try:
            skus[stem] = _sku(read_text(path, file := shown_path(path)), file, kinds)
        except ProfileError as error:
            problems += error.problems
    if problems:
        raise ProfileError(problems)
    return skus


def default_rig(kinds: StageKinds, rig: Mapping[str, Any] | None = None) -> LoadedRig:
    """Every default, and no nodes. Raises ProfileError.

    `rig`: the tables of the rig whose defaults they are, as a run records them; None: of one with a GPU.
    """
    return _default_rig(kinds, of_cpus_alone(rig or {}))


@cache
def _default_rig(kinds: StageKinds, cpus_alone: bool) -> LoadedRig:
    rig = models_of(kinds).rig.model_validate(merge(default_layers(cpus_alone=cpus_alone)).tree)
    return LoadedRig(rig=rig, skus={}, sources={}, file=DEFAULTS, kinds=kinds)


def default_layers(*, cpus_alone: bool) -> list[Layer]:
    """The defaults of a rig, the lowest file first. Raises ProfileError."""
    files = (DEFAULTS, CPU_DEFAULTS) if cpus_alone else (DEFAULTS,)
    return [(file, read_toml(profile_folder().parent / file)) for file in files]


def of_cpus_alone(rig: Mapping[str, Any]) -> bool:
    """Whether a rig has devices, and all of them are CPUs, by its raw tables, valid or not."""
    devices = [gpu for node in _tables(rig, "nodes") for gpu in _tables(node, "gpus")]
    return bool(devices) and all(gpu.get("device") == "cpu" for gpu in devices)


def _tables(table: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """The tables of a list of tables; empty if there is none."""
    found = table.get(key)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list | tuple) else []
