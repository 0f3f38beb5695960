"""The RAM stage: its settings, and what each worker is told."""

import math
from dataclasses import dataclass

from pydantic import Field

from rigproof.devices.specs import Spec
from rigproof.profiles.kinds.stages import Label
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.profiles.planning.planning import MIB_PER_GIB
from rigproof.profiles.tables.base import Meaningful, Positive, Share, optional
from rigproof.profiles.tables.levels import SomeLevels
from rigproof.profiles.tables.stages import OptionalSettings
from rigproof.records.measurements import GB
from rigproof.stages.kind import StageKind, StageWork

STAGE = "ram"
COPY, FILL, VERIFY = "copy", "fill", "verify"  # operations
LEAST_CACHES = 2  # of less memory than the caches hold so many times, they keep a part
PATTERNS = ("address", "random", "complement")  # in this order


class RamSettings(OptionalSettings):
    """How fast each host copies RAM, and whether its free RAM keeps what is written to it."""

    length_s: SomeLevels = Field(
        description="Length of the stage, in s, by level. 0: the stage does not run at that level. The more "
        "time, the more of the free memory is tested with patterns."
    )
    # Desktop CPUs have up to 128 MiB of cache. Servers have more; there four times their caches are copied.
    buffer_gib: Positive = Field(
        description="Size of what is copied, in GiB, by all threads together. Four times the CPU's caches "
        "are copied if that is more.",
        json_schema_extra=Meaningful(lowest=0.25, below="measures the CPU's cache along with its memory"),
    )
    reserve_gib: Positive = Field(
        description="RAM that always remains free, in GiB.",
        json_schema_extra=Meaningful(lowest=1.0, below="drives a host that does anything else out of memory"),
    )
    reserve_share: Share = Field(
        description="RAM that always remains free, as a share of what may be used (of the container's limit, "
        "if there is one), if that is more than reserve_gib.",
        json_schema_extra=Meaningful(highest=0.9, above="leaves next to nothing to test"),
    )
    least_gib: Positive = Field(
        description="Smallest amount of RAM, in GiB, that must have been tested with patterns. With less, "
        "the host's memory is not measured.",
        json_schema_extra=Meaningful(lowest=0.25, below="accepts a test of the CPU's cache"),
    )
    # A host that lacks one of two memory channels still has half of the rate.
    peer_share: Share = Field(
        description="Smallest rate of copies, as a share of the median of the other hosts of this kind: the "
        "same CPU model, as many CPUs, and as much RAM.",
        json_schema_extra=Meaningful(
            0.6, 0.98, "accepts a host without half of its memory channels", "fails sound hosts"
        ),
    )
    floor_gbps: Positive | None = optional(
        "Smallest rate of copies, in GB/s, bytes read and written. It takes the place of "
        "peer_share. Left out: none.",
        Meaningful(lowest=2.0, below="is less than a single module of DDR3 gives"),
    )


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


@dataclass(frozen=True, slots=True)
class RamSpec(Spec):
    """Copy RAM with `threads` threads, then test what is free beside the reserve with patterns."""

    threads: int
    buffer_mib: float
    reserve_mib: float
    reserve_share: float
    least_mib: float
    duration_s: float
    round_s: float


def spec(work: StageWork, worker: WorkerPlan, own: RamSettings) -> Spec:
    """Any worker of a node can measure its RAM, with a thread for each CPU that may be used there."""
    return RamSpec(
        stage=STAGE,
        threads=max(1, math.floor(work.cpus.get(worker.node, 1.0))),
        buffer_mib=own.buffer_gib * MIB_PER_GIB,
        reserve_mib=own.reserve_gib * MIB_PER_GIB,
        reserve_share=own.reserve_share,
        least_mib=own.least_gib * MIB_PER_GIB,
        duration_s=work.stage.measure_s,
        round_s=work.stage.round_s,
    )


KIND = StageKind(
    STAGE,
    "idle",
    RamSettings,
    spec=spec,
    crew="nodes",
    unit=GB,
    labels=(Label("operation", str), Label("content", str, optional=True), Label("threads", int)),
    events={
        "ram_error": "words of a host's RAM were not read as they were written; data.count, words",
        "ram_short": "too little RAM was free to copy",
    },
)
