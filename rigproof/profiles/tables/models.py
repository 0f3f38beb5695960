"""The shape of SKUs and of merged rigs; a file may leave out what the files that it extends state.

Units are in the names: `_gib` (2^30 bytes), `_mib`, `_gbps` (10^9 bytes/s), `_tflops` (10^12 FLOP/s,
dense), `_c`, `_w`, `_s`, `_percent` (0 to 100), `_share` (0 to 1). Every value's source is in a
comment beside it in the TOML file.
"""

from typing import Annotated, ClassVar, Literal

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

Precision = Literal["fp32", "tf32", "fp16", "bf16", "fp8"]


class Rates(Table):
    """Rates in TFLOP/s, by precision. A precision that is left out is not known, or not supported."""

    fp32: Positive | None = Field(default=None, description="Without tensor cores.")
    tf32: Positive | None = Field(default=None, description="fp32 operands on tensor cores.")
    fp16: Positive | None = Field(default=None, description="fp16 operands, accumulated in 32 bits.")
    bf16: Positive | None = Field(default=None, description="bf16 operands, accumulated in 32 bits.")
    fp8: Positive | None = Field(default=None, description="fp8 operands, accumulated in 32 bits.")


class PowerPoint(Table):
    """One measured point of a SKU's power curve."""

    limit_share: Share = Field(description="The enforced power limit, as a share of the default one.")
    rate_share: Share = Field(
        description="The steady rate under that limit, as a share of the rate under the default one."
    )


class TemperatureLimits(Table):
    """In °C, from the maker's documents or NVML. What NVML reports during a run takes precedence."""

    max_operating_c: Positive | None = Field(
        default=None, description="Highest core temperature that the maker allows in use, in °C."
    )
    slowdown_c: Positive | None = Field(
        default=None, description="Core temperature at which the card lowers its clocks, in °C."
    )
    shutdown_c: Positive | None = Field(
        default=None, description="Core temperature at which the card switches itself off, in °C."
    )
    slowdown_margin_c: Annotated[float, Field(le=0, ge=-50, strict=True)] | None = Field(
        default=None,
        description="Thermal margin (NVML's T.Limit) at which the card lowers its clocks, in °C: 0 or less. "
        "A card whose file states it must report its margin. Left out: it is judged if it reports one.",
    )
    memory_max_c: Positive | None = Field(
        default=None, description="Highest memory temperature that the maker allows in use, in °C."
    )


class Sku(Table):
    """One GPU model: `hwprofiles/gpus/<sku>.toml`, the SKU file."""

    name: str = Field(description="The model's common name.")
    nvml_names: tuple[str, ...] = Field(
        min_length=1,
        description="Names under which NVML lists the model; upper and lower case are the same. If several "
        "models fit a card, the longest name wins.",
    )
    memory_gib: Positive = Field(description="Memory of the card, in GiB.")
    memory_bandwidth_gbps: Positive = Field(
        description="Memory bandwidth that the data sheet states, in GB/s."
    )
    power_limit_w: Positive = Field(description="The card's default power limit, in W.")
    compute_capability: str | None = Field(
        default=None, description='CUDA compute capability, such as "9.0". Used if NVML does not report it.'
    )
    boost_clock_mhz: Positive | None = Field(
        default=None,
        description="SM clock, in MHz, at which the card reaches its printed peak. Left out: the clock "
        "under load is compared with NVML's highest clock.",
    )
    sms: Annotated[int, Field(gt=0, strict=True)] | None = Field(
        default=None,
        description="Number of streaming multiprocessors (SMs). Used if the card's workers do not report it.",
    )
    peak_tflops: Rates = Field(
        description="Peak rates that the data sheet states, in TFLOP/s, without sparsity."
    )
    steady: SteadyFigures = Field(
        default=SteadyFigures(),
        description="Rates that the model sustains when hot, each with its evidence; floors are shares of "
        "them.",
    )
    power_curve: tuple[PowerPoint, ...] = Field(
        default=(),
        description="How the steady rate falls with the power limit, lowest limit first. Left out: in "
        "proportion to it.",
    )
    temperature: TemperatureLimits = Field(
        default=TemperatureLimits(),
        description="Temperatures that the maker states. What NVML reports for the card takes precedence.",
    )
    unsupported_sensors: tuple[str, ...] = Field(
        default=(),
        description="Sensors that the model's driver does not report, such as `memory_temperature` or "
        "`ecc`. What needs them is not applicable instead of not measured.",
    )
    nvlinks: Annotated[int, Field(gt=0, strict=True)] | None = Field(
        default=None,
        description="Number of NVLinks that every card of the model has. Left out: it has none, or they need "
        "a bridge, which a rig may have or not.",
    )
    pcie_generation: Whole | None = Field(
        default=None,
        description="PCIe generation of the card's own link. Only simulated cards use it: "
        "that of a real card is read from NVML.",
    )


class Floors(Table):
    """The smallest rates that are accepted of one GPU. One that is left out follows from the SKU file.

    The stages declare which floors there are.
    """


class Limits(Table):
    """Limits for all GPUs of the rig or, under a GPU, for that one alone.

    Every value is optional here; `hwprofiles/defaults.toml` fills what a rig does not state. `of_rig` names
    those that hold for the hosts, which a single GPU cannot override.
    """

    of_rig: ClassVar[frozenset[str]] = frozenset({"driver_minimum", "driver_mixed"})

    core_temperature_c: Positive | None = Field(
        default=None,
        description="Highest core temperature, in °C. Left out: NVML's GPU_MAX, else NVML's SLOWDOWN, else "
        "the SKU file's.",
    )
    memory_temperature_c: Positive | None = Field(
        default=None,
        description="Highest memory temperature, in °C. Left out: NVML's MEM_MAX, else the SKU file's.",
    )
    throttle_share: Annotated[float, Field(ge=0, lt=1, strict=True)] | None = Field(
        default=None,
        description="Largest share of a stage's samples in which the driver slows the GPU down (heat, HW "
        "slowdown, power brake). One or two such samples are never too many for it.",
    )
    throttle_events: Annotated[int, Field(ge=0, strict=True)] | None = Field(
        default=None,
        description="Largest number of separate slowdowns (unbroken stretches of such samples) in the whole "
        "run. What stays within all three limits only warns.",
    )
    throttle_event_s: Annotated[float, Field(ge=0, strict=True)] | None = Field(
        default=None, description="Longest slowdown that is allowed, in s; a longer one fails."
    )
    clock_ratio_share: Share | None = Field(
        default=None,
        description="Smallest SM clock under load, as a share of the boost clock in the SKU file. A lower "
        "clock passes, or only warns, if the driver explains it.",
    )
    clock_unknown_share: Share | None = Field(
        default=None,
        description="For a card whose boost clock is not known: smallest SM clock under load, as a share of "
        "the highest that NVML reports.",
    )
    clock_capped_power_share: Share | None = Field(
        default=None,
        description="The power cap explains a low clock only if the card draws at least this share of its "
        "enforced power limit (median).",
    )
    power_cap_fail_share: Share | None = Field(
        default=None,
        description="A power limit below the card's default warns; below this share of the default it "
        "fails. Has no effect where power_limit_w is stated.",
    )
    active_utilization_share: Share | None = Field(
        default=None,
        description="Smallest mean utilisation under load, for cards whose driver reports no power limit; "
        "they have it in place of active_power_share.",
    )
    power_over_limit_share: Positive | None = Field(
        default=None,
        description="Highest mean power under load, as a share of the enforced limit: 1.05 allows 5 % more.",
    )
    active_power_share: Share | None = Field(
        default=None, description="Smallest mean power under load, as a share of the enforced limit."
    )
    active_work_share: Share | None = Field(
        default=None,
        description="Smallest share of the 1 s windows under load in which verified work was done.",
    )
    stability_worst_window_share: Share | None = Field(
        default=None,
        description="Smallest rate of any 5 s window of the sustained stage, as a share of the median "
        "window. One process alone must reach the same share of the sustained rate in the "
        "sharing stage, and a training step in the sweep of the same step before.",
    )
    peer_share: Share | None = Field(
        default=None,
        description="Smallest sustained rate, as a share of the median of the other GPUs of the same SKU "
        "with the same work and power limit. Training steps, and copies on cards without a SKU "
        "file, are compared in the same way.",
    )
    headroom_gib: Annotated[float, Field(ge=0, strict=True)] | None = Field(
        default=None,
        description="VRAM, in GiB, that must still be free on the card at the peak of the sustained stage. "
        "A plan that would leave less is refused.",
    )
    marginal_share: Annotated[float, Field(ge=0, lt=1, strict=True)] | None = Field(
        default=None,
        description="A stage is measured once more if a rate misses its limit by less than this share of "
        "the limit. 0: never.",
    )
    success_share: Share | None = Field(
        default=None,
        description="Smallest share of a GPU's tasks and allocations that must end well, and of its rounds "
        "that must be verified.",
    )
    champion_share: Share | None = Field(
        default=None,
        description="Floor of a rate, as a share of this GPU's champion, which is its best rate in an "
        "accepted run.",
    )
    floor_measured_share: Share | None = Field(
        default=None,
        description="Floor of a rate, as a share of the SKU file's figure, if that figure was measured on "
        "at least floor_cards cards and under the same conditions: size, batch, one worker, "
        "torch version.",
    )
    floor_similar_share: Share | None = Field(
        default=None,
        description="Like floor_measured_share, for a figure that was measured on fewer cards or under "
        "other conditions.",
    )
    floor_printed_share: Share | None = Field(
        default=None,
        description="Like floor_measured_share, for a figure that rigproof has not measured: it comes from "
        "a data sheet or from others. Also for copies, of the printed memory bandwidth.",
    )
    floor_unknown_share: Share | None = Field(
        default=None,
        description="Where no figure is known: floor of a rate, as a share of what the card's architecture "
        "can do at the measured clock ([[architectures]]).",
    )
    floor_sharing_share: Share | None = Field(
        default=None,
        description="The floor from the SKU file is multiplied by this if more workers share the GPU than "
        "did when the figure was measured.",
    )
    floor_cards: Annotated[int, Field(gt=0, strict=True)] | None = Field(
        default=None,
        description="Number of cards on which a figure must have been measured for floor_measured_share to "
        "apply.",
    )
    ceiling_share: Positive | None = Field(
        default=None,
        description="A rate over this multiple of the SKU file's printed peak is taken as a measurement "
        "error: not measured.",
    )
    ooms: Annotated[int, Field(ge=0, strict=True)] | None = Field(
        default=None,
        description="Largest number of failed allocations (out of memory) of a GPU in a run, those that a "
        "worker recovered from included.",
    )
    ecc_uncorrected: Annotated[int, Field(ge=0, strict=True)] | None = Field(
        default=None, description="Largest number of new uncorrected memory errors of a GPU in a run."
    )
    host_share: Share | None = Field(
        default=None,
        description="Smallest share of the `cpus` and `ram_gib` that a node states that must be usable. It "
        "only counts in [limits] of the rig, as do the other limits of hosts.",
    )
    host_cpus_per_gpu: Positive | None = Field(
        default=None, description="A container that leaves fewer CPUs than this for each GPU warns."
    )
    host_ram_share: Share | None = Field(
        default=None,
        description="A container that leaves less RAM than this share of all GPUs' memory warns.",
    )
    host_shm_gib: Positive | None = Field(
        default=None, description="A /dev/shm smaller than this, in GiB, warns."
    )
    ecc_off: Flag | None = Field(
        default=None,
        description="true: ECC may be switched off. Left out: it must be on where the card has it.",
    )
    remapped_rows_fail: Annotated[int, Field(gt=0, strict=True)] | None = Field(
        default=None,
        description="A card fails with this many memory rows remapped for uncorrectable errors, or more.",
    )
    retired_pages_fail: Annotated[int, Field(gt=0, strict=True)] | None = Field(
        default=None,
        description="A card fails with this many retired memory pages or more. Cards before Ampere retire "
        "pages instead of remapping rows.",
    )
    retired_pages_warn: Annotated[int, Field(gt=0, strict=True)] | None = Field(
        default=None, description="More retired memory pages than this warn."
    )
    pcie_generation: Annotated[int, Field(ge=1, le=10, strict=True)] | None = Field(
        default=None,
        description="PCIe generation that the slot allows, if that is less than NVML reports. Left out: "
        "what NVML reports.",
    )
    pcie_width: Annotated[int, Field(ge=1, le=32, strict=True)] | None = Field(
        default=None,
        description="PCIe lanes that the slot has, if they are fewer than NVML reports. Left out: what NVML "
        "reports.",
    )
    pcie_bit_error_rate: Annotated[float, Field(gt=0, lt=1, strict=True)] | None = Field(
        default=None,
        description="Largest number of PCIe replays (packets sent again), as a share of the bits that the "
        "link's lanes can carry in the time; more warn. 1e-12 is, a minute and lane, 0.15 at Gen1, 0.3 at "
        "Gen2, 0.48 at Gen3, 0.96 at Gen4, 1.92 at Gen5.",
    )
    pcie_correctable_minute: Annotated[float, Field(ge=0, strict=True)] | None = Field(
        default=None,
        description="Largest number of correctable PCIe errors, as the kernel counts them, in any minute "
        "from the first load to the last, at either end of the link.",
    )
    pcie_uncorrected: Annotated[int, Field(ge=0, strict=True)] | None = Field(
        default=None,
        description="Largest number of new fatal or non-fatal PCIe errors in a run, as the kernel counts "
        "them.",
    )
    nvlinks: Annotated[int, Field(ge=0, le=36, strict=True)] | None = Field(
        default=None,
        description="Number of NVLinks that a card has here, if it is not that of its SKU file. Left out: "
        "the SKU file's, else as many as an equal card of the node has.",
    )
    nvlink_replays: Annotated[int, Field(ge=0, strict=True)] | None = Field(
        default=None,
        description="Largest number of replays, and of recoveries, of an NVLink in a run.",
    )
    nvlink_crc_per_s: Positive | None = Field(
        default=None,
        description="This many CRC errors of an NVLink a second, or more, fail. Fewer warn.",
    )
    xid_fail: tuple[Whole, ...] | None = Field(
        default=None,
        description="Xids (error numbers of the driver) that fail, whatever hwprofiles/xids.toml says. Left "
        "out: none.",
    )
    xid_warn: tuple[Whole, ...] | None = Field(
        default=None,
        description="Xids that only warn although hwprofiles/xids.toml lets them fail. One that xid_fail "
        "also lists fails. Left out: none.",
    )
    foreign_memory_warn_mib: Annotated[float, Field(ge=0, strict=True)] | None = Field(
        default=None,
        description="More VRAM than this, in MiB, that other programs hold before the run warns. A card "
        "that drives a display is exempt.",
    )
    stranger_sm_percent: Annotated[float, Field(gt=0, lt=100, strict=True)] | None = Field(
        default=None,
        description="A foreign process that was there before the run, or that draws a desktop, may take at "
        "most this share of the GPU's computing time (SM use), in percent. One that starts "
        "during the run and computes always counts as a disturbance.",
    )
    stranger_growth_mib: Positive | None = Field(
        default=None,
        description="Largest amount of VRAM, in MiB, by which a foreign process that was there before the "
        "run, or that draws a desktop, may grow during the run.",
    )
    sample_coverage_share: Share | None = Field(
        default=None,
        description="Smallest share of a sensor's due readings that must have been read under load. With "
        "fewer, what is judged by them is not measured.",
    )
    idle_share: Share | None = Field(
        default=None,
        description="Largest share of the time in the feeding stage in which the GPU waited for the CPU.",
    )
    working_clock_mhz: Positive | None = Field(
        default=None,
        description="Smallest SM clock in the feeding stage, in MHz. Left out: clock_ratio_share or "
        "clock_unknown_share applies there too.",
    )
    working_power_w: tuple[Positive, Positive] | None = Field(
        default=None,
        description="Lowest and highest mean power in the feeding stage, in W. Left out: not judged.",
    )
    working_temperature_c: tuple[Positive, Positive] | None = Field(
        default=None,
        description="Lowest and highest mean core temperature in the feeding stage, in °C. Left out: not "
        "judged.",
    )
    core_temperature_warn_c: Positive | None = Field(
        default=None, description="A core temperature over this, in °C, warns. Left out: no warning."
    )
    core_temperature_never_c: Positive | None = Field(
        default=None,
        description="Core temperature, in °C, that no single reading may exceed; core_temperature_c and "
        "core_temperature_warn_c then apply to means of 5 s. Left out: they apply to every "
        "reading.",
    )
    power_limit_w: tuple[Positive, Positive] | None = Field(
        default=None,
        description="Lowest and highest power limit, in W, to which the card may be set. Left out: the "
        "card's default is expected, and a lower limit warns or, far below, fails.",
    )
    driver_minimum: str | None = Field(
        default=None,
        description='Oldest accepted driver, such as "550.54". Left out: any.',
    )
    driver_mixed: Flag | None = Field(
        default=None,
        description="true: the nodes may have different drivers. Left out: all must have the same one.",
    )


class Gpu(Table):
    """One promised GPU and what its workers do."""

    sku: str = Field(
        description='GPU model: the name of its SKU file in hwprofiles/gpus, without .toml, or "unknown".'
    )
    uuid: str | None = Field(
        default=None,
        description="UUID of the one card that may take this place (`nvidia-smi -L` shows it). Left out: "
        "cards are assigned in NVML's order.",
    )
    device: Literal["cuda", "cpu"] = Field(
        default="cuda", description='"cuda": a GPU. "cpu": the CPU works in place of a GPU. Left out: "cuda".'
    )
    workers: Annotated[int, Field(ge=1, le=64, strict=True)] = Field(
        default=1,
        description="Number of worker processes that share the GPU. More than one cost throughput. Left "
        "out: 1.",
    )
    gpu_share: Share | None = Field(
        default=None, description="Share of the GPU that Ray reserves for each worker. Left out: 1 / workers."
    )
    cpus_per_worker: Positive | None = Field(
        default=None,
        description="CPUs that Ray reserves for each worker; for the CPU as the device, its number of "
        "threads. Left out: as in [gpu_defaults].",
    )
    vram_share: Share | None = Field(
        default=None,
        description="Share of the card's memory that all its workers fill together. Left out: as in "
        "[gpu_defaults].",
    )
    vram_gib_per_worker: Positive | None = Field(
        default=None, description="Memory that each worker fills, in GiB. Left out: vram_share says how much."
    )
    gemm_size: GemmSize | None = Field(
        default=None,
        description="Size of the square matrices that are multiplied (M = N = K). Left out: as in "
        "[gpu_defaults].",
    )
    memory_gib: Positive | None = Field(
        default=None,
        description="Memory of the card, in GiB. Left out: the SKU file's; for an unknown card of this "
        "machine, what is found.",
    )
    memory: Overlay = Field(
        default=Overlay(),
        description="How this GPU's workers take VRAM. A key that is left out is as in the rig's [memory].",
    )
    stages: Overlay = Field(
        default=Overlay(),
        description="This GPU's work and limits in each stage. A key that is left out is as in the rig's "
        "[stages].",
    )
    floors: Floors = Field(default=Floors(), description="Smallest rates that are accepted of this GPU.")
    limits: Overlay = Field(
        default=Overlay(),
        description="Limits for this GPU alone. A key that is left out is as in the rig's [limits].",
    )


class CpuLoad(Table):
    """The CPU load that every host carries while its GPUs work, and the limits of its CPU use."""

    enabled: Flag = Field(description="false: no CPU load, and the host's CPU use is not judged.")
    band_percent: tuple[Percent, Percent] = Field(
        description="Lowest and highest CPU use of the whole host, in percent, in windows of 1 s. The CPU "
        "load aims at the middle."
    )
    warn_percent: Percent = Field(description="A mean CPU use over this, in percent, warns.")
    warn_windows_share: Share | None = Field(
        default=None,
        description="If more than this share of the 1 s windows is over warn_percent, that warns too.",
    )
    in_band_share: Share = Field(
        description="Smallest share of the 1 s windows in which the CPU use must be within band_percent."
    )
    primary_thread_share: Share = Field(
        description="Number of primary threads of the CPU load, as a share of the node's CPUs. They can "
        "bring an idle host to the low end of its band."
    )
    secondary_thread_share: Annotated[float, Field(ge=0, le=1, strict=True)] = Field(
        description="Number of secondary threads, in the same way. Beside the primary ones they bring the "
        "host up to the high end; both shares together are 1 at most."
    )


class Responsiveness(Table):
    """How late a process that sleeps 10 ms at a time may wake up while the GPUs are under load."""

    p99_ms: Positive = Field(description="99 % of the delays must be at most this long, in ms.")
    max_ms: Positive = Field(
        description="No delay may be longer than this, in ms. A single one of up to twice as long only warns."
    )


class Node(Table):
    """One promised host."""

    name: Name = Field(
        description="The node's name, as in `pc1/gpu0`: letters, digits, dots, dashes, underscores."
    )
    address: str | None = Field(
        default=None,
        description="IP address or hostname of the node in the Ray cluster. Left out: the node's name is "
        "looked for, and a rig's only node is this machine.",
    )
    cpus: Positive | None = Field(
        default=None,
        description="Number of CPUs of the node. A plan whose workers reserve more is refused. Left out: "
        "what is found, on this machine; another machine is not checked.",
    )
    ram_gib: Positive | None = Field(
        default=None,
        description="RAM of the node, in GiB. Needed only if the CPU is the device. Left out: what is found "
        "on this machine.",
    )
    psu_w: Positive | None = Field(
        default=None,
        description="Power, in W, that the node's power supplies deliver together; of redundant ones, "
        "without the spare. Left out: what its cards draw together is reported, not judged.",
    )
    gpus: tuple[Gpu, ...] = Field(
        default=(), description="The node's GPUs, in NVML's order (that of the PCI bus)."
    )
    cpu: Overlay = Field(
        default=Overlay(),
        description="CPU load of this node. A key that is left out is as in the rig's [cpu].",
    )
    stages: Overlay = Field(
        default=Overlay(),
        description="This node's work and limits in the stages that measure hosts. A key that is left out is "
        "as in the rig's [stages].",
    )


class Sampling(Table):
    """How often the node agents read the sensors of hosts and GPUs."""

    # 1 Hz at least, because criteria judge windows of 1 s.
    rate_hz: Annotated[float, Field(ge=1, le=100, strict=True)] = Field(
        description="Readings per second of each sensor, except PCIe link and CPU temperature, which are "
        "read once a second."
    )


class Timeouts(Table):
    """Time limits. What takes longer is recorded, then ended or given up."""

    task_s: Wait = Field(
        description="Time, in s, by which a stage may exceed its planned length. Workers that still work "
        "are then killed."
    )
    stall_s: Wait = Field(
        description="Longest time, in s, for which a worker may finish no round (the first round: start_s, "
        "if that is longer), or an agent or worker may not answer."
    )
    start_s: Wait = Field(description="Longest time, in s, for nodes, agents and workers to start.")
    stop_s: Wait = Field(description="Longest time, in s, for workers, agents and rigproof's own Ray to end.")


class GpuDefaults(Table):
    """The work of a GPU that does not state its own."""

    vram_share: Share = Field(description="Share of the card's memory that all its workers fill together.")
    gemm_size: GemmSize = Field(description="Size of the square matrices that are multiplied (M = N = K).")
    cpus_per_worker: Positive = Field(description="CPUs that Ray reserves for each worker.")
    cpu_gemm_size: GemmSize = Field(description="Matrix size (M = N = K) if the CPU is the device.")
    cpu_vram_share: Share = Field(
        description="Share of the node's RAM that the workers fill if the CPU is the device."
    )
    cpu_thread_share: Share = Field(
        description="Number of threads, as a share of the node's CPUs, if the CPU is the device."
    )


class Rig(Table):
    """A whole rig, `hwprofiles/rigs/<name>.toml`, with the values of the rig it extends and the defaults."""

    name: Name = Field(
        description="Name of the rig, under which its history is kept: letters, digits, dots, dashes, "
        "underscores."
    )
    description: str = Field(default="", description="Text for the header of a run.")
    extends: str | None = Field(
        default=None,
        description="Another rig whose values hold where this file states none: its name, or a path "
        "relative to this file.",
    )
    nodes: tuple[Node, ...] = Field(
        default=(),
        description="The hosts that the rig promises. Those of the extended rig are merged by name.",
    )
    limits: Limits = Field(default=Limits(), description="Limits for all GPUs of the rig.")
    architectures: tuple[Architecture, ...] = Field(
        default=(), description="What the GPU architectures can do, by compute capability."
    )
    gpu_defaults: GpuDefaults = Field(description="Work of the GPUs that do not state their own.")
    memory: MemoryPolicy = Field(description="How workers take VRAM.")
    stages: StageTables = Field(description="Work, lengths and limits of each stage.")
    cpu: CpuLoad = Field(description="CPU load of every node beside the work of its GPUs.")
    responsiveness: Responsiveness = Field(description="How late the hosts may wake up under load.")
    sampling: Sampling = Field(description="How often sensors are read.")
    timeouts: Timeouts = Field(description="Time limits of starting, working and ending.")
    levels: Levels = Field(description="Settings of the levels that belong to no single stage.")
