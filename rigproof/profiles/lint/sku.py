"""SKU tables that cannot fail, or that no sound card could pass.

DCGM's own SKU file held floors that could never fail (a bandwidth of 2333 where 2,333,000 was meant): a
floor under 30 % or over 110 % of the peak is an error.
"""

from collections.abc import Iterator
from itertools import pairwise

from rigproof.profiles.errors import problem
from rigproof.profiles.tables.models import Rates, Sku
from rigproof.profiles.tables.steady import Figure, SteadyFigures

FLOOR_LOWEST = 0.30  # of the printed peak
FLOOR_HIGHEST = 1.10
TRAINING_LOWEST = 0.10  # a step is norms, attention and an optimizer too: 0.43 measured on an H200
# Boost clocks carry GeForce cards 7 to 10 % past their printed peak (3090: 78 of 71.2); nothing goes 15 %.
STEADY_HIGHEST = 1.15
# A training step in fp16 against fp32 without tf32: 9 measured on an H200; its printed peaks are 14.8 apart.
SPEEDUP_LOWEST = 1.0
SPEEDUP_HIGHEST = 20.0


def floor_problem(floor_tflops: float, peak_tflops: float) -> tuple[str, str] | None:
    """What is wrong with a floor and the way out; None where it can fail and can be reached."""
    share = floor_tflops / peak_tflops
    low, high = FLOOR_LOWEST * peak_tflops, FLOOR_HIGHEST * peak_tflops
    way_out = f"write {low:.3g} to {high:.3g}"
    if share < FLOOR_LOWEST:
        return f"{share:.1%} of the peak of {peak_tflops:g} TFLOP/s: such a floor cannot fail", way_out
    if share > FLOOR_HIGHEST:
        return f"{share:.0%} of the peak of {peak_tflops:g} TFLOP/s: no card can reach it", way_out
    return None


def peak_16bit_tflops(sku: Sku) -> float | None:
    """The better of the bf16 and fp16 peaks; None where neither is known."""
    known = [peak for peak in (sku.peak_tflops.bf16, sku.peak_tflops.fp16) if peak is not None]
    return max(known, default=None)


def lint_sku(file: str, sku: Sku) -> list[str]:
    """Problems of one SKU table, each naming `file`; empty where there are none."""
    return [
        *_rate_problems(file, sku),
        *_speedup_problems(file, sku),
        *_temperature_problems(file, sku),
        *_curve_problems(file, sku),
    ]


def _rate_problems(file: str, sku: Sku) -> Iterator[str]:
    if not any(getattr(sku.peak_tflops, precision) for precision in Rates.model_fields):
        yield problem(file, "peak_tflops", {}, "no peak at all", "write at least the fp32 or the fp16 one")
    for name in SteadyFigures.model_fields:
        figure: Figure | None = getattr(sku.steady, name)
        if figure is None:
            continue
        key = f"steady.{name}"
        if name != "training_speedup":
            yield from _figure_problems(file, key, figure, *_peak_of(sku, name, figure))
        yield from _evidence_problems(file, key, figure)


def _peak_of(sku: Sku, name: str, figure: Figure) -> tuple[str, float | None]:
    """The precision whose peak a figure is held against, and that peak."""
    precision = {"sustained": figure.precision or "bf16", "training": "fp16"}.get(name, name)
    return precision, getattr(sku.peak_tflops, precision)


def _figure_problems(
    file: str, key: str, figure: Figure, precision: str, peak: float | None
) -> Iterator[str]:
    """No floor made of it could fail, or be reached."""
    if peak is None:
        wrong = "there is no peak to hold it against"
        yield problem(file, key, figure.value, wrong, f"write peak_tflops.{precision}")
        return
    for value in dict.fromkeys((figure.value, *(figure.range or ()))):
        if value > STEADY_HIGHEST * peak:
            wrong = f"{value / peak:.0%} of the peak of {peak:g} TFLOP/s, past what any boost clock gives"
            way_out = f"write {STEADY_HIGHEST * peak:.4g} or less, or correct the peak"
            yield problem(file, key, value, wrong, way_out)
            return
    lowest = TRAINING_LOWEST if key == "steady.training" else FLOOR_LOWEST
    if figure.value < lowest * peak:
        wrong = f"{figure.value / peak:.1%} of the peak of {peak:g} TFLOP/s: a floor made of it cannot fail"
        yield problem(file, key, figure.value, wrong, f"write {lowest * peak:.3g} or more")


def _evidence_problems(file: str, key: str, figure: Figure) -> Iterator[str]:
    """What a figure says of its evidence contradicts itself, or is not all of it."""
    said = figure.model_dump(exclude_none=True)
    of_a_measurement = ("range", "size", "workers", "torch", "batch", "precision")
    if figure.cards is None:
        told = [name for name in of_a_measurement if name in said]
        if told:
            wrong = f"says {', '.join(told)}, but not on how many cards it was measured"
            yield problem(file, key, said, wrong, "write cards = 1 or more, or leave the rest out: a print")
        return
    needed = ["size", "workers", "torch"]
    needed += ["precision"] if key == "steady.sustained" else []
    needed += ["batch"] if key.startswith("steady.training") else []
    missing = [name for name in needed if name not in said]
    if missing:
        wrong = f"measured, but without {', '.join(missing)}"
        yield problem(file, key, said, wrong, "write them: a rate is held against what was measured alike")
    low, high = figure.range or (figure.value, figure.value)
    if not low <= figure.value <= high:
        wrong = f"{figure.value:g} is outside of its range of {low:g} to {high:g}"
        yield problem(file, key, said, wrong, "correct one of the two")


def _speedup_problems(file: str, sku: Sku) -> Iterator[str]:
    speedup = None if sku.steady.training_speedup is None else sku.steady.training_speedup.value
    if speedup is not None and not SPEEDUP_LOWEST <= speedup <= SPEEDUP_HIGHEST:
        wrong = (
            "16-bit slows no card down"
            if speedup < SPEEDUP_LOWEST
            else "more than any card's 16-bit rate gives"
        )
        yield problem(
            file,
            "steady.training_speedup",
            speedup,
            wrong,
            f"write {SPEEDUP_LOWEST:g} to {SPEEDUP_HIGHEST:g}",
        )


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
