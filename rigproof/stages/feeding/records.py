"""The feeding stage's records besides rounds of generation."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class RewardBatch:
    """The rewards of one step's completions, computed on the CPU: one after the other, or in a pool.

    `timed_out`, `crashed` and `out_of_memory` strategies affect no others. `matches`: whether the rewards, in
    order, are those of the sequential run; None if there was none to compare with.
    """

    t_s: float  # run time of its end
    stage: str
    worker: str
    subject: str
    mode: Literal["sequential", "parallel"]
    processes: int
    strategies: int
    invalid: int  # rejected by the quick check, and not played
    timed_out: int
    crashed: int
    out_of_memory: int
    seconds: float
    matches: bool | None = None
