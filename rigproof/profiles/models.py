"""The shape of SKU and rig files.

Units are in the names: `_gib` (2^30 bytes), `_mib`, `_gbps` (10^9 bytes/s), `_tflops` (10^12 FLOP/s,
dense), `_c`, `_w`, `_s`, `_percent` (0 to 100), `_share` (0 to 1). Every value's source stands in a
comment beside it in the TOML file.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Precision = Literal["fp32", "tf32", "fp16", "bf16"]
PRECISIONS: tuple[Precision, ...] = ("fp32", "tf32", "fp16", "bf16")
LevelName = Literal["quick", "standard", "extended", "soak"]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=64)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(gt=0, le=1)]
Percent = Annotated[float, Field(ge=0, le=100)]


class Table(BaseModel):
    """A TOML table: unknown keys are typos, and values do not change once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


class Rates(Table):
    """TFLOP/s by precision; a precision that is absent is not known (or not there)."""

    fp32: Positive | None = None
    tf32: Positive | None = None
    fp16: Positive | None = None
    bf16: Positive | None = None
    fp8: Positive | None = None


class PowerPoint(Table):
    """One point of a SKU's power curve."""

    limit_share: Share  # enforced power limit / default power limit
    rate_share: Share  # steady rate there / steady rate at the default limit


class TemperatureLimits(Table):
    """Degrees where the SKU's own documents or NVML say so; run-time NVML readings come first."""

    max_operating_c: Positive | None = None
    slowdown_c: Positive | None = None
    shutdown_c: Positive | None = None
    memory_max_c: Positive | None = None


class Sku(Table):
    """One GPU model: `hwprofiles/gpus/<sku>.toml`."""

    name: str
    # Compared with NVML's device name, without case; the longest match wins.
    nvml_names: tuple[str, ...] = Field(min_length=1)
    memory_gib: Positive
    memory_bandwidth_gbps: Positive
    power_limit_w: Positive  # the default one
    compute_capability: str | None = None
    peak_tflops: Rates
    # What large GEMMs reach in the steady state; floors are `floor_share` of it.
    steady_tflops: Rates
    floor_share: Share = 0.75
    power_curve: tuple[PowerPoint, ...] = ()
    temperature: TemperatureLimits = TemperatureLimits()
    # What this card's driver does not answer: those are NOT MEASURED and not required.
    unsupported_sensors: tuple[str, ...] = ()
    pcie_generation: int | None = None


class Floors(Table):
    """The least a rig's owner accepts. An absent one falls back on the SKU file."""

    gemm_fp32_tflops: Positive | None = None
    gemm_tf32_tflops: Positive | None = None
    gemm_fp16_tflops: Positive | None = None
    gemm_bf16_tflops: Positive | None = None
    sustained_tflops: Positive | None = None


class Limits(Table):
    """What is judged against, for all GPUs of a rig or (under a GPU) for that one.

    Every value is optional here; `hwprofiles/defaults.toml` fills what a rig does not say.
    """

    core_temperature_c: Positive | None = None  # absent: NVML's GPU_MAX, else its SLOWDOWN, else the SKU file
    memory_temperature_c: Positive | None = None  # absent: NVML's MEM_MAX, else the SKU file
    throttle_share: Annotated[float, Field(ge=0, lt=1)] | None = None  # of samples
    clock_ratio_share: Share | None = None  # of the maximum SM clock
    power_over_limit_share: Positive | None = None  # 1.05 = 5 % over the enforced limit
    active_power_share: Share | None = None  # of the enforced limit, mean under load
    active_work_share: Share | None = None  # of 1 s windows with verified work
    stability_drop_share: Share | None = None  # last quarter against first
    stability_worst_window_share: Share | None = None  # worst 5 s window against the median
    headroom_gib: Annotated[float, Field(ge=0)] | None = None  # free VRAM at the peak
    success_share: Share | None = None
    ooms: Annotated[int, Field(ge=0)] | None = None
    ecc_uncorrected: Annotated[int, Field(ge=0)] | None = None
    remapped_rows_fail: Annotated[int, Field(gt=0)] | None = None
    retired_pages_fail: Annotated[int, Field(gt=0)] | None = None
    retired_pages_warn: Annotated[int, Field(gt=0)] | None = None
    xid_fail: tuple[int, ...] | None = None
    xid_warn: tuple[int, ...] | None = None
    foreign_memory_warn_mib: Annotated[float, Field(ge=0)] | None = None
    sample_coverage_share: Share | None = None  # samples got / grid points due, else not measured
    driver_minimum: str | None = None


class Gpu(Table):
    """One promised GPU and what its workers do."""

    sku: str  # a file stem in hwprofiles/gpus, or "unknown"
    uuid: str | None = None  # pins the subject to one card; else NVML's order on the node
    device: Literal["cuda", "cpu"] = "cuda"
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    gpu_share: Share | None = None  # per worker; absent: 1 / workers
    cpus_per_worker: Positive | None = None
    vram_share: Share | None = None  # of the card, all workers together
    vram_gib_per_worker: Positive | None = None  # in place of vram_share
    gemm_size: Annotated[int, Field(ge=64, le=65536, multiple_of=8)] | None = None  # M = N = K
    memory_gib: Positive | None = None  # what is found; absent: the SKU's
    floors: Floors = Floors()
    limits: Limits = Limits()


class CpuLoad(Table):
    """What the CPU threads of the sustained stage hold, for a whole host."""

    enabled: bool | None = None
    band_percent: tuple[Percent, Percent] | None = None
    warn_percent: Percent | None = None  # sustained over this: warn
    in_band_share: Share | None = None  # of 1 s windows, else fail
    primary_thread_share: Share | None = None  # of the node's CPUs
    secondary_thread_share: Annotated[float, Field(ge=0, le=1)] | None = None


class Responsiveness(Table):
    """Wake-up delays of a 10 ms sleeper in a process of its own."""

    p99_ms: Positive | None = None
    max_ms: Positive | None = None


class Node(Table):
    """One promised host."""

    name: Name
    address: str | None = None  # how Ray knows it; absent: by node name or hostname
    cpus: Positive | None = None
    ram_gib: Positive | None = None
    gpus: tuple[Gpu, ...] = ()
    cpu: CpuLoad = CpuLoad()


class Sampling(Table):
    """How often node agents read."""

    rate_hz: Annotated[float, Field(gt=0, le=100)] | None = None


class Timeouts(Table):
    """Longest waits. Each stage adds its own planned length."""

    task_s: Positive | None = None  # a worker's task beyond its planned length
    stall_s: Positive | None = None  # without any finished round
    start_s: Positive | None = None  # for nodes, agents and workers to come up
    stop_s: Positive | None = None


class Level(Table):
    """How long the stages of one level are."""

    gemm_settle_s: Positive | None = None  # most time to reach the steady state
    gemm_measure_s: Positive | None = None  # per precision
    sustained_s: Positive | None = None
    round_s: Positive | None = None  # aimed length of one round, at least 0.02


class Levels(Table):
    """The four levels."""

    quick: Level = Level()
    standard: Level = Level()
    extended: Level = Level()
    soak: Level = Level()


class GpuDefaults(Table):
    """The worker plan of a GPU that does not state its own."""

    vram_share: Share | None = None
    gemm_size: Annotated[int, Field(ge=64, le=65536, multiple_of=8)] | None = None
    cpus_per_worker: Positive | None = None
    cpu_gemm_size: Annotated[int, Field(ge=64, le=65536, multiple_of=8)] | None = None  # the CPU as device
    cpu_vram_share: Share | None = None  # of the node's RAM, the CPU as device
    cpu_thread_share: Share | None = None  # of the node's CPUs, the CPU as device


class Rig(Table):
    """A whole rig: `hwprofiles/rigs/<name>.toml`, merged over what it extends and the defaults."""

    name: Name
    description: str = ""
    extends: str | None = None  # another rig's name, or a path relative to this file
    combined_floor_tflops: Positive | None = None  # sum of the sustained rates of all GPUs
    nodes: tuple[Node, ...] = ()
    limits: Limits = Limits()
    # What auto GPUs and rigs without their own plan use.
    gpu_defaults: GpuDefaults = GpuDefaults()
    cpu: CpuLoad = CpuLoad()
    responsiveness: Responsiveness = Responsiveness()
    sampling: Sampling = Sampling()
    timeouts: Timeouts = Timeouts()
    levels: Levels = Levels()
