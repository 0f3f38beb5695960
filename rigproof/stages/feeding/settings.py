"""The feeding stage's table in a profile."""

from typing import Annotated

from pydantic import Field

from rigproof.profiles.tables.base import Flag, Positive, Share
from rigproof.profiles.tables.levels import SomeLevels
from rigproof.profiles.tables.stages import TimedSettings
from rigproof.profiles.tables.work import Count


class FeedingSettings(TimedSettings):
    """Steps of generation on the GPU, whose completions are judged by a pool of processes on the CPU."""

    length_s: SomeLevels = Field(description="by level; 0 or absent: not at that level")
    completions: Count = Field(description="per step, each with a reward to compute")
    processes: Annotated[int, Field(ge=1, le=64, strict=True)] = Field(
        description="of the pool, at most; never more than the node has CPUs for"
    )
    strategy_s: Positive = Field(description="time limit of one strategy")
    strategy_memory_mib: Positive = Field(description="memory limit of one strategy")
    overlap: Flag = Field(description="generate the next step while the last one's rewards are computed")
    reward_speedup_share: Share = Field(
        description="least speed-up of parallel over sequential rewards, relative to the number of processes"
    )
    reward_loss_share: Share = Field(
        description="largest share of a run's valid strategies that may time out, crash or run out of memory"
    )
