"""The bandwidth stage's table in a profile, and its figures in SKU files and floors."""

from pydantic import Field

from rigproof.profiles.kinds.figures import FigureKind
from rigproof.profiles.tables.base import Positive
from rigproof.profiles.tables.levels import SomeLevels
from rigproof.profiles.tables.models import Sku
from rigproof.profiles.tables.stages import TimedSettings
from rigproof.profiles.tables.steady import Figure

STAGE, COPY = "bandwidth", "copy"
GB = "GB"  # 10^9 bytes: the unit of these rounds
MEANINGS = {  # of the operations, in the order of measurement
    "write": "a constant written to a buffer",
    "read": "a buffer summed",
    COPY: "one buffer copied to another, bytes read and written",
    "triad": "a buffer + 3 × another, into a third, bytes read and written",
}


class BandwidthSettings(TimedSettings):
    """Buffers in the device's own memory are written, read, copied and combined."""

    length_s: SomeLevels = Field(description="by level; 0 or absent: not at that level")
    buffer_gib: Positive = Field(
        description="of each of the three buffers; a quarter of the worker's memory if that is less"
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
