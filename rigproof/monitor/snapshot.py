"""A rig at one moment, as the monitor shows it: the same data from one machine and from a cluster.

None means "not reported by this device" or "not known now"; it never means zero.
"""

from dataclasses import dataclass, field
from typing import Literal

from rigproof.monitor.limits import GpuLimits, NodeLimits
from rigproof.records.identity import DeviceKind
from rigproof.records.rates import Rate

Presence = Literal["starting", "here", "missing"]
WorkerState = Literal["starting", "ready", "working", "died", "hung", "failed", "not loaded"]


@dataclass(frozen=True, slots=True)
class ProcessNow:
    """A process on a GPU. `pid` is as the driver reports it; `sm_percent`: of the SMs, lately."""

    pid: int
    user: str | None
    name: str | None
    used_mib: float | None
    sm_percent: float | None


@dataclass(frozen=True, slots=True)
class GpuNow:
    """One promised GPU. `reason`: why it is missing, or is no longer queried.

    `reading_age_s` and `coverage_share` (readings received, of those due) show how well its driver answers.
    Errors and Xids are counted from the monitor's start. `idle_s`: for how long it has idled without a break,
    `work_s`: has worked, by the mean of the last seconds; 0 if it does not.
    """

    subject: str
    presence: Presence
    limits: GpuLimits = field(default_factory=GpuLimits)
    reason: str | None = None
    uuid: str | None = None
    name: str | None = None
    reading_age_s: float | None = None
    coverage_share: float | None = None
    utilization_percent: float | None = None
    memory_used_mib: float | None = None
    memory_total_mib: float | None = None
    core_temperature_c: float | None = None
    memory_temperature_c: float | None = None
    power_average_w: float | None = None
    idle_s: float | None = None
    work_s: float | None = None
    sm_clock_mhz: float | None = None
    sm_clock_max_mhz: float | None = None
    memory_clock_mhz: float | None = None
    memory_clock_max_mhz: float | None = None
    clock_event_reasons: int | None = None  # NVML's bit mask: all that were set in the last seconds
    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    ecc_uncorrected: int | None = None
    ecc_corrected: int | None = None
    xids: tuple[int, ...] | None = None  # None: this driver reports none
    fan_percent: float | None = None  # of its highest speed, read every ten seconds
    processes: tuple[ProcessNow, ...] | None = None  # None: the driver does not list them
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeNow:
    """One promised host. CPU and wake-up delays are over the last seconds."""

    name: str
    presence: Presence
    limits: NodeLimits = field(default_factory=NodeLimits)
    reason: str | None = None
    cpus: float | None = None
    driver_version: str | None = None
    reading_age_s: float | None = None
    cpu_percent: float | None = None
    cpu_temperature_c: float | None = None
    load_1m: float | None = None
    ram_used_mib: float | None = None
    ram_total_mib: float | None = None
    swap_used_mib: float | None = None
    wakeup_p99_ms: float | None = None
    wakeup_max_ms: float | None = None
    errors: tuple[str, ...] = ()
    gpus_found: int | None = None  # promised or not
    gpus: tuple[GpuNow, ...] = ()


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
        """Of all nodes."""
        return tuple(gpu for node in self.nodes for gpu in node.gpus)

    def in_run(self, gpu: GpuNow) -> RunDevice | None:
        """What the run does on a GPU: on the same card, or, if its UUID is not known, on the same subject."""
        devices = self.run.devices if self.run is not None else ()
        same = [one for one in devices if one.uuid is not None and one.uuid == gpu.uuid]
        named = [one for one in devices if one.uuid is None and one.subject == gpu.subject]
        return next(iter([*same, *named]), None)
