"""The LAN stage: its settings, and what each worker is told."""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from rigproof.devices.specs import Spec
from rigproof.profiles.kinds.stages import Label, StagePlan
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.profiles.tables.base import Meaningful, Portion, Positive, Share, optional
from rigproof.profiles.tables.levels import LevelName, SomeLevels
from rigproof.profiles.tables.stages import OptionalSettings
from rigproof.records.measurements import MB
from rigproof.stages.kind import StageKind, StageWork

STAGE = "lan"
TCP, GLOO, NCCL, RAY = "tcp", "gloo", "nccl", "ray"  # what carries the data
SEND, BROADCAST, ALL_REDUCE, ALL_GATHER = "send", "broadcast", "all_reduce", "all_gather"
OUT, BACK, BOTH = "out", "back", "both"  # from the node that the pair names first, and to it
ALONE, TOGETHER = "alone", "together"  # while nothing, or the same, goes the other way
LIBRARIES = (GLOO, NCCL)
LATENCY_BYTES = (4, 1024)
BITS = 8
SETUP_S = 1.0  # for two processes to start and meet
LIBRARY_SETUP_S = 4.0  # for both to load torch and to connect


class LanSettings(OptionalSettings):
    """How fast each node and the next one exchange data, by TCP and by the libraries of training."""

    of_rig = frozenset({"length_s", "library_s", "ray_s"})

    length_s: SomeLevels = Field(
        description="Length of TCP's part for each pair of nodes, in s, by level: one stream there, back, "
        "and both at once. 0: the stage does not run at that level."
    )
    library_s: SomeLevels = Field(
        description="Length of the same by gloo, and between GPUs by NCCL over sockets, in s each, by level. "
        "0: TCP alone."
    )
    ray_s: SomeLevels = Field(
        description="Length of Ray's object transfer, there, back, and both at once, in s, by level: at "
        "least four objects each. 0: none."
    )
    link_mbit: Positive | None = optional(
        "Speed of the node's link, in Mbit/s, where its driver reports none (virtual machines, containers), "
        "or to insist on it. Left out: what the driver of the card reports.",
        Meaningful(10.0, 800000.0, "is no LAN", "is more than any card has"),
    )
    # A cable with a broken pair of wires falls back from gigabit to 100 Mbit/s.
    least_link_mbit: Positive = Field(
        description="A link that reports less than this, in Mbit/s, is judged as if it had it, unless the "
        "rig states `link_mbit`.",
        json_schema_extra=Meaningful(10.0, 100000.0, "accepts a broken cable", "fails sound links"),
    )
    # A core copies 2 to 4 GB/s.
    most_link_mbit: Positive = Field(
        description="A faster link than this, in Mbit/s, is judged as if it had no more: one stream keeps "
        "one core of each host busy.",
        json_schema_extra=Meaningful(1000.0, 100000.0, "asks little of fast links", "fails sound hosts"),
    )
    tcp_share: Share = Field(
        description="Smallest rate of one TCP stream, as a share of what the link carries beside headers.",
        json_schema_extra=Meaningful(0.3, 0.97, "accepts a link that has fallen back", "fails sound links"),
    )
    both_share: Share = Field(
        description="Smallest rate of each direction while both are busy, as a share of its limit alone.",
        json_schema_extra=Meaningful(0.55, 0.98, "accepts half duplex", "fails sound links"),
    )
    gloo_share: Share = Field(
        description="The same as tcp_share for gloo, on a link under 10 Gbit/s.",
        json_schema_extra=Meaningful(0.3, 0.97, "accepts a link that has fallen back", "fails sound links"),
    )
    gloo_fast_share: Share = Field(
        description="The same on a link of 10 Gbit/s and more, where one core may be the limit.",
        json_schema_extra=Meaningful(0.2, 0.97, "accepts a link that has fallen back", "fails sound links"),
    )
    nccl_share: Share = Field(
        description="The same as tcp_share for NCCL over sockets.",
        json_schema_extra=Meaningful(0.3, 0.97, "accepts a link that has fallen back", "fails sound links"),
    )
    ray_share: Share = Field(
        description="The same as tcp_share for Ray's object transfer.",
        json_schema_extra=Meaningful(0.2, 0.9, "accepts objects over another link", "fails sound stores"),
    )
    ray_most_link_mbit: Positive = Field(
        description="A faster link than this, in Mbit/s, is judged for Ray's objects as if it had no more: "
        "the stores' processes are the limit.",
        json_schema_extra=Meaningful(1000.0, 100000.0, "asks little of fast links", "fails sound hosts"),
    )
    resent_warn_share: Portion = Field(
        description="Largest share of TCP segments that may be sent again; with more it warns.",
        json_schema_extra=Meaningful(1e-5, 0.01, "warns of sound links", "is silent about a bad cable"),
    )
    resent_share: Portion = Field(
        description="Largest share of TCP segments that may be sent again; with more it fails.",
        json_schema_extra=Meaningful(1e-4, 0.05, "fails sound links", "accepts a bad cable"),
    )
    errors_warn_share: Portion = Field(
        description="Most errors that cards may count meanwhile, as a share of TCP's packets; more warns.",
        json_schema_extra=Meaningful(1e-6, 0.01, "warns of sound cables", "is silent about a bad cable"),
    )
    waiting_share: Portion = Field(
        description="A rate that misses its limit is not the link's if for this share of the time a sending "
        "or receiving thread waited for a CPU, or its host stood still.",
        json_schema_extra=Meaningful(0.02, 0.5, "excuses slow links", "blames links for busy hosts"),
    )
    busy_share: Share = Field(
        description="A rate that misses its limit only warns if a sending or receiving thread used a CPU for "
        "this share of the time: a core was the limit, not the link.",
        json_schema_extra=Meaningful(lowest=0.7, below="excuses slow links"),
    )


@dataclass(frozen=True, slots=True)
class LanEnd:
    """One node's end of the way between two: the interface that it goes through, as its driver sees it.

    `link_mbit`: the speed of the card, of a bond that of its slowest card; None if its driver reports none.
    `full_duplex`, `mtu`: None if they are not known. `interface`: empty if it was not found.
    """

    t_s: float
    stage: str
    worker: str
    subject: str
    node: str
    address: str
    interface: str
    kind: str
    link_mbit: float | None
    full_duplex: bool | None
    mtu: int | None


@dataclass(frozen=True, slots=True)
class LanTraffic:
    """What one end saw of one way's traffic, from before its first to after its last byte.

    `mb`: of the data alone, 10^6 bytes. `card_mb`: what the interface counted in that direction, everybody's.
    `sent`, `resent`: TCP segments of this very connection, by the sender; None if the kernel does not say.
    `errors`, `drops`: of the interface meanwhile. `cpu_share`: of the time, for which the thread (of gloo and
    NCCL the process, all its threads; of Ray its process of the node) used a CPU; `waiting_share`: for which
    it waited for one.
    """

    t_s: float
    stage: str
    worker: str
    subject: str
    node: str
    traffic: str
    operation: str
    direction: str
    company: str
    role: Literal["sender", "receiver"]
    seconds: float
    mb: float
    card_mb: float | None
    sent: int | None
    resent: int | None
    errors: int | None
    drops: int | None
    cpu_share: float
    waiting_share: float | None


@dataclass(frozen=True, slots=True)
class LanLatency:
    """How long a message takes there and back, halved, in ms; reported by the first end of a pair."""

    t_s: float
    stage: str
    worker: str
    subject: str
    traffic: str
    size: int  # bytes
    count: int
    median_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class LanSpec(Spec):
    """Exchange data with the other node of the crew: TCP for `tcp_s`, then libraries, and Ray for `ray_s`."""

    node: str
    cuda: bool  # whether this node's worker has a GPU, so that NCCL can be measured with one that has
    tcp_s: float
    library_s: float
    ray_s: float
    round_s: float


def planned(settings: LanSettings, level: LevelName, round_s: float) -> StagePlan | None:
    """TCP's part, then that of two libraries and of Ray, for each pair."""
    tcp_s, library_s, ray_s = (
        one.at(level) for one in (settings.length_s, settings.library_s, settings.ray_s)
    )
    if not tcp_s:
        return None
    libraries_s = LIBRARY_SETUP_S + len(LIBRARIES) * library_s if library_s else 0.0
    objects_s = SETUP_S + ray_s if ray_s else 0.0
    return StagePlan(
        STAGE,
        expected_s=SETUP_S + tcp_s + libraries_s + objects_s,
        settle_s=0.0,
        measure_s=tcp_s,
        round_s=round_s,
    )


def spec(work: StageWork, worker: WorkerPlan, own: LanSettings) -> Spec:
    """Any worker of a node can stand for it."""
    return LanSpec(
        stage=STAGE,
        node=worker.node,
        cuda=worker.device == "cuda",
        tcp_s=work.stage.measure_s,
        library_s=own.library_s.at(work.plan.level),
        ray_s=own.ray_s.at(work.plan.level),
        round_s=work.stage.round_s,
    )


KIND = StageKind(
    STAGE,
    "idle",
    LanSettings,
    spec=spec,
    crew="node_ring",
    plan=planned,
    unit=MB,
    labels=(
        Label("traffic", str, (TCP, *LIBRARIES, RAY), work=True),
        Label("operation", str, (SEND, BROADCAST, ALL_REDUCE, ALL_GATHER), work=True),
        Label("direction", str, work=True),
        Label("company", str, (ALONE, TOGETHER), work=True),
    ),
    events={
        "lan_silent": "nothing came from the other node although its process works, or it could not be "
        "reached; data.traffic",
        "lan_unable": "a library could not be used between two nodes; data.traffic",
        "lan_wrong": "what arrived from the other node is not what was sent; data.traffic",
    },
)
