"""SKU tables and floors that cannot fail, or that no sound card could pass.

DCGM's own SKU file held floors that could never fail (a bandwidth of 2333 where 2,333,000 was meant): a
floor under 30 % or over 110 % of the peak is an error.
"""

from collections.abc import Iterator
from itertools import pairwise

from rigproof.profiles.errors import problem
from rigproof.profiles.kinds.figures import FigureKind
from rigproof.profiles.kinds.stages import StageKinds
from rigproof.profiles.lint.stated import rig_problem
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.tables.sku import Figure, Rates, Sku

FLOOR_HIGHEST = 1.10
# Boost clocks carry GeForce cards 7 to 10 % past their printed peak (3090: 78 of 71.2), and none as far as
# 15 %.
STEADY_HIGHEST = 1.15


def floor_problem(floor: float, peak: float, unit: str, lowest_share: float) -> tuple[str, str] | None:
    """The problem of a floor and the remedy; None if it can fail and can be reached."""
    share = floor / peak
    low, high = lowest_share * peak, FLOOR_HIGHEST * peak
    way_out = f"write {low:.3g} to {high:.3g}"
    if share < lowest_share:
        return f"{share:.1%} of the peak of {peak:g} {unit}: such a floor cannot fail", way_out
    if share > FLOOR_HIGHEST:
        return f"{share:.0%} of the peak of {peak:g} {unit}: no card can reach it", way_out
    return None


def lint_sku(file: str, sku: Sku, kinds: StageKinds) -> list[str]:
    """Problems of one SKU table, each naming `file`; empty where there are none."""
    return [*_rate_problems(file, sku, kinds), *_temperature_problems(file, sku), *_curve_problems(file, sku)]


def _rate_problems(file: str, sku: Sku, kinds: StageKinds) -> Iterator[str]:
    if not any(getattr(sku.peak_tflops, precision) for precision in Rates.model_fields):
        yield problem(file, "peak_tflops", {}, "no peak at all", "write at least the fp32 or the fp16 one")
    for kind in kinds.figures.values():
        figure = sku.steady.figure(kind.name)
        if figure is None:
            continue
        key = f"steady.{kind.name}"
        if kind.peak is not None:
            yield from _figure_problems(file, figure, kind, *kind.peak(sku, figure))
        if kind.bounds is not None:
            yield from _bounds_problems(file, key, figure, *kind.bounds)
        yield from _evidence_problems(file, key, figure, kind)


def _figure_problems(
    file: str, figure: Figure, kind: FigureKind, peak_key: str, peak: float | None
) -> Iterator[str]:
    """Problems of a figure beside its printed peak: a floor from it could not fail, or not be reached."""
    key = f"steady.{kind.name}"
    if peak is None:
        wrong = "there is no peak to hold it against"
        yield problem(file, key, figure.value, wrong, f"write {peak_key}")
        return
    for value in dict.fromkeys((figure.value, *(figure.range or ()))):
        if value > STEADY_HIGHEST * peak:
            wrong = f"{value / peak:.0%} of the peak of {peak:g} {kind.unit}, more than any boost clock gives"
            way_out = f"write {STEADY_HIGHEST * peak:.4g} or less, or correct the peak"
            yield problem(file, key, value, wrong, way_out)
            return
    lowest = kind.lowest_share
    if figure.value < lowest * peak:
        share = figure.value / peak
        wrong = f"{share:.1%} of the peak of {peak:g} {kind.unit}: a floor from it cannot fail"
        yield problem(file, key, figure.value, wrong, f"write {lowest * peak:.3g} or more")


def _bounds_problems(file: str, key: str, figure: Figure, low: float, high: float) -> Iterator[str]:
    if not low <= figure.value <= high:
        wrong = "less than any card gives" if figure.value < low else "more than any card gives"
        yield problem(file, key, figure.value, wrong, f"write {low:g} to {high:g}")


def _evidence_problems(file: str, key: str, figure: Figure, kind: FigureKind) -> Iterator[str]:
    """Problems of a figure's evidence that contradicts itself or is incomplete."""
    stated = figure.model_dump(exclude_none=True)
    of_a_measurement = ("range", "runs", "spread", "size", "workers", "torch", "batch", "precision")
    if figure.cards is None:
        given = [name for name in of_a_measurement if name in stated]
        if given:
            wrong = f"states {', '.join(given)}, but not on how many cards it was measured"
            way_out = "write cards = 1 or more, or leave these out: a printed figure"
            yield problem(file, key, stated, wrong, way_out)
        return
    missing = [name for name in ("size", "workers", "torch", *kind.conditions) if name not in stated]
    if missing:
        wrong = f"measured, but without {', '.join(missing)}"
        yield problem(
            file,
            key,
            stated,
            wrong,
            "write them: a rate is only compared with what was measured under the same conditions",
        )
    if figure.spread is not None and figure.cards < 2:
        wrong = "states the spread of several cards, but was measured on one"
        yield problem(file, key, stated, wrong, "leave spread out, or measure more cards")
    low, high = figure.range or (figure.value, figure.value)
    if not low <= figure.value <= high:
        wrong = f"{figure.value:g} is outside its range of {low:g} to {high:g}"
        yield problem(file, key, stated, wrong, "correct one of the two")


def _temperature_problems(file: str, sku: Sku) -> Iterator[str]:
    limits = sku.temperature
    stages = [
        (name, degrees)
        for name in ("max_operating_c", "slowdown_c", "shutdown_c")
        if (degrees := getattr(limits, name)) is not None
    ]
    for (low_name, low), (high_name, high) in pairwise(stages):
        if low >= high:
            wrong = f"not under {high_name} = {high:g}, so it cannot trip before"
            yield problem(file, f"temperature.{low_name}", low, wrong, "correct one of the two")


def _curve_problems(file: str, sku: Sku) -> Iterator[str]:
    for index, (one, two) in enumerate(pairwise(sku.power_curve), start=1):
        if two.limit_share <= one.limit_share or two.rate_share < one.rate_share:
            yield problem(
                file,
                f"power_curve[{index}]",
                two.model_dump(),
                "does not rise from the point before it",
                "order the points by limit_share; more power never gives a lower rate_share",
            )


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
