"""What a healthy card works on, second by second of each stage, and what that work asks of it.

The card and its worker are simulated in different processes. Both go by this, so that the power, the clock
and the utilisation of a moment belong to the rounds of that moment.

Each `Work` is measured, on H200s and an H100 of 700 W: in the folders of reports/samples named beside it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from rigproof.profiles.planning.plan import FEWEST_GEMM_ROUNDS, LATER_SETTLE_SHARE, StagePlan
from rigproof.profiles.tables.models import Precision, Sku
from rigproof.profiles.tables.work import Training

ROUND_S = 0.5  # as long as a round is aimed at in the levels of minutes
FILL_S = 0.5  # until the memory is filled and the first product is done
BOOST_S = 1.5  # the cap bites later: 1.5 to 2.3 s at 1980 MHz in each sustained stage of reports/samples
TRAINING_SETUP, TRAINING_ROUND, TRAINING_ROUNDS = 0.03, 0.017, 7  # shares of the stage; rounds of a precision
SCALER_SHARE = 0.015  # fp16's first steps wait for the host: 0.7 s at 121 W (an H200)
SEARCH_SHARES, SWEEP_ROUND, SWEEP_ROUNDS = (0.015, 0.015, 0.015), 0.005, 7
GENERATES_FROM, GENERATES_TO = 0.2, 0.95  # of the feeding stage; rewards are compared before and after
# Of each number's time: processes start and fill their memory; of the rest, until they have settled.
SHARING_PAUSE, SHARING_WARM_UP = 0.2, 0.2


@dataclass(frozen=True, slots=True)
class Work:
    """What one kind of work does to a card at its default power limit.

    `clock`: share of the highest clock that it keeps; `power`: mean draw, of the limit; `power_noise` and
    `clock_noise`: standard deviations of single readings, as shares.
    """

    clock: float
    power: float
    power_noise: float
    clock_noise: float


# Two H200, gemm: bf16 1455 MHz (1410 to 1485), 687 W (639 to 725), fp16 1410, tf32 1478, and
# fp32 1950 MHz at 704 W (661 to 734); two H100: 1395, 1335, 1380 and 1950 MHz, up to 774 W.
GEMM = {
    "bf16": Work(0.735, 0.99, 0.022, 0.009),
    "fp16": Work(0.71, 0.99, 0.022, 0.009),
    "tf32": Work(0.745, 0.99, 0.025, 0.012),
    "fp32": Work(0.985, 0.99, 0.022, 0.007),
}
# The same, sustained: 1470 MHz (1440 to 1470), 696 W (658 to 715); the H100 1380 MHz, 653 to 760 W.
SUSTAINED = Work(0.735, 0.99, 0.015, 0.005)
# One H200, training: fp32 1965 to 1980 MHz and 663 W (633 to 750), tf32
# 1770 MHz (1545 to 1905) and 676 W (580 to 828), fp16 1605 MHz (1335 to 1950) and 704 W (510 to 829).
TRAINING = {
    "fp32": Work(0.99, 0.975, 0.035, 0.003),
    "tf32": Work(0.894, 0.985, 0.05, 0.03),
    "fp16": Work(0.80, 0.98, 0.06, 0.04),
}
SEARCH = Work(0.745, 0.98, 0.06, 0.03)  # 1485 MHz, 151 to 889 W: its probes are short
SWEEP_SMALL = Work(0.99, 0.85, 0.06, 0.004)  # batches up to 4: 1935 to 1980 MHz, 528 to 665 W
SWEEP_LARGE = Work(0.78, 0.98, 0.06, 0.03)
GENERATION = Work(1.0, 0.953, 0.015, 0.0)  # 1980 MHz throughout, 667 W (636 to 683), no reason
SHARED = Work(0.78, 0.985, 0.045, 0.02)  # two and three processes: 1545 MHz (1470 to 1620), 579 to 792 W
FILLING = Work(1.0, 0.79, 0.04, 0.0)  # the first seconds: 1980 MHz, 555 W (441 to 612)


@dataclass(frozen=True, slots=True)
class Segment:
    """From `from_s` to `to_s` of a stage: one kind of work. Between segments processes only hold the card.

    `boost_s`: for so long the power cap does not bite yet.
    """

    from_s: float
    to_s: float
    work: Work
    part: str = ""
    precision: str = ""
    batch: int = 0
    number: int = 1  # of processes that share the card
    boost_s: float = 0.0


def timetable(
    stages: Sequence[StagePlan],
    precisions: Sequence[str],
    half: str,
    training: Training,
    numbers: Sequence[int],
) -> dict[str, tuple[Segment, ...]]:
    """The segments of each planned stage, by its name.

    `precisions` are the card's, `half` the 16-bit one that it works in; `numbers`: of processes sharing it.
    """
    return {plan.name: tuple(_segments(plan, precisions, half, training, numbers)) for plan in stages}


def measured_precisions(sku: Sku) -> tuple[str, ...]:
    """Those that the SKU has, of the four that are measured."""
    return tuple(name for name in get_args(Precision) if getattr(sku.peak_tflops, name) is not None)


def half_of(precisions: Sequence[str]) -> str:
    """The 16-bit one that a card with these works in."""
    return "bf16" if "bf16" in precisions else "fp16"


def at(segments: Sequence[Segment], stage_t_s: float) -> Segment | None:
    """What goes on at that second of the stage; None where nothing does."""
    for segment in segments:
        if segment.from_s <= stage_t_s < segment.to_s:
            return segment
    return None


def _segments(
    plan: StagePlan, precisions: Sequence[str], half: str, training: Training, numbers: Sequence[int]
) -> Iterator[Segment]:
    length_s = plan.expected_s
    match plan.name:
        case "gemm":
            yield from _gemm(plan, precisions)
        case "sustained":
            yield Segment(FILL_S, length_s, SUSTAINED, precision=half, boost_s=BOOST_S)
        case "training":
            yield from _training(length_s, precisions, training)
        case "feeding":
            from_s, to_s = GENERATES_FROM * length_s, GENERATES_TO * length_s
            yield Segment(from_s, to_s, GENERATION, part="generate", precision="bf16")
        case "sharing":
            yield from _sharing(length_s, half, numbers)
        case name:
            raise ValueError(f"nobody has said what a card does in the {name} stage")


def _gemm(plan: StagePlan, precisions: Sequence[str]) -> Iterator[Segment]:
    """One precision after the other, each for its time to settle and to be measured."""
    from_s = 0.0
    for number, precision in enumerate(precisions):
        settle_s = plan.settle_s * (LATER_SETTLE_SHARE if number else 1.0)
        to_s = from_s + settle_s + gemm_measured_s(plan.round_s, plan.measure_s)
        first_s, boost_s = (0.0, 0.0) if number else (FILL_S, min(BOOST_S, max(0.0, settle_s - FILL_S)))
        yield Segment(from_s + first_s, to_s, GEMM[precision], precision=precision, boost_s=boost_s)
        from_s = to_s


def gemm_round_s(aimed_s: float, measure_s: float) -> float:
    """Length of a round of the gemm stage."""
    return max(aimed_s, min(ROUND_S, measure_s / FEWEST_GEMM_ROUNDS))


def gemm_measured_s(aimed_s: float, measure_s: float) -> float:
    """For how long a precision is measured."""
    return max(measure_s, FEWEST_GEMM_ROUNDS * gemm_round_s(aimed_s, measure_s))


def _training(length_s: float, precisions: Sequence[str], training: Training) -> Iterator[Segment]:
    """The compared precisions, the probes of the search, the batches of the sweep; set-up in between."""
    t_s = TRAINING_SETUP * length_s
    batch, best = training.batch or 1, ""
    for best in (one for one in TRAINING if one in precisions):
        t_s += SCALER_SHARE * length_s if best == "fp16" else 0.0
        to_s = t_s + TRAINING_ROUNDS * TRAINING_ROUND * length_s
        yield Segment(t_s, to_s, TRAINING[best], "precision", best, batch)
        t_s = to_s
    for share in SEARCH_SHARES if training.search else ():
        yield Segment(t_s, t_s + share * length_s, SEARCH, "search", best, batch)
        t_s += share * length_s
    for tried in training.batches or ():
        work = SWEEP_SMALL if tried < batch else SWEEP_LARGE
        to_s = t_s + (SWEEP_ROUNDS + 1) * SWEEP_ROUND * length_s
        yield Segment(t_s, to_s, work, "sweep", best, tried)
        t_s = to_s


def _sharing(length_s: float, half: str, numbers: Sequence[int]) -> Iterator[Segment]:
    """One number of processes after the other; each begins with their start."""
    each_s = length_s / len(numbers)
    for place, number in enumerate(numbers):
        from_s, to_s = (place + SHARING_PAUSE) * each_s, (place + 1) * each_s
        boost_s = min(BOOST_S, SHARING_WARM_UP * (to_s - from_s))
        work = SUSTAINED if number == 1 else SHARED
        yield Segment(from_s, to_s, work, precision=half, number=number, boost_s=boost_s)
