"""How long the sustained stage takes at a level."""

from rigproof.profiles.planning.plan import StagePlan
from rigproof.profiles.tables.models import Level

SETTLE_SHARE = 1 / 3  # of its length at most, so that most of a short one is measured


def plan(level: Level) -> StagePlan:
    """None of the level's lengths may be missing."""
    settle_s, load_s, round_s = level.gemm_settle_s, level.sustained_s, level.round_s
    assert settle_s is not None
    assert load_s is not None
    assert round_s is not None
    settle_s = min(settle_s, load_s * SETTLE_SHARE)
    return StagePlan("sustained", load_s, settle_s=settle_s, measure_s=load_s, round_s=round_s)
