"""The length of the pattern stage at a level."""

from rigproof.profiles.kinds.stages import StagePlan
from rigproof.profiles.tables.levels import LevelName
from rigproof.stages.pattern.settings import STAGE, PatternSettings

PAUSES = 2  # of bit-fade: one for set bits, one for cleared ones


def plan(settings: PatternSettings, level: LevelName, round_s: float) -> StagePlan | None:
    """The passes, then the pauses; a round is one pass, however long it takes."""
    passes_s = settings.length_s.at(level)
    if not passes_s:
        return None
    whole_s = passes_s + PAUSES * settings.fade_s.at(level)
    return StagePlan(STAGE, whole_s, settle_s=0.0, measure_s=passes_s, round_s=round_s)
