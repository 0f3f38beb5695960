"""The peer stage: its settings, what each worker is told, and what it records of each pair."""

from dataclasses import dataclass
from importlib import import_module
from typing import Annotated

from pydantic import Field

from rigproof.devices.further import Further
from rigproof.devices.specs import Spec
from rigproof.profiles.kinds.stages import Label, StagePlan
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.profiles.planning.subjects import round_robin, subjects
from rigproof.profiles.tables.base import Meaningful, Positive, Share, Table, optional
from rigproof.profiles.tables.levels import LevelName, SomeLevels
from rigproof.profiles.tables.stages import OptionalSettings
from rigproof.records.measurements import GB
from rigproof.records.recording import Recording
from rigproof.stages.kind import StageKind, StageWork

STAGE = "peer"
THERE, BACK, BOTH = "there", "back", "both"  # from the GPU that the profile names first, and to it
ENGINE, KERNEL = "engine", "kernel"  # a copy engine; a kernel that stores into the other GPU's memory
Arm = tuple[str, str]  # by what, and which way
FIRST_ARMS = ((ENGINE, THERE), (ENGINE, BACK), (ENGINE, BOTH), (KERNEL, THERE), (KERNEL, BACK))
ARMS = (*FIRST_ARMS, (KERNEL, BOTH))  # a spec without `arms`, of an older run, had the first ones
WORDS = {
    (ENGINE, THERE): "to the second",
    (ENGINE, BACK): "to the first",
    (ENGINE, BOTH): "both at once",
    (KERNEL, THERE): "to the second by kernel",
    (KERNEL, BACK): "to the first by kernel",
    (KERNEL, BOTH): "both at once by kernel",
}
LARGEST_MIB = 4096
BUFFERS = 7  # of a GPU's memory: what it sends, receives and expects, and room to make and compare numbers


class LinkRates(Table):
    """Nominal rate of an NVLink in one direction, in GB/s, by the compute capability of its GPU."""

    cc_6_0: Positive = Field(description="P100.")
    cc_7_0: Positive = Field(description="V100.")
    cc_7_5: Positive = Field(description="Turing, by a bridge.")
    cc_8_0: Positive = Field(description="A100.")
    cc_8_6: Positive = Field(description="RTX 3090, A40, A6000 and others, by a bridge.")
    cc_9_0: Positive = Field(description="H100, H200, H20.")
    cc_10_0: Positive = Field(description="B200.")
    cc_10_3: Positive = Field(description="B300.")


class PeerSettings(OptionalSettings):
    """How fast, and how rightly, every two GPUs of a host copy to each other."""

    of_rig = frozenset({"length_s", "setup_s"})

    length_s: SomeLevels = Field(
        description="Time for each pair of GPUs of a host, one after the other, in s, by level: both ways, "
        "both at once, and by both means. 0: the stage does not run at that level."
    )
    setup_s: Positive = Field(
        description="Time that the process which sees all GPUs of a host takes to start, in s. Only the "
        "expected time of the run depends on it."
    )
    # At 64 MiB an H100's NVLinks need 0.16 ms, of which queueing the copy is a tenth.
    buffer_mib: Annotated[int, Field(ge=1, le=LARGEST_MIB, strict=True)] = Field(
        description="Amount of data that is copied at a time, in MiB; less on a slow link. Each GPU of a "
        "pair needs seven times as much.",
        json_schema_extra=Meaningful(lowest=8, below="measures the launch of a copy along with it"),
    )
    nvlink_gbps: LinkRates = Field(
        description="Nominal rate of one NVLink in one direction, in GB/s, by compute capability."
    )
    nvlink_share: Share = Field(
        description="Smallest rate one way over NVLink, as a share of the nominal one of the links between "
        "the two.",
        json_schema_extra=Meaningful(0.3, 0.95, "passes GPUs with half of their links", "fails sound ones"),
    )
    pcie_share: Share = Field(
        description="Smallest rate one way of direct copies over PCIe, as a share of the nominal one of the "
        "slower link of the two.",
        json_schema_extra=Meaningful(0.1, 0.9, "passes nearly anything", "fails sound GPUs"),
    )
    host_share: Share = Field(
        description="Smallest rate one way of copies through the host's memory, as a share of the slowest "
        "transfer between it and the two GPUs, each alone.",
        json_schema_extra=Meaningful(0.1, 0.9, "passes nearly anything", "fails sound GPUs"),
    )
    both_share: Share = Field(
        description="Smallest rate both ways at once, as a share of the two floors one way together, by copy "
        "engine and by a kernel.",
        json_schema_extra=Meaningful(0.3, 0.95, "passes a link that stalls both ways", "fails sound GPUs"),
    )
    kernel_share: Share = Field(
        description="Smallest rate of a kernel that stores into the other GPU's memory, as a share of the "
        "floor of the copy engine.",
        json_schema_extra=Meaningful(0.1, 0.95, "passes nearly anything", "fails sound GPUs"),
    )
    peer_share: Share = Field(
        description="Smallest rate, each way and both at once, as a share of the median of the other pairs "
        "of such GPUs that are connected in the same way, by the same means.",
        json_schema_extra=Meaningful(0.5, 0.98, "passes a pair at half of the rate", "fails sound GPUs"),
    )
    floor_gbps: Positive | None = optional(
        "Smallest rate one way between two GPUs of a host, in GB/s. It takes the place of "
        "nvlink_share, pcie_share and host_share. Left out: none.",
        Meaningful(lowest=0.2, below="is less than a single lane of PCIe Gen1 carries"),
    )


@dataclass(frozen=True, slots=True)
class PeerLink:
    """How two GPUs are connected. What NVML does not tell is None or empty.

    `there`, `back`: whether the first can reach the second's memory directly, and the other way round.
    `why`: why not, in NVML's words. `nvlinks`: active links between the two, over a switch if `switched`.
    `path`: the nearest thing that their PCIe links have in common. `mib`: how much was copied at a time.
    """

    t_s: float  # run time at which it was measured
    stage: str
    worker: str
    subject: str
    there: bool
    back: bool
    why: str
    nvlinks: int | None
    switched: bool
    path: str
    mib: int

    @property
    def direct(self) -> bool:
        """Whether both reach each other directly."""
        return self.there and self.back


Pair = tuple[str, int, int]  # its subject, and the numbers of its GPUs


@dataclass(frozen=True, slots=True)
class PeerSpec(Spec):
    """Copy between all `pairs` of a host's GPUs, `pair_s` each, in all `arms` that the two can have.

    `uuids`: those of the GPUs, by number.
    """

    uuids: tuple[str, ...]
    pairs: tuple[Pair, ...]  # in the order in which they are measured
    mib: int  # of each buffer
    pair_s: float
    setup_s: float
    arms: tuple[Arm, ...] = ARMS


def planned(settings: PeerSettings, level: LevelName, round_s: float) -> StagePlan | None:
    """Set-up; the time of each pair of the fullest host is added as a shift."""
    pair_s = settings.length_s.at(level)
    if not pair_s:
        return None
    return StagePlan(
        STAGE, expected_s=settings.setup_s, settle_s=0.0, measure_s=pair_s, round_s=round_s, shift_s=pair_s
    )


def spec(work: StageWork, worker: WorkerPlan, own: PeerSettings) -> Spec:
    """The same for all workers of a host, of which the first one that is there has the work done.

    Pairs of a GPU that is not there, or lost, are left out.
    """
    everyone = (one.subject for one in work.on_host[worker.node])
    promised = [one for one in everyone if work.devices[one].gpu.device == "cuda"]
    on_host = [one for one in promised if one in work.gpus]
    texts = {one.members: one.text for one in subjects(work.loaded, "peers")}
    return PeerSpec(
        STAGE,
        uuids=tuple(work.gpus[one].uuid for one in on_host),
        pairs=tuple(
            (texts[on_host[first], on_host[second]], first, second)
            for turn in round_robin(len(on_host))
            for first, second in turn
        ),
        mib=max(1, int(min(own.buffer_mib, work.plan.vram_mib_beside(worker) / BUFFERS))),
        pair_s=work.stage.measure_s,
        setup_s=own.setup_s,
    )


def _one_process(_own: PeerSettings) -> int:
    """On each GPU: that of the host's first worker, which sees all of them."""
    return 1


def further(work: StageWork, recording: Recording) -> Further | None:
    """No further turn: which GPUs others had better exchange data without."""
    asked: Further | None = import_module("rigproof.stages.peer.criteria").further(work, recording)
    return asked


KIND = StageKind(
    STAGE,
    "rests",
    PeerSettings,
    spec=spec,
    plan=planned,
    further=further,
    crew="neighbours",
    spawns=_one_process,
    apart="first",
    exchanges=True,
    unit=GB,
    labels=(
        Label("way", str, (THERE, BACK, BOTH), work=True),
        Label("by", str, (ENGINE, KERNEL), work=True),
        Label("mib", int),
    ),
    events={
        "pair_begun": "the copies between two GPUs begin",
        "peers_ended": "the process that copies between the GPUs of a host ended before it was done",
    },
    quiet_events=("pair_begun",),
)
