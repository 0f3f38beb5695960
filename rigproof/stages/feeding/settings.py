"""The feeding stage's table in a profile."""

from typing import Annotated

from pydantic import Field

from rigproof.profiles.tables.base import Flag, Positive, Share
from rigproof.profiles.tables.stages import OptionalSettings
from rigproof.profiles.tables.work import Count


class FeedingSettings(OptionalSettings):
    """Whether the CPU keeps the GPU busy: the GPU generates, and a pool of processes computes the rewards."""

    completions: Count = Field(
        description="Number of completions that the GPU generates in each step. The CPU computes a reward "
        "for each."
    )
    processes: Annotated[int, Field(ge=1, le=64, strict=True)] = Field(
        description="Largest number of processes that compute rewards for this GPU. The GPUs of a node "
        "share its CPUs, and no pool has more processes than its part."
    )
    strategy_s: Positive = Field(
        description="Longest CPU time, in s, that the reward of one completion (a strategy that is played) "
        "may take; ten times as long with its waits for a CPU."
    )
    strategy_memory_mib: Positive = Field(
        description="Most memory, in MiB, that the reward of one completion may take in addition to what "
        "its process has at the start."
    )
    overlap: Flag = Field(
        description="true: the GPU generates the next step while the CPU computes the rewards of the last "
        "one. false: it waits."
    )
    reward_speedup_share: Share = Field(
        description="Smallest speed-up of the pool over one process, per process: with 0.375, 8 processes "
        "are at least 3 times as fast as one. It also sets how long the GPU generates in each "
        "step."
    )
    reward_loss_share: Share = Field(
        description="Largest share of the valid completions whose reward may time out, crash or run out of "
        "memory."
    )
    own_share: Share | None = Field(
        default=None,
        description="Smallest rate of the generation, as a share of what follows from the card's own memory "
        "bandwidth (it reads all weights for each token) and products.",
    )
