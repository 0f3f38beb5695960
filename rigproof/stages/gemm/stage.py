"""The gemm stage: its settings, and what each worker is told."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from rigproof.criteria.evidence.loads import SHORTEST_S
from rigproof.devices.specs import Spec
from rigproof.profiles.kinds.figures import SLOWEST_TFLOPS, FigureKind, peak_of
from rigproof.profiles.kinds.stages import Label, StagePlan
from rigproof.profiles.lint.stated import rig_problem
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.profiles.planning.planning import device_plan
from rigproof.profiles.tables.levels import EveryLevel, LevelName
from rigproof.profiles.tables.sku import PRECISIONS
from rigproof.profiles.tables.stages import StageSettings
from rigproof.stages.kind import StageKind, StageWork


class GemmSettings(StageSettings):
    """The steady rate of matrix products on each device, in one precision after the other."""

    of_rig: ClassVar[frozenset[str]] = frozenset({"settle_s", "measure_s"})

    settle_s: EveryLevel = Field(
        description="Longest warm-up of the first precision, in s, by level; it ends once the rate is "
        "steady. The later precisions get a quarter of it."
    )
    measure_s: EveryLevel = Field(
        description="Time, in s, by level, for which each precision is then measured."
    )


MEANINGS = {
    "fp32": "large matrix products of fp32 operands, without tensor cores",
    "tf32": "large matrix products of fp32 operands on tensor cores",
    "fp16": "large matrix products of fp16 operands, accumulated in 32 bits",
    "bf16": "large matrix products of bf16 operands, accumulated in 32 bits",
    "fp8": "large matrix products of fp8 operands, accumulated in 32 bits",
}
FIGURES = {
    precision: FigureKind(
        f"gemm_{precision}_tflops",
        meaning,
        precision=precision,
        products=True,
        peak=peak_of(precision),
        slowest=SLOWEST_TFLOPS,
        labels={"precision": precision},
    )
    for precision, meaning in MEANINGS.items()
}


# Precisions after the first settle for this share of its time: the card is hot and at its power cap by then.
LATER_SETTLE_SHARE = 0.25
# Measured rounds of a precision at least, even if they take long on a busy device. In simulation sound cards
# are accepted with four, and rejected with two.
FEWEST_ROUNDS = 4
# One round in so many multiplies golden operands, whose products are held against exact arithmetic.
EXACT_EVERY = 10
PRECISIONS_AT_MOST = len(PRECISIONS)
SHORT_MS = 0.15  # of a product: virtual CPUs of a shared host took 0.14 to 0.30 ms to launch one


def plan(settings: GemmSettings, level: LevelName, round_s: float) -> StagePlan:
    """The plan, for a card with all precisions."""
    settle_s, measure_s = settings.settle_s.at(level), settings.measure_s.at(level)
    settling_s = settle_s * (1 + (PRECISIONS_AT_MOST - 1) * LATER_SETTLE_SHARE)
    return StagePlan(
        name="gemm",
        expected_s=settling_s + PRECISIONS_AT_MOST * measure_s,
        settle_s=settle_s,
        measure_s=measure_s,
        round_s=round_s,
    )


@dataclass(frozen=True, slots=True)
class GemmSpec(Spec):
    """Measure one device's steady GEMM rate, precision by precision.

    If `precisions` is empty, all that the device has. Each precision warms up until its rate
    settles, at most `settle_s` for the first and a quarter of that for the others, then measures for
    `measure_s`.
    """

    size: int
    precisions: tuple[str, ...]
    settle_s: float
    measure_s: float
    round_s: float


def spec(work: StageWork, worker: WorkerPlan, _own: GemmSettings) -> Spec:
    """One worker of each device measures every precision that the device has."""
    return GemmSpec(
        stage=work.stage.name,
        size=worker.gemm_size,
        precisions=(),
        settle_s=work.stage.settle_s,
        measure_s=work.stage.measure_s,
        round_s=work.stage.round_s,
    )


def problems(loaded: LoadedRig, level: LevelName) -> Iterator[str]:
    """Problems with the measuring time of each precision at this level, for a rig with a GPU."""
    measure_s = loaded.settings(GemmSettings).measure_s.at(level)
    with_gpu = any(device.gpu.device == "cuda" for device in loaded.devices())
    if with_gpu and 0 < measure_s < SHORTEST_S:
        wrong = f"clock, power and activity of a GPU are judged over {SHORTEST_S:g} s of work or more"
        key = f"stages.gemm.measure_s.{level}"
        yield rig_problem(loaded, key, measure_s, wrong, f"write {SHORTEST_S:g} or more")
    round_s = loaded.rig.levels.round_s.at(level)
    if measure_s > 0 and round_s * FEWEST_ROUNDS > measure_s:
        wrong = f"leaves fewer than {FEWEST_ROUNDS} rounds in the {measure_s:g} s of each precision"
        key = f"levels.round_s.{level}"
        yield rig_problem(loaded, key, round_s, wrong, f"write {measure_s / FEWEST_ROUNDS:g} or less")


def doubts(loaded: LoadedRig) -> Iterator[str]:
    """Remarks on cards whose products may be over before their host has launched the next one.

    None where the profile states a floor: that is for products of its size.
    """
    found: dict[str, None] = {}
    for device in loaded.devices():
        if device.sku is None or device.gpu.device != "cuda":
            continue
        size, own = device_plan(loaded, device).gemm_size, device.gpu.gemm_size is not None
        free = [one for one in FIGURES if getattr(device.gpu.floors, FIGURES[one].name) is None]
        rates = {one: rate.value for one in free if (rate := device.sku.steady.of_products(one))}
        short = [one for one, tflops in rates.items() if 2e-9 * size**3 / tflops < SHORT_MS]
        if short:
            wrong = f"a product in {', '.join(short)} lasts less than {SHORT_MS:g} ms, in which a busy host "
            wrong += "may not launch the next one: a low rate is then not measured"
            key = f"{device.key}.gemm_size" if own else "gpu_defaults.gemm_size"
            found[rig_problem(loaded, key, size, wrong, "write a larger gemm_size")] = None
    yield from found


KIND = StageKind(
    "gemm",
    "arms",
    GemmSettings,
    tuple(FIGURES.values()),
    spec=spec,
    plan=plan,
    arms="precision",
    labels=(Label("precision", str, PRECISIONS, work=True), Label("size", int, told=True)),
    lint=problems,
    doubts=doubts,
)
