"""Who took part in a run: the run itself, its nodes, GPUs and workers; and what a host has before one."""

from dataclasses import dataclass, field
from typing import Any, Literal

DeviceKind = Literal["cuda", "cpu"]


@dataclass(frozen=True, slots=True)
class RunInfo:
    """One run of the suite, as it was planned.

    `rig` is the resolved profile (`Rig.model_dump(mode="json")`), so that a Recording can be judged
    again without the files it came from. `stages` names the stages of the level, in order. `profile` has the
    files that state the rig, in full, each with the digest of its tables; none for what was found here.
    `tags` are its user's words for what the run does not see, such as `paste=new`.
    """

    run_id: str
    started_at: str  # UTC, ISO 8601, ends in "Z"
    level: str
    rigproof_version: str
    python_version: str
    rig: dict[str, Any]
    stages: tuple[str, ...]
    simulated: bool = False
    command: tuple[str, ...] = ()
    utc_offset_s: int | None = None  # of the driver's time zone; None in recordings of versions without it
    profile: dict[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """A promised node that answered. `clock_offset_s` converts its monotonic clock into run time."""

    subject: str
    hostname: str
    address: str
    cpus: float  # usable: the cgroup's quota if there is one, else logical CPUs
    ram_gib: float
    os: str
    python_version: str
    ray_version: str
    torch_version: str | None
    driver_version: str | None
    nvml_error: str | None  # why NVML does not answer here, and after the last `; ` what to do
    agent_pid: int
    clock_offset_s: float
    clock_error_s: float  # half of the round trip in which the offset was read
    cpu_model: str | None = None  # None in recordings of versions that did not read it
    driver_cuda: str | None = None  # the newest CUDA that the driver supports, such as "13.0"
    torch_cuda: str | None = None  # the one that the installed torch was built for
    nouveau: bool | None = None  # whether the kernel has loaded that driver
    host_cpus: int | None = None  # of the host, whatever may be used of them
    host_ram_gib: float | None = None
    shm_gib: float | None = None  # size of /dev/shm


@dataclass(frozen=True, slots=True)
class GpuIdentity:
    """A device found on a node, matched to the promised subject. Limits ≤ 0 are stored as None.

    The CPU as the device has `device="cpu"`, the subject `node/cpu0`, and None for what only NVML reports.
    """

    subject: str
    device: DeviceKind
    uuid: str
    name: str
    index: int  # NVML order, which is PCI bus order
    memory_total_mib: float
    sku: str | None = None  # file stem in hwprofiles/gpus, None if unknown
    pci_bus_id: str | None = None
    compute_capability: tuple[int, int] | None = None
    power_limit_w: float | None = None  # enforced now
    power_limit_default_w: float | None = None
    sm_clock_max_mhz: float | None = None
    memory_clock_max_mhz: float | None = None
    temperature_gpu_max_c: float | None = None
    temperature_memory_max_c: float | None = None
    temperature_slowdown_c: float | None = None
    temperature_shutdown_c: float | None = None
    slowdown_margin_c: float | None = None  # the thermal margin at which it slows down; 0 or less
    pcie_generation_max: int | None = None
    pcie_width_max: int | None = None
    ecc_enabled: bool | None = None
    ecc_pending: bool | None = None  # the mode after the next restart
    display_active: bool | None = None
    xid_supported: bool = False
    vbios_version: str | None = None
    brand: str | None = None  # NVML's, such as "geforce_rtx" or "nvidia"
    compute_mode: str | None = None  # NVML's, such as "default" or "exclusive_process"
    persistence: bool | None = None
    mig_enabled: bool | None = None
    mig_pending: bool | None = None  # after the next reset
    virtualization: str | None = None  # "none", "passthrough", "vgpu", "host_vgpu" or "host_vsga"


@dataclass(frozen=True, slots=True)
class WorkerIdentity:
    """One worker process as it actually started. `uuid` is the GPU it got, read inside the worker."""

    worker: str  # "pc1/gpu0#0"
    subject: str  # the promised device
    node: str
    device: DeviceKind
    uuid: str
    pid: int
    t_s: float
    torch_version: str
    cuda_version: str | None
    precisions: tuple[str, ...]
    generation: int = 0  # 0 for the first process, 1 for its first replacement, …
    sms: int | None = None  # streaming multiprocessors available to it, read inside the worker


@dataclass(frozen=True, slots=True)
class HostInventory:
    """One host as found. `gpus` may be used, and are in NVML order; their subjects are `<hostname>/gpuN`.

    `hidden_by`: the setting that hides GPUs here, as `CUDA_VISIBLE_DEVICES=0`, whether or not there are any;
    `hidden`: those that are known to be hidden. `setting_error`: what is wrong with that setting.
    `named_by`: a setting that names GPUs where there is no driver at all.
    """

    hostname: str
    cpus: float  # usable: the cgroup's quota if there is one, else logical CPUs
    ram_gib: float
    driver_version: str | None
    nvml_error: str | None  # why NVML does not answer; None without any GPU: no driver is installed
    gpus: tuple[GpuIdentity, ...]
    hidden: tuple[GpuIdentity, ...] = ()
    hidden_by: str | None = None
    setting_error: str | None = None
    named_by: str | None = None

    @property
    def all_hidden(self) -> bool:
        """Whether a setting hides every GPU on purpose, so that it does not matter which are there."""
        return self.hidden_by is not None and not self.gpus and self.setting_error is None

    @property
    def doubt(self) -> str | None:
        """Why `gpus` may not be all that are meant to be used, and what to do; None if there is no doubt."""
        return self.setting_error or (None if self.all_hidden else self.nvml_error)
