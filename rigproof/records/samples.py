"""What the node agents sample at fixed intervals. None means "not supported here", never zero."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One reading of one GPU. `t_s` is run time: seconds since the run's start."""

    t_s: float
    subject: str
    utilization_percent: float | None = None
    memory_used_mib: float | None = None
    core_temperature_c: float | None = None
    memory_temperature_c: float | None = None
    power_w: float | None = None  # instant
    power_average_w: float | None = None
    energy_j: float | None = None  # since the driver was loaded
    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    clock_event_reasons: int | None = None  # NVML's bit mask
    pcie_generation: int | None = None
    pcie_width: int | None = None
    pcie_replays: int | None = None
    lateness_s: float = 0.0  # after the moment at which it was due
    power_limit_w: float | None = None  # enforced now
    thermal_margin_c: float | None = None  # to the highest temperature in use (T.Limit); negative beyond it


@dataclass(frozen=True, slots=True)
class HostSample:
    """One reading of one host. CPU figures are relative to what this process may use (cgroup-aware)."""

    t_s: float
    subject: str
    cpu_percent: float | None = None
    core_percent: tuple[float, ...] | None = None  # host-wide, per logical CPU
    load_1m: float | None = None
    ram_used_mib: float | None = None
    ram_available_mib: float | None = None
    swap_used_mib: float | None = None
    cpu_temperature_c: float | None = None
    wakeup_delays_ms: tuple[float, ...] | None = None  # of the responsiveness probe, since the last sample
    lateness_s: float = 0.0
    stolen_percent: float | None = (
        None  # of the host's CPU time, taken by a hypervisor; `cpu_percent` has it too
    )
    throttled_percent: float | None = (
        None  # CPU time that a quota of a cgroup withheld from those that wanted it
    )
    crowded_percent: float | None = None  # of its quota, not to be had since others kept the host's CPUs busy
    pressure_percent: float | None = None  # of the time, in which something waited for a CPU (PSI, `some`)
    own_percent: float | None = (
        None  # used by this run's own processes, the CPU load included; a second's mean
    )
    own_waited_percent: float | None = (
        None  # of a second, waited for a CPU by the threads of a process of its workers, the largest of these
    )


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """CPU time used by all processes of the host (or of this cgroup), and its capacity."""

    clock_s: float  # monotonic, when it was read
    busy_s: float  # CPU seconds since some fixed moment
    capacity_cpus: float  # CPU seconds available per second


@dataclass(frozen=True, slots=True)
class PcieErrors:
    """The errors of one GPU's PCIe link since the host booted, at both ends, as the kernel counts them.

    Advanced Error Reporting (AER): PCI Express Base Specification, 6.2.

    The agent records them when it first reads them, when one has changed, once a minute at least, and after
    the load. A count is None if the kernel keeps none. `port` is the address of the upstream port, the other
    end of the link; None if the kernel shows none.
    """

    t_s: float
    subject: str
    fatal: int | None = None  # the link had to be reset
    nonfatal: int | None = None  # a transaction was lost
    correctable: int | None = None  # repaired by the link itself, by sending again
    port: str | None = None
    port_fatal: int | None = None
    port_nonfatal: int | None = None
    port_correctable: int | None = None

    @property
    def counts(self) -> tuple[int | None, ...]:
        """The counts of both ends of the link, three each."""
        return (
            *(self.fatal, self.nonfatal, self.correctable),
            *(self.port_fatal, self.port_nonfatal, self.port_correctable),
        )
