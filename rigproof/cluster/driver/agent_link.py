"""One node's agent as the driver knows it, and how far its clock is from run time."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from rigproof.cluster.actors.messages import AgentDuty, AgentFacts
from rigproof.cluster.ray.calls import Poller
from rigproof.cluster.ray.matching import FoundNode
from rigproof.host.cpu_band import HostLoad
from rigproof.host.processes import ProcessId
from rigproof.records.identity import NodeIdentity


@dataclass(slots=True)
class AgentLink:
    """The driver's view of one node's agent, and what a new agent of that node has to be given.

    `poller` is None while there is no agent. `briefed`: whether the agent has got its duty.
    """

    node: str
    found: FoundNode
    poller: Poller | None
    process: ProcessId | None = None
    identity: NodeIdentity | None = None
    duty: AgentDuty | None = None
    load: HostLoad | None = None
    starts: int = 1
    briefed: bool = False
    workers: set[ProcessId] = field(default_factory=set)
    stage: tuple[str, float] | None = None  # the current stage, and since when (run time)
    steps: dict[str, str] = field(default_factory=dict)  # of its workers, not yet sent to it

    @property
    def actor(self) -> Any | None:
        """The actor to call; None while there is none."""
        return self.poller.actor if self.poller is not None else None

    @property
    def clock_offset_s(self) -> float:
        """Seconds to add to the node's monotonic clock to get run time."""
        return self.identity.clock_offset_s if self.identity is not None else 0.0

    def identify(self, facts: AgentFacts, offset_s: float, error_s: float) -> NodeIdentity:
        """Keep the node's identity as its agent found it, and its clock's offset from run time."""
        self.identity = NodeIdentity(
            subject=self.node,
            hostname=facts.hostname,
            address=self.found.address,
            cpus=facts.cpus,
            ram_gib=facts.ram_gib,
            os=facts.os,
            python_version=facts.python_version,
            ray_version=facts.ray_version,
            torch_version=facts.torch_version,
            driver_version=facts.driver_version,
            nvml_error=facts.nvml_error,
            agent_pid=facts.process.pid,
            clock_offset_s=offset_s,
            clock_error_s=error_s,
            cpu_model=facts.cpu_model,
            driver_cuda=facts.driver_cuda,
            **({} if facts.offers is None else asdict(facts.offers)),
        )
        return self.identity


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """Run time when a request was sent and answered, and the other clock as read in between."""

    sent_s: float
    answered_s: float
    remote_s: float


def clock_offset(round_trips: Iterable[RoundTrip]) -> tuple[float, float]:
    """(offset, error): run time = the other clock + offset ± error, both in seconds.

    Taken from the shortest round trip: the other clock was read in its middle, give or take half its length
    (Cristian's algorithm, 1989). ValueError without a reading.
    """
    best = min(round_trips, key=lambda one: one.answered_s - one.sent_s)
    middle_s = (best.sent_s + best.answered_s) / 2
    return middle_s - best.remote_s, (best.answered_s - best.sent_s) / 2
