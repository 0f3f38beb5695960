"""Lint of the sustained stage's limits that could never fail."""

from collections.abc import Iterator

from rigproof.profiles.kinds.figures import SLOWEST_TFLOPS, peak_16bit
from rigproof.profiles.lint.floors import too_low
from rigproof.profiles.lint.inherited import inherited
from rigproof.profiles.lint.limits import Bound, rig_problem, stage_limit_problems
from rigproof.profiles.lint.sku import floor_problem
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.floor_basis import planned_basis
from rigproof.profiles.tables.levels import LevelName
from rigproof.stages.sustained.settings import FIGURE, SustainedSettings

COMBINED = "stages.sustained.combined_floor_tflops"
ROUNDING = 1e-3  # a floor is written with three or four digits
OF_THE_SUM = 0.9  # cards that share a supply and a room reach a little less together than one by one
FIRST_SHARE = 0.4  # of the printed peaks: over the 0.3 below which no floor could fail
BOUNDS = {
    # Thermal throttling halves a rate; the allowed drop must be smaller.
    "stability_drop_share": Bound(lowest=0.5, below="allows a rate that halves"),
    "best_window_share": Bound(0.5, 0.98, "allows a rate that halves", "fails sound cards"),
}


def problems(loaded: LoadedRig, _level: LevelName) -> Iterator[str]:
    """Problems with its limits, and with the floor of all GPUs together."""
    yield from stage_limit_problems(loaded, "sustained", BOUNDS)
    yield from _combined_problems(loaded)
    yield from _inherited_problems(loaded)


def doubts(loaded: LoadedRig) -> Iterator[str]:
    """A floor of all GPUs together that is more than what each has to reach, one by one."""
    floor = loaded.settings(SustainedSettings).combined_floor_tflops
    each = _floors(loaded)
    if floor is None or not each or floor <= sum(each.values()) * (1 + ROUNDING):
        return
    if any(_inherited_problems(loaded)):
        return
    parts = " + ".join(f"{subject} {one:.3g}" for subject, one in each.items())
    wrong = f"more than the floors of its cards one by one, {parts} = {sum(each.values()):.3g} TFLOP/s"
    way_out = f"unless these cards have reached it together, {_way_out(loaded, loaded.file)}"
    yield rig_problem(loaded, COMBINED, floor, wrong, way_out)


def _inherited_problems(loaded: LoadedRig) -> Iterator[str]:
    """The floor of all GPUs together, if the file that states it had other cards."""
    for one in inherited(loaded):
        if COMBINED in one.keys and one.of_other_cards:
            theirs, ours = one.cards()
            wrong = f"was set for {theirs}, and {one.own} has {ours}"
            yield rig_problem(loaded, COMBINED, one.rig.value(COMBINED), wrong, _way_out(loaded, one.own))


def _way_out(loaded: LoadedRig, file: str) -> str:
    floors = _floors(loaded)
    if floors:
        value, why = OF_THE_SUM * sum(floors.values()), "nine tenths of the floors of its cards one by one"
    else:
        value, why = FIRST_SHARE * _reached(loaded), "low enough for any; raise it when a run has shown more"
    rounded = float(f"{value:.2g}")
    return f"write combined_floor_tflops = {rounded:g} in [stages.sustained] of {file}: {why}"


def _reached(loaded: LoadedRig) -> float:
    """The sum of the printed peaks, TFLOP/s; of a card that has none, what every device reaches."""
    return sum(
        (device.sku and peak_16bit(device.sku, None)[1]) or SLOWEST_TFLOPS[device.gpu.device]
        for device in loaded.devices()
    )


def _floors(loaded: LoadedRig) -> dict[str, float]:
    """The floors of the GPUs before a run, in TFLOP/s, by subject; empty if nothing is known of one.

    Of a card of which only peaks are printed it is that of its architecture, at the printed clock.
    """
    floors: dict[str, float] = {}
    for device in loaded.devices():
        basis = planned_basis(FIGURE, device, loaded)
        share = getattr(device.limits, "floor_unknown_share" if basis is None else basis.share)
        value = basis.figure.value if basis is not None else device.sku and peak_16bit(device.sku, None)[1]
        if share is None or value is None:
            return {}
        floors[device.subject] = value * share
    return floors


def _combined_problems(loaded: LoadedRig) -> Iterator[str]:
    """The floor of all GPUs together, compared with the sum of their peaks."""
    floor, devices = loaded.settings(SustainedSettings).combined_floor_tflops, loaded.devices()
    if floor is None or not devices:
        return
    known = [None if device.sku is None else peak_16bit(device.sku, None)[1] for device in devices]
    at_least = _reached(loaded)
    lowest = FIGURE.lowest_share
    if None in known:
        wrong = too_low(floor, lowest * at_least)
    else:
        wrong = floor_problem(floor, at_least, FIGURE.unit, lowest)
    if wrong is not None:
        yield rig_problem(loaded, COMBINED, floor, *wrong)
