"""The length of the sustained stage at a level."""

from rigproof.profiles.kinds.stages import StagePlan
from rigproof.profiles.tables.levels import LevelName
from rigproof.stages.sustained.settings import SustainedSettings

SETTLE_SHARE = 1 / 3  # of its length at most, so that most of a short stage is measured


def plan(settings: SustainedSettings, level: LevelName, round_s: float) -> StagePlan:
    """One load, measured from its beginning."""
    load_s = settings.length_s.at(level)
    settle_s = min(settings.settle_s.at(level), load_s * SETTLE_SHARE)
    return StagePlan("sustained", load_s, settle_s=settle_s, measure_s=load_s, round_s=round_s)
