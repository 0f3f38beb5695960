"""A rig at one moment, as the monitor shows it: the same data from one machine and from a cluster.

None means "not reported by this device" or "not known now"; it never means zero.
"""

from dataclasses import dataclass
from typing import Literal

from rigproof.cluster.actors.messages import AgentFacts
from rigproof.profiles.tables.limits import Limits
from rigproof.profiles.tables.node import CpuLoad, Responsiveness
from rigproof.records.identity import DeviceKind, GpuIdentity
from rigproof.records.measurements import GpuCounters, Rate
from rigproof.records.processes import MIB_PER_GIB, GpuProcess
from rigproof.records.samples import GpuSample, HostSample

Presence = Literal["starting", "here", "missing"]
WorkerState = Literal["starting", "ready", "working", "died", "hung", "failed", "not loaded"]


@dataclass(frozen=True, slots=True)
class GpuNow:
    """One promised GPU. `reason`: why it is missing, or is no longer queried.

    `limits` are the profile's; a temperature limit that it leaves open is the driver's or the SKU file's.
    `identity` is what its driver reports when the node's agent starts. `sample` is the newest reading, with
    every clock-event reason of the last seconds; it holds nothing if the newest reading is too old.
    In `counters` the memory errors are those since the monitor's start.
    `coverage_share` (readings received, of those due) shows how well the driver answers.
    `idle_s`: for how long it has idled without a break; `work_s`: has worked, by the mean of the last
    seconds. Both are 0 if it does not.
    """

    subject: str
    presence: Presence
    limits: Limits
    sample: GpuSample
    counters: GpuCounters
    identity: GpuIdentity | None = None
    uuid: str | None = None  # the found one's, else the promised one's
    reason: str | None = None
    reading_age_s: float | None = None
    coverage_share: float | None = None
    idle_s: float | None = None
    work_s: float | None = None
    xids: tuple[int, ...] | None = None  # since the monitor's start; None: this driver reports none
    processes: tuple[GpuProcess, ...] | None = None  # None: the driver does not list them
    errors: tuple[str, ...] = ()

    @property
    def name(self) -> str | None:
        """The card's name."""
        return None if self.identity is None else self.identity.name

    @property
    def memory_total_mib(self) -> float | None:
        """The card's memory."""
        return None if self.identity is None else self.identity.memory_total_mib

    @property
    def power_limit_w(self) -> float | None:
        """The limit that the driver enforced when the node's agent started."""
        return None if self.identity is None else self.identity.power_limit_w

    @property
    def headroom_mib(self) -> float | None:
        """How much of the memory has to be free."""
        return None if self.limits.headroom_gib is None else self.limits.headroom_gib * MIB_PER_GIB


@dataclass(frozen=True, slots=True)
class NodeNow:
    """One promised host. `reason`: why it is missing. `cpu` and `responsiveness` hold its limits.

    `sample` is the newest reading, with the CPU load of the last seconds; it holds nothing if the newest
    reading is too old. The wake-up delays are also those of the last seconds.
    """

    name: str
    presence: Presence
    cpu: CpuLoad
    responsiveness: Responsiveness
    sample: HostSample
    facts: AgentFacts | None = None
    reason: str | None = None
    reading_age_s: float | None = None
    wakeup_p99_ms: float | None = None
    wakeup_max_ms: float | None = None
    errors: tuple[str, ...] = ()
    gpus: tuple[GpuNow, ...] = ()

    @property
    def ram_total_mib(self) -> float | None:
        """The memory that may be used."""
        used_mib, free_mib = self.sample.ram_used_mib, self.sample.ram_available_mib
        return None if used_mib is None or free_mib is None else used_mib + free_mib

    @property
    def gpus_found(self) -> int | None:
        """How many GPUs are there, promised or not."""
        return None if self.facts is None else len(self.facts.gpus)


@dataclass(frozen=True, slots=True)
class RunWorker:
    """One worker of the run. `worker` is its name in the plan, such as pc1/gpu0#0."""

    worker: str
    state: WorkerState


@dataclass(frozen=True, slots=True)
class RunDevice:
    """One device that the run's own profile promises.

    `rate` is that of the last seconds, and `round_age_s` the time since the last round, both of this stage.
    """

    subject: str
    device: DeviceKind
    uuid: str | None
    rate: Rate | None
    round_age_s: float | None
    ooms: int
    workers: tuple[RunWorker, ...]


@dataclass(frozen=True, slots=True)
class RunStage:
    """The current stage; `expected_s` is its planned length."""

    name: str
    elapsed_s: float
    expected_s: float | None


@dataclass(frozen=True, slots=True)
class RunNow:
    """The current acceptance run, read from its recording, which is some seconds behind.

    `timeouts` are waits that passed their deadline, `losses` processes that ended or failed: messages.
    """

    run_id: str
    level: str
    simulated: bool
    elapsed_s: float | None
    silent_s: float  # since the last write
    stage: RunStage | None
    devices: tuple[RunDevice, ...]
    ooms: int
    ooms_limit: int | None
    timeouts: tuple[str, ...]
    losses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything at one moment. `errors` belong to no node; `source`: where it is from."""

    at: str  # UTC, ISO 8601, ends in "Z"
    rig: str
    source: str
    nodes: tuple[NodeNow, ...]
    run: RunNow | None = None
    errors: tuple[str, ...] = ()

    @property
    def gpus(self) -> tuple[GpuNow, ...]:
        """The GPUs of all nodes."""
        return tuple(gpu for node in self.nodes for gpu in node.gpus)

    def in_run(self, gpu: GpuNow) -> RunDevice | None:
        """What the run does on a GPU: on the same card, or, if its UUID is not known, on the same subject."""
        devices = self.run.devices if self.run is not None else ()
        same = [one for one in devices if one.uuid is not None and one.uuid == gpu.uuid]
        named = [one for one in devices if one.uuid is None and one.subject == gpu.subject]
        return next(iter([*same, *named]), None)
