"""The messages between the driver and its actors. Plain data, so that each side needs only this module."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from rigproof.host.offers import Offers
from rigproof.host.processes import ProcessId
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.records.identity import GpuIdentity
from rigproof.records.processes import ProcessLimits
from rigproof.records.recording import Record, Sample

WorkerState = Literal["opening", "ready", "working", "finished", "failed", "broken"]


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """A host as its agent found it. `gpus` are those that Ray may assign there, in NVML order.

    `hidden`: those that the host's CUDA_VISIBLE_DEVICES (`visible_devices`) hides from Ray.
    `unlisted`: what is wrong if the driver has a card that NVML does not list.
    """

    process: ProcessId
    hostname: str
    cpus: float
    ram_gib: float
    os: str
    python_version: str
    ray_version: str
    rigproof_version: str
    torch_version: str | None
    driver_version: str | None
    nvml_error: str | None
    gpus: tuple[GpuIdentity, ...]
    hidden: tuple[GpuIdentity, ...] = ()
    visible_devices: str | None = None
    unlisted: str | None = None
    cpu_model: str | None = None
    driver_cuda: str | None = None
    offers: Offers | None = None


@dataclass(frozen=True, slots=True)
class AgentDuty:
    """An agent's orders from now on. A GPU whose reading takes longer than `stuck_s` is no longer read.

    `run_id` is that of the run that the agent takes part in; None if it only watches.
    `processes` says which changes of the GPUs' processes are reported; None: they are not watched.
    `pci_bus_ids` are those of the GPUs whose PCIe errors are watched, by subject; "" where NVML reports none.
    `driver`: the process that runs the acceptance, on whichever host; None: there is none.
    """

    node: str
    clock_offset_s: float
    rate_hz: float
    stuck_s: float
    uuids: Mapping[str, str]  # UUID to subject
    run_id: str | None = None
    processes: ProcessLimits | None = None
    pci_bus_ids: Mapping[str, str] = field(default_factory=dict)
    driver: ProcessId | None = None


@dataclass(frozen=True, slots=True)
class AgentReply:
    """Records that an agent gathered since the last poll."""

    process: ProcessId
    records: tuple[Record | Sample, ...]


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """A worker's identity. `clock_offset_s` turns its monotonic clock into run time."""

    plan: WorkerPlan
    clock_offset_s: float
    generation: int


@dataclass(frozen=True, slots=True)
class WorkerReply:
    """A worker's records and progress since the last poll.

    `task` counts the tasks it was given, `progress` the rounds that this task has finished and its signs of
    life between them.
    "failed" is a task that ended with `error`; "broken" a device that could not be opened.
    """

    process: ProcessId
    state: WorkerState
    task: int
    progress: int
    records: tuple[Record, ...]
    error: str | None = None
