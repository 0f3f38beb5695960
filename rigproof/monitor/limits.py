"""The monitor's limits of a node and of a GPU, as the criteria use them. Pure."""

from dataclasses import dataclass

from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.tables.sku import TemperatureLimits
from rigproof.records.identity import GpuIdentity

MIB_PER_GIB = 1024


@dataclass(frozen=True, slots=True)
class NodeLimits:
    """Limits of one host. None: the profile has none."""

    cpu_band_percent: tuple[float, float] | None = None
    cpu_warn_percent: float | None = None
    wakeup_p99_ms: float | None = None
    wakeup_max_ms: float | None = None


@dataclass(frozen=True, slots=True)
class GpuLimits:
    """Limits of one GPU. None: neither the profile nor the driver nor the SKU file has one."""

    core_temperature_c: float | None = None
    core_temperature_warn_c: float | None = None
    core_temperature_never_c: float | None = None
    memory_temperature_c: float | None = None
    power_w: float | None = None  # enforced by the driver
    active_power_share: float | None = None
    active_utilization_share: float | None = None
    idle_beside_s: float | None = None
    headroom_mib: float | None = None
    ecc_uncorrected: int | None = None
    sample_coverage_share: float | None = None


def node_limits(loaded: LoadedRig, node: str) -> NodeLimits:
    """The limits of a promised node. KeyError for an unknown one."""
    cpu, wakeup = loaded.cpu_of(node), loaded.rig.responsiveness
    return NodeLimits(
        cpu_band_percent=cpu.band_percent if cpu.enabled else None,
        cpu_warn_percent=cpu.warn_percent,
        wakeup_p99_ms=wakeup.p99_ms,
        wakeup_max_ms=wakeup.max_ms,
    )


def gpu_limits(device: PromisedDevice, identity: GpuIdentity | None) -> GpuLimits:
    """The limits of a promised GPU; `identity` is what its driver reports, None if it did not answer.

    Temperatures in the order of the criteria thermal.core_temperature and thermal.memory_temperature.
    """
    limits = device.limits
    sku = device.sku.temperature if device.sku is not None else TemperatureLimits()
    core = [limits.core_temperature_c]
    memory = [limits.memory_temperature_c]
    if identity is not None:
        core += [identity.temperature_gpu_max_c, identity.temperature_slowdown_c]
        memory += [identity.temperature_memory_max_c]
    return GpuLimits(
        core_temperature_c=_first(*core, sku.max_operating_c, sku.slowdown_c),
        core_temperature_warn_c=limits.core_temperature_warn_c,
        core_temperature_never_c=limits.core_temperature_never_c,
        memory_temperature_c=_first(*memory, sku.memory_max_c),
        power_w=identity.power_limit_w if identity is not None else None,
        active_power_share=limits.active_power_share,
        active_utilization_share=limits.active_utilization_share,
        idle_beside_s=limits.idle_beside_s,
        headroom_mib=None if limits.headroom_gib is None else limits.headroom_gib * MIB_PER_GIB,
        ecc_uncorrected=limits.ecc_uncorrected,
        sample_coverage_share=limits.sample_coverage_share,
    )


def _first(*values_c: float | None) -> float | None:
    """The first existing limit; one ≤ 0 is no limit."""
    return next((value for value in values_c if value is not None and value > 0), None)
