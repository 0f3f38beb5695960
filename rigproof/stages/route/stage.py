"""The route stage: its settings, what each node's worker is told, and what it records."""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from rigproof.devices.specs import Spec
from rigproof.host.connections import Outcome
from rigproof.host.interfaces import InterfaceKind
from rigproof.profiles.kinds.stages import Label
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.profiles.tables.base import Meaningful, Positive
from rigproof.profiles.tables.levels import SomeLevels
from rigproof.profiles.tables.stages import OptionalSettings
from rigproof.records.measurements import MB
from rigproof.stages.kind import StageKind, StageWork

STAGE = "route"
Arm = Literal["as it is", "pinned"]
AS_IT_IS: Arm = "as it is"
PINNED: Arm = "pinned"
Library = Literal["gloo", "NCCL", "Ray"]
# Of the library itself: it was done, gave a wrong answer, failed or hung; "broken": its process, or what it
# needs, failed otherwise; "left out": nodes have no GPU for it.
Came = Literal["done", "wrong", "failed", "hung", "broken", "left out"]
GLOO, NCCL = "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"
DECIDING = (GLOO, NCCL, "NCCL_SOCKET_FAMILY", "NCCL_COMM_ID")  # variables that decide the interface


class RouteSettings(OptionalSettings):
    """Which ways there are between the nodes, and whether the training libraries take the best of them."""

    length_s: SomeLevels = Field(
        description="About the length of the stage, in s, by level: it ends when its work is done. 0: the "
        "stage does not run at that level."
    )
    # Short bursts vary by a fifth on a busy PC; the next faster kind of port has 2.5 times as much.
    faster_factor: Positive = Field(
        description="The way that is taken fails if another one between the same nodes is so many times as "
        "fast, by bursts or, where a burst is more than the slower port carries or one CPU core is the limit "
        "of both, by what their ports state.",
        json_schema_extra=Meaningful(
            1.3, 5, "takes noise for a faster way", "accepts 2.5 Gbit/s where there are 10"
        ),
    )
    # A cable that has lost one of its pairs carries 100 Mbit/s instead of 1000.
    least_mbps: Positive = Field(
        description="Smallest speed, in Mbit/s, of Ethernet ports that are taken, where the driver says it.",
        json_schema_extra=Meaningful(lowest=100, below="accepts ports that nobody trains over"),
    )
    # Hosts that follow a time server agree to within some ms; file times are compared by seconds.
    clock_warn_s: Positive = Field(
        description="Clocks that differ by more than this, in s, warn.",
        json_schema_extra=Meaningful(0.05, 300, "warns of clocks that were set by hand", "breaks TLS"),
    )


@dataclass(frozen=True, slots=True)
class LanNode:
    """What one node has, and takes, for traffic with the others. Lists are separated by blanks.

    `resolves`: the addresses of its own name, in the resolver's order. `gloo`, `ray`: the addresses that they
    take; `nccl`: the interfaces, that of its bootstrap first. `best`: the interface of the network that
    joins most nodes best, and `network` that network; empty if there is none. `ahead_s`: of the wall clock of
    the node that all others meet at, ± `ahead_error_s`; None if they did not meet. `trouble`: what kept it
    from meeting the others, None if nothing did; `missing`: nodes that did not come.
    """

    t_s: float  # run time of its end
    stage: str
    worker: str
    subject: str
    hostname: str
    resolves: str
    gloo: str
    nccl: str
    ray: str
    variables: str
    best: str
    network: str
    ahead_s: float | None
    ahead_error_s: float | None
    trouble: Outcome | None
    meets_at: str  # the node that all meet at
    missing: str


@dataclass(frozen=True, slots=True)
class LanInterface:
    """One network interface of a node (`rigproof.host.interfaces.Interface`)."""

    t_s: float
    stage: str
    worker: str
    subject: str
    name: str
    kind: InterfaceKind
    addresses: str
    mtu: int
    speed_mbps: int | None
    full_duplex: bool | None
    up: bool


@dataclass(frozen=True, slots=True)
class LanProbe:
    """One way from a node to another, from address `source` on `interface`, to address `target`.

    `network`: that both addresses are in, such as "192.168.1.0/24"; "routed" if there is none. `mbps`: of a
    short burst, in Mbit/s. Sizes are of IP packets that may not be fragmented: `full` is the interface's
    own MTU, or what the path has told to be its (`told`), `passed` the largest that the other end reported.
    `passed` is 0 if none of UDP was answered.
    """

    t_s: float
    stage: str
    worker: str
    subject: str
    to: str
    interface: str
    source: str
    to_interface: str
    target: str
    network: str
    outcome: Outcome
    mbps: float | None
    full: int
    passed: int
    told: int | None


@dataclass(frozen=True, slots=True)
class LanArm:
    """An all-reduce between a node and its neighbours, `arm` "as it is" or "pinned" to an interface.

    Of Ray, an object that each takes from the store of the next one. `shares`: of the bytes that were sent
    meanwhile by any interface, by `names`.
    `sent_mb`: all of them, of at least `payload_mb`.
    """

    t_s: float
    stage: str
    worker: str
    subject: str
    arm: Arm
    interface: str  # that it was pinned to; empty if it was not
    outcome: Came
    message: str
    payload_mb: float
    sent_mb: float
    names: str
    shares: tuple[float, ...] | None  # None: not counted
    library: Library | None = None  # None in older recordings, of gloo alone: see `by`

    @property
    def by(self) -> Library:
        """The library."""
        return self.library or "gloo"


@dataclass(frozen=True, slots=True)
class RouteSpec(Spec):
    """Look at the ways between `nodes`, by rank, for about `duration_s`. `gpus`: whose workers have one."""

    nodes: tuple[str, ...]
    duration_s: float
    gpus: tuple[bool, ...]


def spec(work: StageWork, _worker: WorkerPlan, _own: RouteSettings) -> Spec:
    """Any worker of a node can look for its ways to the others."""
    nodes = tuple(dict.fromkeys(device.node for device in work.loaded.devices()))
    gpus = {node: workers[0].device == "cuda" for node, workers in work.on_host.items()}
    return RouteSpec(STAGE, nodes, work.stage.measure_s, tuple(gpus.get(node, False) for node in nodes))


KIND = StageKind(
    STAGE,
    "idle",
    RouteSettings,
    spec=spec,
    crew="network",
    unit=MB,
    labels=(Label("to", str), Label("over", str)),  # an interface, or `gloo as it is`
)
