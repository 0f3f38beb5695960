"""The disk stage's record besides rounds of writing and reading."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class DiskTest:
    """Where one host wrote its file, how, and how much of it was verified.

    `filesystem`: its type, such as "ext4"; `device`: what is mounted there, such as "/dev/nvme0n1p2".
    `free_gib`: what users may write of `total_gib`; `used_share`: as `df` shows it. `how`: "direct" past the
    page cache (O_DIRECT); "synced" through it, each chunk written to the disk (fdatasync) and dropped from
    the cache before it is read; "" if nothing was written. `wrong`: chunks that were not read as they were
    written. `trouble`: why it could not be measured, or not to its end, in words; empty if it was. `error`:
    the name of the system's error behind that, such as "ENOSPC"; empty if there is none.
    """

    t_s: float  # run time of its end
    stage: str
    worker: str
    subject: str
    path: str
    filesystem: str
    device: str
    how: Literal["direct", "synced", ""]
    total_gib: float
    free_gib: float
    used_share: float
    written_mib: float
    verified_mib: float
    wrong: int
    trouble: str
    error: str
