"""How long the gemm stage takes at a level."""

from typing import get_args

from rigproof.profiles.planning.plan import StagePlan
from rigproof.profiles.tables.models import Level, Precision

# Precisions after the first settle for this share of its time: the card is hot and at its power cap by then.
LATER_SETTLE_SHARE = 0.25
# Rounds of a precision that are measured at least, however long they take on a busy device.
FEWEST_ROUNDS = 4
PRECISIONS_AT_MOST = len(get_args(Precision))


def plan(level: Level) -> StagePlan:
    """For the card with the most precisions; none of the level's lengths may be missing."""
    settle_s, measure_s, round_s = level.gemm_settle_s, level.gemm_measure_s, level.round_s
    assert settle_s is not None
    assert measure_s is not None
    assert round_s is not None
    settling_s = settle_s * (1 + (PRECISIONS_AT_MOST - 1) * LATER_SETTLE_SHARE)
    return StagePlan(
        name="gemm",
        expected_s=settling_s + PRECISIONS_AT_MOST * measure_s,
        settle_s=settle_s,
        measure_s=measure_s,
        round_s=round_s,
    )
