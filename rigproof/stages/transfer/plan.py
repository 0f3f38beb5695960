"""How long the transfer stage takes."""

from rigproof.profiles.kinds.stages import StagePlan
from rigproof.profiles.tables.levels import LevelName
from rigproof.stages.transfer.settings import STAGE, TransferSettings


def planned(settings: TransferSettings, level: LevelName, round_s: float) -> StagePlan | None:
    """Set-up and the part with all GPUs; a shift for each GPU of the fullest host comes in between."""
    together_s = settings.length_s.at(level)
    if not together_s:
        return None
    return StagePlan(
        STAGE,
        expected_s=settings.setup_s + together_s,
        settle_s=0.0,
        measure_s=together_s,
        round_s=round_s,
        shift_s=settings.alone_s,
    )
