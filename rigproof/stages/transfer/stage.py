"""The transfer stage: its settings, and what each worker is told."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from rigproof.devices.specs import Spec
from rigproof.profiles.kinds.figures import FigureKind
from rigproof.profiles.kinds.stages import Label, StagePlan
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.profiles.tables.base import Meaningful, Positive, Share, Table, optional
from rigproof.profiles.tables.levels import LevelName, SomeLevels
from rigproof.profiles.tables.stages import OptionalSettings
from rigproof.records.measurements import GB
from rigproof.stages.kind import StageKind, StageWork

STAGE = "transfer"
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
    # 1 GiB takes 0.4 s to pin.
    setup_s: Positive = Field(
        description="Time before the first transfer that counts, in s: to pin memory and wake the links.",
        json_schema_extra=Meaningful(
            lowest=0.2, below="is over before the memory is pinned and the links are awake"
        ),
    )
    alone_s: Positive = Field(
        description="Time for which each GPU of a host transfers alone, one after the other, in s.",
        json_schema_extra=Meaningful(
            0.1, 2.0, "leaves too few copies for a rate", "makes a host with many GPUs wait for minutes"
        ),
    )
    # On an H200, 64 MiB give the rate of 1 GiB; at 8 MiB a launch is 3 % of the copy.
    buffer_mib: Annotated[int, Field(ge=1, le=LARGEST_MIB, strict=True)] = Field(
        description="Amount of data that is copied at a time, in MiB; less on a slow link. A worker pins "
        "two and a quarter times as much host memory.",
        json_schema_extra=Meaningful(lowest=8, below="measures the launch of a copy along with it"),
    )
    floor_x16_gbps: LinkFloors = Field(
        description="Smallest rate one way, alone, of a link with 16 lanes, in GB/s; in proportion for fewer."
    )
    # Full duplex gives 1.4 to 1.8 of one way on H100 and H200: 0.7 to 0.9 of both.
    both_share: Share = Field(
        description="Smallest rate both ways at once, as a share of the two floors one way together.",
        json_schema_extra=Meaningful(0.3, 0.95, "passes a link that stalls both ways", "fails sound cards"),
    )
    both_champion_share: Share | None = optional(
        "Floor of the rate both ways at once, as a share of this GPU's champion, where that is less than by "
        "limits.champion_share.",
        Meaningful(0.5, 0.95, "passes a link at half its rate", "fails sound cards of a busy host"),
    )
    # Eight cards behind one switch have an eighth each.
    together_share: Share | None = optional(
        "Smallest rate of a GPU while all GPUs of its host transfer, as a share of its rate "
        "alone. Left out: reported, not judged.",
        Meaningful(0.05, 0.97, "passes even eight cards on the lanes of a half", "fails sound cards"),
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


def planned(settings: TransferSettings, level: LevelName, round_s: float) -> StagePlan | None:
    """Set-up and the part with all GPUs; a shift for each GPU of the fullest host comes in between."""
    together_s = settings.length_s.at(level)
    if not together_s:
        return None
    return StagePlan(
        STAGE,
        expected_s=settings.setup_s + together_s,
        settle_s=0.0,
        measure_s=together_s,
        round_s=round_s,
        shift_s=settings.alone_s,
    )


BUFFERS = 5  # of device memory: four, and room to compare them
WAKE_SHARE = 0.2  # of a shift: to wake the link, and to find out how much to copy at a time
LEAST_SHARE = 0.5  # of a shift: in less there is no time for enough rounds


@dataclass(frozen=True, slots=True)
class Slot:
    """When a direction is measured, in seconds since the stage began."""

    direction: str
    company: str
    from_s: float
    to_s: float


@dataclass(frozen=True, slots=True)
class TransferSpec(Spec):
    """Copy between host and device: alone in the `shift` of this device, then with all others of the host.

    `shifts` is the number of devices of the rig's fullest host; each has `shift_s`. The times count from the
    moment at which all workers begin (`WorkerContext.crew`), after `setup_s`.
    """

    mib: int  # of each buffer
    shift: int
    shifts: int
    setup_s: float
    shift_s: float
    together_s: float

    @property
    def alone_from_s(self) -> float:
        """When its own shift begins."""
        return self.setup_s + self.shift * self.shift_s

    @property
    def together_from_s(self) -> float:
        """When the last shift of the rig ends."""
        return self.setup_s + self.shifts * self.shift_s

    @property
    def alone_to_s(self) -> float:
        """When its own shift ends."""
        return self.alone_from_s + self.shift_s

    def alone(self, ready_s: float) -> tuple[Slot, ...]:
        """The directions one after the other, in equal parts of the rest of its shift; none if too short.

        `ready_s`: when the set-up is over, if that is later than the beginning of the shift.
        """
        begin_s = max(self.alone_from_s, ready_s)
        left_s = self.alone_to_s - begin_s
        if left_s < LEAST_SHARE * self.shift_s:
            return ()
        return tuple(_slots(ALONE, begin_s + WAKE_SHARE * left_s, self.alone_to_s))

    def together(self) -> tuple[Slot, ...]:
        """The directions one after the other, while all other GPUs of the host transfer, too."""
        return tuple(_slots(TOGETHER, self.together_from_s, self.together_from_s + self.together_s))


def _slots(company: str, from_s: float, to_s: float) -> Iterator[Slot]:
    each_s = (to_s - from_s) / len(MEANINGS)
    for place, direction in enumerate(MEANINGS):
        yield Slot(direction, company, from_s + place * each_s, from_s + (place + 1) * each_s)


def spec(work: StageWork, worker: WorkerPlan, own: TransferSettings) -> Spec:
    """One worker of each device; the devices of a host take their shifts in the profile's order."""
    stage = work.stage
    return TransferSpec(
        stage.name,
        mib=max(1, int(min(own.buffer_mib, work.plan.vram_mib_beside(worker) / BUFFERS))),
        shift=work.on_host[worker.node].index(worker),
        shifts=stage.shifts,
        setup_s=own.setup_s,
        shift_s=stage.shift_s,
        together_s=stage.measure_s,
    )


KIND = StageKind(
    STAGE,
    "rests",
    TransferSettings,
    tuple(FIGURES.values()),
    spec=spec,
    plan=planned,
    unit=GB,
    labels=(Label("direction", str), Label("company", str), Label("mib", int, told=True, may_shrink=True)),
    events={"turn_missed": "a card was not ready when its turn to transfer alone came; data.late_s"},
)
