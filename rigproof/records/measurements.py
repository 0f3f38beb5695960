"""What workers and agents report besides samples: rounds and their rates, counters, memory, events."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from rigproof.records.identity import DeviceKind

Phase = Literal["warmup", "measure", "exact"]
Labels = Mapping[str, str | int]
TFLOP = "TFLOP"  # 10^12 operations: the unit of work of matrix products, alone or inside larger computations
MB = "MB"  # 10^6 bytes: the unit of what crosses a network, or goes to a disk
GB = "GB"  # 10^9 bytes: the unit of copies, of what is read and written, and of what crosses a link


@dataclass(frozen=True, slots=True)
class Round:
    """A batch of equal work timed by the device's own clock, its result verified.

    `work / seconds` is the rate, in `unit` per second. `verified` is True only if the result was compared
    with a reference that was itself checked against higher precision. A rate counts the rounds of phase
    `measure`; `warmup` is also what ended when not all processes worked any more. `labels` are those that the
    stage declares: what the work was, and which process did it.
    """

    t_s: float  # run time of the round's end
    stage: str
    worker: str
    subject: str
    phase: Phase
    seconds: float
    work: float
    unit: str
    verified: bool
    labels: Labels = field(default_factory=dict)
    device: DeviceKind | None = None  # the one that did the work, if it is not the promised one
    host_paced: bool | None = None  # whether the device waited for its host to launch it; None: not observed

    def label(self, name: str) -> str | int | None:
        """The label of that name; None if it has none."""
        return self.labels.get(name)


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """A worker's allocator, read while it works. All in MiB; `device_free_mib` is for the whole device."""

    t_s: float
    stage: str
    worker: str
    subject: str
    allocated_mib: float
    reserved_mib: float
    peak_reserved_mib: float
    device_free_mib: float | None
    device_total_mib: float | None
    ooms: int | None = None  # the allocator's own count; None if it keeps none
    alloc_retries: int | None = None


@dataclass(frozen=True, slots=True)
class GpuCounters:
    """A GPU's error counters and what it reports of its health, read once before and once after the load."""

    t_s: float
    subject: str
    moment: Literal["before", "after"]
    ecc_uncorrected: int | None = None  # volatile, total
    ecc_corrected: int | None = None
    remapped_uncorrectable: int | None = None
    remapped_correctable: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    retired_pages: int | None = None
    pcie_replays: int | None = None
    fan_percent: float | None = None  # of its highest speed; None: it has no fan of its own
    recovery_action: int | None = None  # nvmlDeviceGpuRecoveryAction_t: what the driver asks for; 0: nothing
    power_capped_s: float | None = None  # how long the clock was lowered for this reason so far
    sync_boost_s: float | None = None
    sw_thermal_s: float | None = None
    hw_thermal_s: float | None = None
    power_brake_s: float | None = None
    remap_spares: tuple[int, ...] | None = None  # banks with all, most, some, few and no spare rows left
    sram_threshold_exceeded: bool | None = None  # by uncorrectable errors, over the card's life
    channel_repair_pending: bool | None = None
    tpc_repair_pending: bool | None = None
    inforom_valid: bool | None = None  # its checksum
    nvlinks: tuple[bool | None, ...] | None = None  # by link: whether it is active; None: it has none here
    nvlink_replays: tuple[int | None, ...] | None = None  # by link; None: not counted, or not active
    nvlink_recoveries: tuple[int | None, ...] | None = None
    nvlink_crc_errors: tuple[int | None, ...] | None = None
    fabric_state: str | None = None  # of NVML's FabricState, such as "completed"
    fabric_status: int | None = None  # an NVML code, of a completed one; 0: success
    fabric_health: int | None = None  # NVML_GPU_FABRIC_HEALTH_MASK_*


@dataclass(frozen=True, slots=True)
class BootReading:
    """A host's boot id (random(4)), new after each boot, read by its agent before and after the load.

    None if it cannot be read, or is a container's own; `reason` says which.
    """

    t_s: float
    subject: str  # the node
    moment: Literal["before", "after"]
    boot_id: str | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ForeignMemory:
    """VRAM that other processes hold before our first worker starts."""

    t_s: float
    subject: str
    used_mib: float | None
    pids: tuple[int, ...] | None  # None if the process list is not readable
    reserved_mib: float | None = None  # by the driver itself, of the whole card


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage that was begun. `end_s` is None while it runs, and if the run was cut short inside it.

    `status`: "running"; "finished"; "partial" (some workers did not finish); "failed"; "interrupted".
    """

    name: str
    start_s: float
    end_s: float | None = None
    status: Literal["running", "finished", "partial", "failed", "interrupted"] = "running"
    workers: tuple[str, ...] = ()
    # The window in which all workers were under load, after start-up: criteria judge inside it.
    loaded_from_s: float | None = None
    loaded_to_s: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    lap: int = 1  # in a run that goes round its stages several times


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at a moment. `kind` is one of EVENT_KINDS, or one that its stage declares.

    `data.disturbed` of a lost agent or worker: this is not the rig's doing; what to do before running again.
    """

    t_s: float
    kind: str
    subject: str
    message: str
    stage: str | None = None
    worker: str | None = None
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """How many happened: of wrong results, `data.unreported` counts those since the report before."""
        unreported = self.data.get("unreported")
        return 1 + (unreported if isinstance(unreported, int) and unreported > 0 else 0)


EVENT_KINDS = {
    "start_up": "when the parts of the start ended, run time; data.process_s (its beginning), ended_s",
    "worker_up": "when a worker's process began, had loaded torch and opened its device; data.process_s, …",
    "node_missing": "a promised node is not in the cluster",
    "node_lost": "a node disappeared during the run",
    "gpu_missing": "a promised GPU is not on its node",
    "gpu_taken": "a promised GPU could not be reserved: another job of the cluster holds it",
    "gpu_skipped": "a GPU was deliberately not loaded; the message says why",
    "gpu_lost": "a GPU no longer answers; data.query",
    "agent_died": "a node agent died or stopped answering",
    "worker_died": "a worker process ended by itself or was killed from outside",
    "worker_hung": "a worker made no progress within its limit and was killed",
    "worker_replaced": "a new process took over the worker's place",
    "worker_failed": "a worker's task ended with an error; data.error holds it",
    "crew_failed": "workers that work together did not begin, or lost one of them; data.workers, size",
    "rank_stuck": "a rank of a group was silent past its deadline, or held; data.rank, held, operation, …",
    "rank_died": "the process of a rank of a group failed or was killed; data.rank, status, sequence, …",
    "blamed": "a device, node or link spoils what others exchange with it; data.kind, devices, named, apart",
    "set_apart": "a device takes no part in what others exchange: it was blamed before or is lost; data.lost",
    "not_told": "devices do not exchange data as they should, and which one is to blame cannot be told",
    "timeout": "a wait passed its deadline; data.limit_s holds it",
    "oom_kills": "how many processes the kernel's OOM killer has ended on a host so far; data.killed",
    "oom": "an allocation ran out of memory; data.requested_mib, recovered, holders",
    "memory_policy": "a decision on how a worker takes VRAM; data.technique, before, after, unit, reason",
    "reference": "checksums of correct products, by their operands' seeds; data.precision, size, torch, …",
    "allocation": "a worker's allocation step succeeded; data.allocated_mib, data.target_mib",
    "wrong_result": "a result differed from its reference",
    "xid": "the driver reported an Xid; data.xid",
    "nvml_error": "an NVML query failed; data.query, data.code",
    "sampling_gap": "the sampler missed grid points; data.missed",
    "host_load": "what the CPU load did; data.primary_threads, own_percent, foreign_percent, foreign",
    "host_reset": "a host restarted under this run, without an orderly shutdown; data.run_id, gpus",
    "driver_killed": "this run was ended from outside, without a reset; data.run_id",
    "unfinished_run": "an earlier run on this host was ended from outside; data.run_id, restarted",
    "black_box": "a host's black box could not be written, or was late; the message says why",
    "champions": "the best rates before this run, which floors come from; data.gpus, by UUIDs and figure",
    "earlier_rates": "a card's rates in earlier runs under the same conditions; data.figures, problems",
    "rejected_before": "earlier runs rejected this card",
    "open_cluster": "a cluster without token authentication was joined, as the user allowed; data.address",
    "measured_again": "a rate missed its limit by little: the message says which stage is measured again",
    "left_out": "a criterion was not requested; data.criterion, the message says why",
    "paused": "the driver itself was stopped for a while; data.paused_s",
    "interrupted": "the run was stopped from outside; data.signal",
    "storage": "the recording could not be written; data.error",
}


RECENT_S = 5.0


@dataclass(frozen=True, slots=True)
class Rate:
    """`value` in `unit`, such as 71.3 TFLOP/s."""

    value: float
    unit: str


class FigureRate(NamedTuple):
    """The rate that a criterion measured for one figure of a stage, and the work that it is the rate of.

    `labels`: what the rounds of another rate must have, too, for the two to be comparable. `workers`:
    processes that did the work together. `floor`: what the rate was held against; None if there was none.
    `host_paced`: it is the host's, and no champion or earlier rate of the card's.
    """

    figure: str  # FigureKind.name; of a team the criterion's name
    value: float
    unit: str
    labels: Labels
    workers: int
    floor: float | None = None
    host_paced: bool = False


def unit_of_rate(unit: str) -> str:
    """The unit of a rate, from that of the work."""
    return f"{unit}/s"


def rate_of(rounds: Sequence[Round]) -> Rate | None:
    """The current rate of one device, all workers together; None without rounds.

    Work over the time from the first begin to the last end of the rounds that ended within RECENT_S of the
    newest. Work in another unit than the newest round's is not part of it.
    """
    if not rounds:
        return None
    newest = max(rounds, key=lambda one: one.t_s)
    recent = [one for one in rounds if one.unit == newest.unit and one.t_s > newest.t_s - RECENT_S]
    length_s = newest.t_s - min(one.t_s - one.seconds for one in recent)
    if length_s <= 0:
        return None
    return Rate(sum(one.work for one in recent) / length_s, unit_of_rate(newest.unit))
