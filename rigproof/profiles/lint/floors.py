"""Floors that cannot fail, or that no card could reach."""

from collections.abc import Iterator

from rigproof.profiles.kinds.figures import FigureKind
from rigproof.profiles.lint.limits import rig_problem
from rigproof.profiles.lint.sku import floor_problem
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice


def floor_problems(loaded: LoadedRig, device: PromisedDevice) -> Iterator[str]:
    """Floors of one GPU that lie too low or too high for it."""
    for kind in loaded.kinds.figures.values():
        floor = getattr(device.gpu.floors, kind.name, None)
        wrong = None if floor is None else _floor_problem(device, kind, floor)
        if wrong is not None:
            yield rig_problem(loaded, f"{device.key}.floors.{kind.name}", floor, *wrong)


def too_low(floor: float, least: float) -> tuple[str, str] | None:
    """The problem and the remedy for a floor below what any such device reaches."""
    if floor >= least:
        return None
    return "even the slowest device is faster: such a floor cannot fail", f"write {least:.3g} or more"


def _floor_problem(device: PromisedDevice, kind: FigureKind, floor: float) -> tuple[str, str] | None:
    if device.sku is None:
        slowest = None if kind.slowest is None else kind.slowest[device.gpu.device]
        return None if slowest is None else too_low(floor, kind.lowest_share * slowest)
    if kind.peak is None:
        return None
    key, peak = kind.peak(device.sku, None)
    if peak is None:
        unknown = f"hwprofiles/gpus/{device.sku_stem}.toml has no {key}"
        return unknown, "leave the floor out, or add the peak to the SKU file"
    return floor_problem(floor, peak, kind.unit, kind.lowest_share)
