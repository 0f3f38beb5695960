"""The bandwidth stage: its settings, and what each worker is told."""

import math
from dataclasses import dataclass

from pydantic import Field

from rigproof.devices.specs import Spec
from rigproof.profiles.kinds.figures import FigureKind
from rigproof.profiles.kinds.stages import Label
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.profiles.planning.planning import MIB_PER_GIB
from rigproof.profiles.tables.base import Meaningful, Positive
from rigproof.profiles.tables.sku import Figure, Sku
from rigproof.profiles.tables.stages import OptionalSettings
from rigproof.records.measurements import GB
from rigproof.stages.kind import StageKind, StageWork

STAGE, COPY = "bandwidth", "copy"
MEANINGS = {  # of the operations, in the order of measurement
    "write": "a constant is written to a buffer in VRAM",
    "read": "a buffer in VRAM is read and summed",
    COPY: "one buffer is copied to another; bytes read and written both count",
    "triad": "one buffer + 3 × another is written to a third; bytes read and written both count",
}


class BandwidthSettings(OptionalSettings):
    """How fast the device reads and writes its own memory: buffers are written, read, copied and combined."""

    # L2 caches hold up to 126 MiB (B200): of a buffer of twice that, they hold little.
    buffer_gib: Positive = Field(
        description="Size of each of the three buffers, in GiB; at most a quarter of the memory that the "
        "GPU's workers fill.",
        json_schema_extra=Meaningful(lowest=0.25, below="measures the card's cache along with its memory"),
    )


def printed(sku: Sku, _figure: Figure | None) -> tuple[str, float | None]:
    """The bandwidth that the data sheet states."""
    return "memory_bandwidth_gbps", sku.memory_bandwidth_gbps


FIGURES = {
    operation: FigureKind(
        f"memory_{operation}_gbps",
        meaning,
        unit="GB/s",
        precision="fp32",
        own_size=True,
        peak=printed,
        architecture=False,
        labels={"operation": operation},
    )
    for operation, meaning in MEANINGS.items()
}


BUFFERS = 4  # three, and room to compare two of them
ALIGNED = 64  # the length of a row is a multiple of it
SMALLEST = 256


@dataclass(frozen=True, slots=True)
class BandwidthSpec(Spec):
    """Write, read, copy and combine buffers of `size` × `size` 32-bit elements, in turn."""

    size: int
    duration_s: float
    round_s: float


def buffer_size(mib: float) -> int:
    """Side of a square fp32 matrix of that many MiB, a multiple of ALIGNED."""
    side = math.isqrt(int(mib * 2**20) // 4)
    return max(SMALLEST, side // ALIGNED * ALIGNED)


def spec(work: StageWork, worker: WorkerPlan, own: BandwidthSettings) -> Spec:
    """One worker of each device measures its memory."""
    room_mib = work.plan.vram_mib_beside(worker) / BUFFERS
    size = buffer_size(min(own.buffer_gib * MIB_PER_GIB, room_mib))
    return BandwidthSpec(STAGE, size, work.stage.measure_s, work.stage.round_s)


KIND = StageKind(
    STAGE,
    "bursts",
    BandwidthSettings,
    tuple(FIGURES.values()),
    spec=spec,
    shortest_s=3.0,
    unit=GB,
    # `operation` does not separate work: each is too short for the sensors, but all of them together are not.
    labels=(Label("operation", str), Label("size", int, told=True)),
)
