"""State of a simulated NVIDIA driver: GPUs, faults, Xid events. Plain, mutable data.

None is a sensor that this GPU does not have: NVML answers NOT_SUPPORTED for it.
Values are in the units of their names; the functions convert them to NVML's.
"""

import difflib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from rigproof.host.nvidia import KernelDriver
from rigproof.telemetry.nvml.protocol import Brand, Virtualization

# What answers each of NVML's C functions; `library` imports the modules that register theirs. Those ON_DRIVER
# get the driver before their arguments, those ON_DEVICE the driver, and the GPU instead of its handle.
Answer = Callable[..., int]
ON_DRIVER: dict[str, Answer] = {}
ON_DEVICE: dict[str, Answer] = {}


def check_function_name(name: str) -> None:
    """Refuse a name that the simulated library does not have: a fault on it would never act.

    Raises:
        ValueError: with similar names.
    """
    if name not in ON_DRIVER and name not in ON_DEVICE:
        close = difflib.get_close_matches(name, [*ON_DRIVER, *ON_DEVICE])
        raise ValueError(
            f"no simulated NVML function is called {name!r}; close: {', '.join(close) or 'none'}"
        )


@dataclass(slots=True)
class SimulatedProcess:
    """A process that holds VRAM. `used_mib` None: NVML's "not available"; `sm_percent` None: uses no SM."""

    pid: int
    used_mib: float | None
    graphics: bool = False
    sm_percent: int | None = None


@dataclass(slots=True)
class SimulatedLink:
    """One NVLink."""

    active: bool | None = True  # None: the driver does not answer for it
    replays: int = 0
    recoveries: int = 0
    crc_errors: int = 0
    leads_to: str | None = ""  # the bus id of a GPU; empty: a switch; None: not known


@dataclass(slots=True)
class SimulatedGpu:
    """One GPU. The defaults are an idle RTX 3090; only the UUID must be given."""

    uuid: str
    name: str = "NVIDIA GeForce RTX 3090"
    pci_bus_id: str = "00000000:01:00.0"
    compute_capability: tuple[int, int] | None = (8, 6)
    vbios_version: str | None = "94.02.42.00.01"
    display_active: bool | None = False
    brand: int | None = Brand.GEFORCE_RTX
    virtualization: int | None = Virtualization.NONE
    compute_mode: int | None = 0
    persistence: bool | None = True
    mig_enabled: bool | None = None  # None: a card that cannot be split up
    mig_pending: bool | None = None  # None: as it is now
    mig_uuids: tuple[str, ...] = ()  # of the MIG devices that it is split up into
    lost: bool = False  # every call for it answers GPU_IS_LOST
    memory_total_mib: float | None = 24576.0
    memory_reserved_mib: float = 300.0  # the driver's own; only the old memory call counts it as used
    memory_used_mib: float | None = 1.0
    utilization_percent: int | None = 0
    memory_utilization_percent: int = 0
    core_temperature_c: int | None = 35
    memory_temperature_c: int | None = None  # not reported by GeForce drivers
    power_w: float | None = 25.0
    power_average_w: float | None = 25.0
    power_usage_w: float | None = 25.0  # nvmlDeviceGetPowerUsage
    energy_j: float | None = 1000.0
    power_limit_w: float | None = 350.0
    power_limit_default_w: float | None = 350.0
    sm_clock_mhz: int | None = 210
    memory_clock_mhz: int | None = 405
    sm_clock_max_mhz: int | None = 2100
    memory_clock_max_mhz: int | None = 9751
    clock_event_reasons: int | None = 0x1  # idle
    shown_s: float = 0.0  # run time of these readings
    slowed_s: dict[int, float] = field(default_factory=dict)  # by reason: how long, so far
    slowed_counted: bool = True  # whether the driver counts that
    temperature_shutdown_c: int | None = 98
    temperature_slowdown_c: int | None = 95
    thermal_margin_c: int | None = None  # not reported before Ada
    slowdown_margin_c: int | None = None
    temperature_memory_max_c: int | None = None
    temperature_gpu_max_c: int | None = 93
    pcie_generation: int | None = 1
    pcie_generation_max: int | None = 4
    pcie_width: int | None = 16
    pcie_width_max: int | None = 16
    pcie_replays: int | None = 0
    fan_percent: int | None = 30  # None: it has no fan of its own
    recovery_action: int | None = 0  # None: a driver that has none
    ecc_enabled: bool | None = None
    ecc_pending: bool | None = None  # None: as it is now
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    remapped_correctable: int | None = None  # None: this GPU remaps no rows
    remapped_uncorrectable: int = 0
    remap_pending: bool = False
    remap_failed: bool = False
    remap_spares: tuple[int, int, int, int, int] | None = None  # max, high, partial, low, none
    sram_threshold_exceeded: bool | None = None
    channel_repair_pending: bool | None = None  # None: a driver that reports no pending repairs
    tpc_repair_pending: bool = False
    inforom_valid: bool | None = None
    retired_pages_single_bit: int | None = None
    retired_pages_double_bit: int | None = None
    nvlinks: list["SimulatedLink"] | None = None  # None: a GPU without NVLinks
    nearest: int | None = 40  # nvmlGpuTopologyLevel_t: what its PCIe link has in common with the others'
    p2p_status: int | None = 0  # nvmlGpuP2PStatus_t
    nvlink_fields: bool = True  # whether the driver has field values for their counters
    fabric_state: int | None = None  # None: a driver or GPU that knows no fabric
    fabric_status: int = 0
    fabric_health: int = 0
    xid_supported: bool = True
    processes: list[SimulatedProcess] | None = field(default_factory=list)  # None: not readable
    process_use_supported: bool = True  # whether the driver reports how much of the SMs each process uses
    # Field id to (nvmlValueType_t, member of nvmlValue_t, value), instead of the value above.
    raw_fields: dict[int, tuple[int, str, float]] = field(default_factory=dict)


@dataclass(slots=True)
class Fault:
    """A function that misbehaves from its (`after_calls` + 1)-th call on.

    `code` is what it returns then; with `hang` the call blocks until that event is set, as with a hung
    driver, and then answers as usual. `uuid` limits it to one GPU, `field_id` (with
    nvmlDeviceGetFieldValues) to one field's own return code.

    Raises:
        ValueError: for a function name that does not exist.
    """

    function: str
    code: int = 0
    after_calls: int = 0
    uuid: str | None = None
    field_id: int | None = None
    hang: threading.Event | None = None
    calls: int = 0

    def __post_init__(self) -> None:
        check_function_name(self.function)

    def trips(self) -> bool:
        """Count a call; returns whether the fault acts on it."""
        self.calls += 1
        return self.calls > self.after_calls


@dataclass(slots=True)
class SimulatedDriver:
    """A driver with its GPUs, in PCI order. Xids are queued by `raise_xid` and delivered once."""

    gpus: list[SimulatedGpu] = field(default_factory=list)
    version: str = "580.95.05"
    cuda_version: int | None = 13000
    faults: list[Fault] = field(default_factory=list)
    missing_functions: set[str] = field(default_factory=set)  # a driver too old to have them
    events_supported: bool = True
    kernel: KernelDriver = field(default_factory=KernelDriver)  # what the kernel says of it
    calls: dict[str, int] = field(default_factory=dict)  # how often each function was called
    started: int = 0  # nvmlInit less nvmlShutdown
    xids: list[tuple[str, int]] = field(default_factory=list)  # (UUID, Xid) not delivered yet
    event_sets: dict[int, set[str]] = field(default_factory=dict)  # open ones; registered UUIDs
    changed: threading.Condition = field(default_factory=threading.Condition)

    def inject(self, fault: Fault) -> Fault:
        """Let a fault act from now on.

        Raises:
            ValueError: for a GPU that this driver does not have.
        """
        if fault.uuid is not None:
            self.gpu(fault.uuid)
        self.faults.append(fault)
        return fault

    def gpu(self, uuid: str) -> SimulatedGpu:
        """The GPU of that UUID.

        Raises:
            ValueError: if there is none.
        """
        for gpu in self.gpus:
            if gpu.uuid == uuid:
                return gpu
        raise ValueError(f"no simulated GPU has the UUID {uuid}")

    def raise_xid(self, uuid: str, xid: int) -> None:
        """Queue an Xid; the first waiting event set in which that GPU is registered gets it."""
        self.gpu(uuid)
        with self.changed:
            self.xids.append((uuid, xid))
            self.changed.notify_all()
