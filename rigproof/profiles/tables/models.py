"""The shape of SKUs and of merged rigs; a file may leave out what the files that it extends state.

Units are in the names: `_gib` (2^30 bytes), `_mib`, `_gbps` (10^9 bytes/s), `_tflops` (10^12 FLOP/s,
dense), `_c`, `_w`, `_s`, `_percent` (0 to 100), `_share` (0 to 1). Every value's source is in a
comment beside it in the TOML file.
"""

from typing import Annotated, Literal

from pydantic import Field

from rigproof.profiles.tables.architecture import Architecture
from rigproof.profiles.tables.base import (
    Flag,
    GemmSize,
    Name,
    Overlay,
    Percent,
    Positive,
    Share,
    Table,
    Wait,
    Whole,
)
from rigproof.profiles.tables.levels import Levels
from rigproof.profiles.tables.stages import StageTables
from rigproof.profiles.tables.steady import SteadyFigures
from rigproof.profiles.tables.work import MemoryPolicy

Precision = Literal["fp32", "tf32", "fp16", "bf16"]
PRECISIONS: tuple[Precision, ...] = ("fp32", "tf32", "fp16", "bf16")


class Rates(Table):
    """TFLOP/s by precision; an absent precision is not known (or not supported)."""

    fp32: Positive | None = Field(default=None, description="without tensor cores")
    tf32: Positive | None = Field(default=None, description="fp32 operands on tensor cores")
    fp16: Positive | None = Field(default=None, description="32-bit accumulation")
    bf16: Positive | None = Field(default=None, description="32-bit accumulation")
    fp8: Positive | None = Field(default=None, description="32-bit accumulation")


class PowerPoint(Table):
    """One point of a SKU's power curve."""

    limit_share: Share = Field(description="enforced power limit / default power limit")
    rate_share: Share = Field(description="steady rate there / steady rate at the default limit")


class TemperatureLimits(Table):
    """Degrees Celsius from the SKU's own documents or NVML; NVML readings at run time take precedence."""

    max_operating_c: Positive | None = Field(
        default=None, description="core, highest the maker allows in use"
    )
    slowdown_c: Positive | None = Field(default=None, description="core, at which clocks are reduced")
    shutdown_c: Positive | None = Field(default=None, description="core, at which the card shuts down")
    memory_max_c: Positive | None = Field(default=None, description="memory, highest the maker allows in use")


class Sku(Table):
    """One GPU model: `hwprofiles/gpus/<sku>.toml`."""

    name: str = Field(description="common name")
    nvml_names: tuple[str, ...] = Field(
        min_length=1,
        description="NVML's names for it, compared without case; the longest match of the same model wins",
    )
    memory_gib: Positive = Field(description="of the card")
    memory_bandwidth_gbps: Positive = Field(description="printed")
    power_limit_w: Positive = Field(description="the default one")
    compute_capability: str | None = Field(default=None, description='such as "9.0"')
    boost_clock_mhz: Positive | None = Field(
        default=None, description="SM clock that the printed peak is for; absent: NVML's highest is compared"
    )
    sms: Annotated[int, Field(gt=0, strict=True)] | None = Field(
        default=None, description="streaming multiprocessors, if its worker does not report them"
    )
    peak_tflops: Rates = Field(description="printed, dense")
    steady: SteadyFigures = Field(
        default=SteadyFigures(), description="what it sustains when hot, each figure with its evidence"
    )
    power_curve: tuple[PowerPoint, ...] = Field(
        default=(), description="rate under lower power limits, rising"
    )
    temperature: TemperatureLimits = Field(
        default=TemperatureLimits(), description="if the maker states them; NVML's readings take precedence"
    )
    unsupported_sensors: tuple[str, ...] = Field(
        default=(), description="what its driver does not report: not applicable"
    )
    pcie_generation: Whole | None = Field(default=None, description="of the card's own link")


class Floors(Table):
    """The least that a rig's owner accepts of one GPU. An absent one falls back on the SKU file.

    The stages declare which floors there are.
    """


class Limits(Table):
    """The limits for all GPUs of a rig or (under a GPU) for that one.

    Every value is optional here; `hwprofiles/defaults.toml` fills what a rig does not state.
    """

    core_temperature_c: Positive | None = Field(
        default=None, description="under load; absent: NVML's GPU_MAX, else its SLOWDOWN, else the SKU file"
    )
    memory_temperature_c: Positive | None = Field(
        default=None, description="absent: NVML's MEM_MAX, else the SKU file"
    )
    throttle_share: Annotated[float, Field(ge=0, lt=1, strict=True)] | None = Field(
        default=None,
        description="most samples with a thermal, HW-slowdown or power-brake reason, as a share; two alone "
        "are none",
    )
    throttle_events: Annotated[int, Field(ge=0, strict=True)] | None = Field(
        default=None, description="most stretches of such samples in a run; fewer and short ones warn"
    )
    throttle_event_s: Annotated[float, Field(ge=0, strict=True)] | None = Field(
        default=None, description="longest such stretch that only warns"
    )
    clock_ratio_share: Share | None = Field(
        default=None,
        description="least SM clock under load, of the boost clock that the SKU file states",
    )
    clock_unknown_share: Share | None = Field(
        default=None, description="least SM clock of a card without a stated boost clock, of NVML's highest"
    )
    clock_capped_power_share: Share | None = Field(
        default=None,
        description="least median power, of the enforced limit, at which the power cap explains a low clock",
    )
    power_cap_fail_share: Share | None = Field(
        default=None,
        description="an enforced power limit under this share of the card's default fails; absent: it warns",
    )
    active_utilization_share: Share | None = Field(
        default=None,
        description="least mean utilisation under load, if the driver reports no power limit",
    )
    power_over_limit_share: Positive | None = Field(
        default=None, description="most power (1 s average), of the enforced limit: 1.05 is 5 % over it"
    )
    active_power_share: Share | None = Field(
        default=None, description="least mean power under load, of the enforced limit"
    )
    active_work_share: Share | None = Field(
        default=None, description="least share of 1 s windows with verified work"
    )
    stability_worst_window_share: Share | None = Field(
        default=None,
        description="least rate of the worst 5 s window, of the median; of one process alone, "
        "of the rate of all; of a training step in the sweep, of the same step before",
    )
    peer_share: Share | None = Field(
        default=None,
        description="least sustained rate, of the median of the other GPUs of its SKU with the same work",
    )
    headroom_gib: Annotated[float, Field(ge=0, strict=True)] | None = Field(
        default=None, description="least free VRAM at the peak"
    )
    marginal_share: Annotated[float, Field(ge=0, lt=1, strict=True)] | None = Field(
        default=None,
        description="of its limit: a rate that misses it by less is measured once more; 0 or absent: never",
    )
    success_share: Share | None = Field(
        default=None, description="least share of tasks that end well, and of rounds that are verified"
    )
    champion_share: Share | None = Field(
        default=None,
        description="floor of a rate, of this GPU's champion; absent: champions are no floor",
    )
    floor_measured_share: Share | None = Field(
        default=None,
        description="floor of a rate, of a figure of the SKU file that was measured on floor_cards cards, "
        "at this size, with one worker, with this torch",
    )
    floor_similar_share: Share | None = Field(
        default=None, description="of one measured on fewer cards, at another size or with another torch"
    )
    floor_printed_share: Share | None = Field(
        default=None, description="of one that is only printed, or that others say they reached"
    )
    floor_unknown_share: Share | None = Field(
        default=None,
        description="where no figure is known: of what the lower rate class of the architecture does at the "
        "clock that was measured",
    )
    floor_sharing_share: Share | None = Field(
        default=None, description="of those floors, if several workers share the device"
    )
    floor_cards: Annotated[int, Field(gt=0, strict=True)] | None = Field(
        default=None, description="cards behind a figure that counts as measured well"
    )
    ceiling_share: Positive | None = Field(
        default=None, description="of the SKU file's printed peak: a rate above it is a measurement error"
    )
    ooms: Annotated[int, Field(ge=0, strict=True)] | None = Field(
        default=None, description="failed allocations allowed"
    )
    ecc_uncorrected: Annotated[int, Field(ge=0, strict=True)] | None = Field(
        default=None, description="new uncorrected memory errors allowed in a run"
    )
    remapped_rows_fail: Annotated[int, Field(gt=0, strict=True)] | None = Field(
        default=None, description="this many uncorrectable remapped rows fail"
    )
    retired_pages_fail: Annotated[int, Field(gt=0, strict=True)] | None = Field(
        default=None, description="this many retired pages fail"
    )
    retired_pages_warn: Annotated[int, Field(gt=0, strict=True)] | None = Field(
        default=None, description="more retired pages than this warn"
    )
    pcie_generation: Annotated[int, Field(ge=1, le=10, strict=True)] | None = Field(
        default=None, description="of the slot, if it is lower than NVML reports; absent: NVML's"
    )
    pcie_width: Annotated[int, Field(ge=1, le=32, strict=True)] | None = Field(
        default=None, description="lanes of the slot, if they are fewer than NVML reports; absent: NVML's"
    )
    pcie_replays_warn: Annotated[float, Field(ge=0, strict=True)] | None = Field(
        default=None, description="more PCIe replays a minute than this warn"
    )
    xid_fail: tuple[Whole, ...] | None = Field(
        default=None, description="Xid numbers that fail, regardless of hwprofiles/xids.toml"
    )
    xid_warn: tuple[Whole, ...] | None = Field(
        default=None, description="Xid numbers that only warn, regardless of hwprofiles/xids.toml"
    )
    foreign_memory_warn_mib: Annotated[float, Field(ge=0, strict=True)] | None = Field(
        default=None, description="VRAM held by others before the run, over this: warn"
    )
    stranger_sm_percent: Annotated[float, Field(gt=0, lt=100, strict=True)] | None = Field(
        default=None, description="most of the SMs' time that a foreign process may use during the run, %"
    )
    stranger_growth_mib: Positive | None = Field(
        default=None, description="most VRAM by which a foreign process may grow during the run"
    )
    sample_coverage_share: Share | None = Field(
        default=None, description="least samples got, of the grid points due, else not measured"
    )
    idle_share: Share | None = Field(
        default=None, description="most time of the feeding stage in which the GPU was idle"
    )
    working_clock_mhz: Positive | None = Field(
        default=None, description="least median SM clock in the feeding stage; absent: clock_ratio_share"
    )
    working_power_w: tuple[Positive, Positive] | None = Field(
        default=None, description="range of the mean power in the feeding stage; absent: not judged"
    )
    working_temperature_c: tuple[Positive, Positive] | None = Field(
        default=None, description="range of the core temperature in the feeding stage; absent: not judged"
    )
    core_temperature_warn_c: Positive | None = Field(
        default=None, description="core under load, early warning; absent: none"
    )
    core_temperature_never_c: Positive | None = Field(
        default=None, description="core, not even in one sample; absent: core_temperature_c alone"
    )
    power_limit_w: tuple[Positive, Positive] | None = Field(
        default=None,
        description="range in which the enforced power limit must be; absent: the card's default, and a "
        "lower one warns",
    )
    driver_minimum: str | None = Field(default=None, description='oldest accepted driver, such as "550.54"')
    driver_mixed: Flag | None = Field(
        default=None, description="true: the nodes deliberately have different drivers"
    )


class Gpu(Table):
    """One promised GPU and what its workers do."""

    sku: str = Field(description='a file stem in hwprofiles/gpus, or "unknown"')
    uuid: str | None = Field(
        default=None, description="pins the subject to one card; else NVML's order on the node"
    )
    device: Literal["cuda", "cpu"] = Field(
        default="cuda", description="the kind of device; cpu: the CPU as the device"
    )
    workers: Annotated[int, Field(ge=1, le=64, strict=True)] = Field(
        default=1, description="processes that share the device"
    )
    gpu_share: Share | None = Field(default=None, description="per worker; absent: 1 / workers")
    cpus_per_worker: Positive | None = Field(
        default=None, description="CPUs that Ray reserves for each; absent: gpu_defaults"
    )
    vram_share: Share | None = Field(default=None, description="of the card, all workers together")
    vram_gib_per_worker: Positive | None = Field(default=None, description="instead of vram_share")
    gemm_size: GemmSize | None = Field(default=None, description="square operands, M = N = K")
    memory_gib: Positive | None = Field(
        default=None, description="memory of the device as found; absent: the SKU's"
    )
    memory: Overlay = Field(default=Overlay(), description="how its workers take VRAM")
    stages: Overlay = Field(default=Overlay(), description="its work in each stage, and limits there")
    floors: Floors = Field(default=Floors(), description="least rates of this GPU")
    limits: Limits = Field(default=Limits(), description="limits to judge by")


class CpuLoad(Table):
    """The CPU load of a whole host beside the load of its GPUs."""

    enabled: Flag = Field(description="false: no CPU load beside the GPUs")
    band_percent: tuple[Percent, Percent] = Field(
        description="low and high end of the host's CPU use, 1 s windows"
    )
    warn_percent: Percent = Field(description="sustained over this: warn")
    warn_windows_share: Share | None = Field(
        default=None,
        description="more 1 s windows over warn_percent than this: warn; absent: only their mean warns",
    )
    in_band_share: Share = Field(description="least share of 1 s windows in the band")
    primary_thread_share: Share = Field(description="threads started, of the node's CPUs")
    secondary_thread_share: Annotated[float, Field(ge=0, le=1, strict=True)] = Field(
        description="of the node's CPUs, in addition to the primary ones"
    )


class Responsiveness(Table):
    """Wake-up delays of a 10 ms sleeper in a process of its own."""

    p99_ms: Positive = Field(description="99th percentile at most")
    max_ms: Positive = Field(description="longest at most")


class Node(Table):
    """One promised host."""

    name: Name = Field(description="letters, digits, dots, dashes, underscores")
    address: str | None = Field(
        default=None,
        description="how Ray knows it, or by node name or hostname; a single node without it is this machine",
    )
    cpus: Positive | None = Field(default=None, description="usable CPUs; absent: as found")
    ram_gib: Positive | None = Field(default=None, description="absent: as found")
    gpus: tuple[Gpu, ...] = Field(default=(), description="its GPUs, in NVML's order (PCI bus order)")
    cpu: Overlay = Field(default=Overlay(), description="CPU load of the whole host")


class Sampling(Table):
    """How often node agents read sensors."""

    # 1 Hz at least, because criteria judge windows of 1 s.
    rate_hz: Annotated[float, Field(ge=1, le=100, strict=True)] = Field(
        description="readings per second of every sensor"
    )


class Timeouts(Table):
    """Longest waits. The planned length of each stage is added."""

    task_s: Wait = Field(description="a worker's task beyond its planned length")
    stall_s: Wait = Field(description="without any finished round")
    start_s: Wait = Field(description="for nodes, agents and workers to start")
    stop_s: Wait = Field(description="for workers, agents and a local cluster to end")


class GpuDefaults(Table):
    """The worker plan of a GPU that does not state its own."""

    vram_share: Share = Field(description="of the card, all workers together")
    gemm_size: GemmSize = Field(description="square operands, M = N = K")
    cpus_per_worker: Positive = Field(description="CPUs that Ray reserves for each worker")
    cpu_gemm_size: GemmSize = Field(description="M = N = K if the CPU is the device")
    cpu_vram_share: Share = Field(description="of the node's RAM, the CPU as device")
    cpu_thread_share: Share = Field(description="of the node's CPUs, the CPU as device")


class Rig(Table):
    """A whole rig: `hwprofiles/rigs/<name>.toml`, merged over what it extends and the defaults."""

    name: Name = Field(description="letters, digits, dots, dashes, underscores; its history is kept under it")
    description: str = Field(default="", description="shown in the header of a run")
    extends: str | None = Field(
        default=None, description="another rig's name, or a path relative to this file"
    )
    nodes: tuple[Node, ...] = Field(
        default=(), description="promised hosts; those of an extended rig merge by name"
    )
    limits: Limits = Field(default=Limits(), description="limits to judge by")
    architectures: tuple[Architecture, ...] = Field(
        default=(), description="operations of an SM per clock, by compute capability"
    )
    gpu_defaults: GpuDefaults = Field(description="plan of GPUs without their own")
    memory: MemoryPolicy = Field(description="how workers allocate VRAM")
    stages: StageTables = Field(description="each stage's work, length and limits")
    cpu: CpuLoad = Field(description="CPU load of the whole host")
    responsiveness: Responsiveness = Field(description="wake-up delays of the host under load")
    sampling: Sampling = Field(description="how often sensors are read")
    timeouts: Timeouts = Field(description="longest waits")
    levels: Levels = Field(description="the levels' settings that belong to no stage")
