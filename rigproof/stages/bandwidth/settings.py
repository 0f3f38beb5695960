"""The bandwidth stage's table in a profile, and its figures in SKU files and floors."""

from pydantic import Field

from rigproof.profiles.kinds.figures import FigureKind
from rigproof.profiles.tables.base import Positive
from rigproof.profiles.tables.sku import Sku
from rigproof.profiles.tables.stages import OptionalSettings
from rigproof.profiles.tables.steady import Figure

STAGE, COPY = "bandwidth", "copy"
GB = "GB"  # 10^9 bytes: the unit of these rounds
MEANINGS = {  # of the operations, in the order of measurement
    "write": "a constant is written to a buffer in VRAM",
    "read": "a buffer in VRAM is read and summed",
    COPY: "one buffer is copied to another; bytes read and written both count",
    "triad": "one buffer + 3 × another is written to a third; bytes read and written both count",
}


class BandwidthSettings(OptionalSettings):
    """How fast the device reads and writes its own memory: buffers are written, read, copied and combined."""

    buffer_gib: Positive = Field(
        description="Size of each of the three buffers, in GiB; at most a quarter of the memory that the "
        "GPU's workers fill."
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
