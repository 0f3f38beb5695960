"""The RAM stage's record besides rounds of copies and of passes over the memory."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RamTest:
    """How much of one host's RAM was tested with patterns, at the end of the test. All sizes in MiB.

    `total_mib`, `available_mib`: what may be used (of the cgroup's limit, if there is one), and what of it
    was free before the test. `passes`: the patterns that were written and verified completely. `wrong`: words
    that differed. `cut_short`: why less was tested than the time allowed; empty if it was not.
    """

    t_s: float  # run time of its end
    stage: str
    worker: str
    subject: str
    threads: int
    total_mib: float
    available_mib: float
    reserve_mib: float
    cache_mib: float  # of the CPU's last level, all together; 0 if unknown
    tested_mib: float
    passes: int
    wrong: int
    cut_short: str
