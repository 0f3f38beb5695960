"""Lint of the sustained stage's limits that could never fail."""

from collections.abc import Iterator

from rigproof.profiles.kinds.figures import SLOWEST_TFLOPS, peak_16bit
from rigproof.profiles.lint.floors import too_low
from rigproof.profiles.lint.limits import Bound, rig_problem, stage_limit_problems
from rigproof.profiles.lint.sku import floor_problem
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.tables.levels import LevelName
from rigproof.stages.sustained.settings import FIGURE, SustainedSettings

BOUNDS = {
    # Thermal throttling halves a rate; the allowed drop must be smaller.
    "stability_drop_share": Bound(lowest=0.5, below="allows a rate that halves"),
    "best_window_share": Bound(0.5, 0.98, "allows a rate that halves", "fails sound cards"),
}


def problems(loaded: LoadedRig, _level: LevelName) -> Iterator[str]:
    """Problems with its limits, and with the floor of all GPUs together."""
    yield from stage_limit_problems(loaded, "sustained", BOUNDS)
    yield from _combined_problems(loaded)


def _combined_problems(loaded: LoadedRig) -> Iterator[str]:
    """The floor of all GPUs together, compared with the sum of their peaks."""
    floor, devices = loaded.settings(SustainedSettings).combined_floor_tflops, loaded.devices()
    if floor is None or not devices:
        return
    known = [None if device.sku is None else peak_16bit(device.sku, None)[1] for device in devices]
    at_least = sum(
        peak or SLOWEST_TFLOPS[device.gpu.device] for peak, device in zip(known, devices, strict=True)
    )
    lowest = FIGURE.lowest_share
    if None in known:
        wrong = too_low(floor, lowest * at_least)
    else:
        wrong = floor_problem(floor, at_least, FIGURE.unit, lowest)
    if wrong is not None:
        yield rig_problem(loaded, "stages.sustained.combined_floor_tflops", floor, *wrong)
