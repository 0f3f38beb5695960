"""What the feeding stage records besides rounds of generation."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class RewardBatch:
    """The rewards of one step's completions, computed on the CPU: all in one process, or in a pool.

    `timed_out`, `crashed` and `out_of_memory` strategies cost only themselves. `matches`: the rewards, in
    order, are those of the sequential run; None where there was none to compare with.
    """

    t_s: float  # run time of its end
    stage: str
    worker: str
    subject: str
    mode: Literal["sequential", "parallel"]
    processes: int
    strategies: int
    invalid: int  # found by the quick validation, and not run
    timed_out: int
    crashed: int
    out_of_memory: int
    seconds: float
    matches: bool | None = None
