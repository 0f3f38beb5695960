"""The transfer stage's table in a profile, and the figures that rigs can state floors of."""

from typing import Annotated

from pydantic import Field

from rigproof.profiles.kinds.figures import FigureKind
from rigproof.profiles.tables.base import Positive, Share, Table
from rigproof.profiles.tables.levels import SomeLevels
from rigproof.profiles.tables.stages import OptionalSettings

STAGE = "transfer"
GB = "GB"  # 10^9 bytes that crossed the link, each counted once: the unit of these rounds
ALONE, TOGETHER = "alone", "together"  # with how many others of its host a card transfers
H2D, D2H, BOTH = "h2d", "d2h", "both"
MEANINGS = {  # of the directions, in the order of measurement
    H2D: "from pinned host memory to the card",
    D2H: "from the card to pinned host memory",
    BOTH: "both ways at once, the bytes of both counted",
}
LARGEST_MIB = 1024


class LinkFloors(Table):
    """Smallest rate one way on 16 lanes, in GB/s, by the generation of the PCIe link."""

    gen1: Positive = Field(description="PCIe Gen1.")
    gen2: Positive = Field(description="PCIe Gen2.")
    gen3: Positive = Field(description="PCIe Gen3.")
    gen4: Positive = Field(description="PCIe Gen4.")
    gen5: Positive = Field(description="PCIe Gen5.")
    gen6: Positive = Field(description="PCIe Gen6.")


class TransferSettings(OptionalSettings):
    """How fast data moves between pinned host memory and the card: each GPU of a host alone, then all."""

    of_rig = frozenset({"length_s", "setup_s", "alone_s"})

    length_s: SomeLevels = Field(
        description="Length of the part in which all GPUs of a host transfer together, in s, by level. 0: "
        "the stage does not run at that level."
    )
    setup_s: Positive = Field(
        description="Time before the first transfer that counts, in s: to pin memory and wake the links."
    )
    alone_s: Positive = Field(
        description="Time for which each GPU of a host transfers alone, one after the other, in s."
    )
    buffer_mib: Annotated[int, Field(ge=1, le=LARGEST_MIB, strict=True)] = Field(
        description="Amount of data that is copied at a time, in MiB; less on a slow link. A worker pins "
        "two and a quarter times as much host memory."
    )
    floor_x16_gbps: LinkFloors = Field(
        description="Smallest rate one way, alone, of a link with 16 lanes, in GB/s; in proportion for fewer."
    )
    both_share: Share = Field(
        description="Smallest rate both ways at once, as a share of the two floors one way together."
    )
    together_share: Share | None = Field(
        default=None,
        description="Smallest rate of a GPU while all GPUs of its host transfer, as a share of its rate "
        "alone. Left out: reported, not judged.",
    )


FIGURES = {
    direction: FigureKind(
        f"transfer_{direction}_gbps",
        meaning,
        unit="GB/s",
        precision="int64",
        own_size=True,
        bounds=(0.1, 512.0),  # Gen1 x1 carries 0.25 GB/s one way, Gen6 x16 252 both ways
        scaled=False,
        architecture=False,
        otherwise="by its PCIe link",
        labels={"direction": direction, "company": ALONE},
    )
    for direction, meaning in MEANINGS.items()
}
