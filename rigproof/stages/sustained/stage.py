"""The sustained stage: its settings, and what each worker is told."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from rigproof.devices.specs import Spec
from rigproof.profiles.kinds.figures import SLOWEST_TFLOPS, FigureKind, peak_16bit
from rigproof.profiles.kinds.stages import Label, StagePlan
from rigproof.profiles.lint.inherited import inherited
from rigproof.profiles.lint.sku import floor_problem, too_low
from rigproof.profiles.lint.stated import rig_problem
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.floor_basis import FLOOR_UNKNOWN_SHARE, planned_basis
from rigproof.profiles.planning.plan import NO_POLICY, MemoryPlan, WorkerPlan
from rigproof.profiles.tables.base import Meaningful, Positive, Share, optional
from rigproof.profiles.tables.levels import EveryLevel, LevelName
from rigproof.profiles.tables.sku import PRECISIONS
from rigproof.profiles.tables.stages import TimedSettings
from rigproof.stages.kind import StageKind, StageWork


class SustainedSettings(TimedSettings):
    """All workers of all GPUs fill their memory and multiply matrices without a break."""

    of_rig: ClassVar[frozenset[str]] = TimedSettings.of_rig | {"settle_s", "combined_floor_tflops"}

    settle_s: EveryLevel = Field(
        description="Longest warm-up, in s, by level; it ends once the rate is steady, or after a third of "
        "the stage."
    )
    # Thermal throttling halves a rate; the allowed drop must be smaller.
    stability_drop_share: Share = Field(
        description="Smallest rate in the last quarter of the stage, as a share of the rate in the first "
        "quarter.",
        json_schema_extra=Meaningful(lowest=0.5, below="allows a rate that halves"),
    )
    best_window_share: Share | None = optional(
        "Smallest rate of any 5 s window, as a share of the median of the best quarter of the "
        "windows, or of the same products alone, whichever is higher.",
        Meaningful(0.5, 0.98, "allows a rate that halves", "fails sound cards"),
    )
    combined_floor_tflops: Positive | None = optional(
        "Smallest sum of the sustained rates of all GPUs, in TFLOP/s. Left out: the sum is not judged."
    )


FIGURE = FigureKind(
    "sustained_tflops",
    "16-bit matrix products with the memory filled, all workers of the GPU together",
    peak=peak_16bit,
    conditions=("precision",),
    stand_in="without a filled memory",
    slowest=SLOWEST_TFLOPS,
)


SETTLE_SHARE = 1 / 3  # of its length at most, so that most of a short stage is measured


def plan(settings: SustainedSettings, level: LevelName, round_s: float) -> StagePlan:
    """One load, measured from its beginning."""
    load_s = settings.length_s.at(level)
    settle_s = min(settings.settle_s.at(level), load_s * SETTLE_SHARE)
    return StagePlan("sustained", load_s, settle_s=settle_s, measure_s=load_s, round_s=round_s)


@dataclass(frozen=True, slots=True)
class SustainedSpec(Spec):
    """Fill `vram_mib` with operands and multiply them in 16-bit with 32-bit accumulation for `duration_s`."""

    size: int
    vram_mib: float
    duration_s: float
    settle_s: float
    round_s: float
    memory: MemoryPlan = NO_POLICY


def spec(work: StageWork, worker: WorkerPlan, _own: SustainedSettings) -> Spec:
    """Every worker fills its share of memory and multiplies for the whole stage."""
    return SustainedSpec(
        stage=work.stage.name,
        size=worker.gemm_size,
        vram_mib=worker.vram_mib,
        duration_s=work.stage.measure_s,
        settle_s=work.stage.settle_s,
        round_s=work.stage.round_s,
        memory=worker.memory,
    )


COMBINED = "stages.sustained.combined_floor_tflops"
ROUNDING = 1e-3  # a floor is written with three or four digits
OF_THE_SUM = 0.9  # cards that share a supply and a room reach a little less together than one by one
FIRST_SHARE = 0.4  # of the printed peaks: over the 0.3 below which no floor could fail


def problems(loaded: LoadedRig, _level: LevelName) -> Iterator[str]:
    """Problems with the floor of all GPUs together."""
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
        share, _ = loaded.stated(FLOOR_UNKNOWN_SHARE if basis is None else basis.share, device)
        peak = None if device.sku is None else peak_16bit(device.sku, None)[1]
        value = peak if basis is None else basis.figure.value
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


KIND = StageKind(
    "sustained",
    "continuous",
    SustainedSettings,
    (FIGURE,),
    spec=spec,
    plan=plan,
    shortest_s=7.0,  # four windows of settled load, for the stability of its rate
    lint=problems,
    doubts=doubts,
    crew="workers",
    host_load=True,
    labels=(
        Label("precision", str, PRECISIONS, work=True),
        Label("size", int, told=True),
        # If memory did not suffice: "emergency" or "cpu" (docs/memory.md).
        Label("part", str, optional=True, work=True),
    ),
)
