"""The length of the gemm stage at a level."""

from rigproof.profiles.kinds.stages import StagePlan
from rigproof.profiles.tables.levels import LevelName
from rigproof.profiles.tables.sku import PRECISIONS
from rigproof.stages.gemm.settings import GemmSettings

# Precisions after the first settle for this share of its time: the card is hot and at its power cap by then.
LATER_SETTLE_SHARE = 0.25
# Measured rounds of a precision at least, even if they take long on a busy device.
FEWEST_ROUNDS = 4
# One round in so many multiplies golden operands, whose products are held against exact arithmetic.
EXACT_EVERY = 10
PRECISIONS_AT_MOST = len(PRECISIONS)


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
