"""The work of a healthy card over the seconds of each stage, and the power and clock that it takes.

The card and its worker are simulated in different processes. Both use this timetable, so that the power,
clock and utilisation of a moment match the rounds of that moment.

Each `Work` was measured on H200s and an H100 of 700 W, in the folders of reports/samples named beside it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rigproof.profiles.tables.sku import PRECISIONS, Sku

ROUND_S = 0.5  # the target length of a round in the levels of minutes
FILL_S = 0.5  # until the memory is filled and the first product is done
BOOST_S = 1.5  # until the power cap applies: 1.5 to 2.3 s at 1980 MHz in the samples' sustained stages


@dataclass(frozen=True, slots=True)
class Work:
    """How one kind of work loads a card at its default power limit.

    `clock`: the share of the highest clock that the card keeps; `power`: mean draw, as a share of the limit;
    `power_noise` and `clock_noise`: standard deviations of single readings, as shares.
    """

    clock: float
    power: float
    power_noise: float
    clock_noise: float


# 16-bit products without a break, two H200: 1470 MHz (1440 to 1470), 696 W (658 to 715); an H100:
# 1380 MHz, 653 to 760 W.
MULTIPLYING = Work(0.735, 0.99, 0.015, 0.005)
FILLING = Work(1.0, 0.79, 0.04, 0.0)  # the first seconds: 1980 MHz, 555 W (441 to 612)


@dataclass(frozen=True, slots=True)
class Segment:
    """One kind of work from `from_s` to `to_s` of a stage. Between segments, processes only hold the card.

    `boost_s`: for this long the power cap does not apply yet.
    """

    from_s: float
    to_s: float
    work: Work
    part: str = ""
    precision: str = ""
    batch: int = 0
    number: int = 1  # of processes that share the card
    boost_s: float = 0.0


def measured_precisions(sku: Sku) -> tuple[str, ...]:
    """The measured precisions that the SKU has."""
    return tuple(name for name in PRECISIONS if getattr(sku.peak_tflops, name) is not None)


def half_of(precisions: Sequence[str]) -> str:
    """The 16-bit precision that a card with these works in."""
    return "bf16" if "bf16" in precisions else "fp16"


def at(segments: Sequence[Segment], stage_t_s: float) -> Segment | None:
    """The segment at that second of the stage; None if there is none."""
    for segment in segments:
        if segment.from_s <= stage_t_s < segment.to_s:
            return segment
    return None


def at_rest(_plan: object, _work: object) -> Iterator[Segment]:
    """The work of cards that rest while their host is measured. A function, which can be pickled."""
    return iter(())
