"""NVML's functions that read one GPU: identity, sensors, clocks, power, link."""

from collections.abc import Callable
from typing import Any

from rigproof.simulation.nvml.abi import answers, milli, target, write, write_bus, write_struct, write_text
from rigproof.simulation.nvml.links import LINK_FIELDS, link_counter
from rigproof.simulation.nvml.model import ON_DEVICE, SimulatedDriver, SimulatedGpu
from rigproof.telemetry.nvml.library import plain
from rigproof.telemetry.nvml.protocol import SUCCESS, TEMPERATURE_SENSOR_GPU, Clock, Code, Field, Threshold

# nvmlValueType_t, and the member of nvmlValue_t that holds a value of it.
UNSIGNED_INT, UNSIGNED_LONG_LONG, SIGNED_INT = (1, "uiVal"), (3, "ullVal"), (5, "siVal")
UNTYPED = (0, "uiVal")  # as driver 580.159 leaves it, seen on an H100
CLOCKS = {Clock.SM: "sm_clock_mhz", Clock.MEMORY: "memory_clock_mhz"}


def _numbers(*names_and_values: tuple[str, Callable[[SimulatedGpu], float | None]]) -> None:
    """Register functions that write one number of the GPU through their last argument."""
    for name, value in names_and_values:
        answers(ON_DEVICE, name)(lambda _driver, gpu, out, value=value: write(out, value(gpu)))


def _texts(*names_and_values: tuple[str, Callable[[SimulatedGpu], str | None]]) -> None:
    """Register functions that write a text about the GPU into a buffer."""
    for name, value in names_and_values:
        answers(ON_DEVICE, name)(lambda _driver, gpu, out, _size, value=value: write_text(out, value(gpu)))


_numbers(
    ("nvmlDeviceGetDisplayActive", lambda gpu: gpu.display_active),
    ("nvmlDeviceGetComputeMode", lambda gpu: gpu.compute_mode),
    ("nvmlDeviceGetPersistenceMode", lambda gpu: gpu.persistence),
    ("nvmlDeviceGetBrand", lambda gpu: gpu.brand),
    ("nvmlDeviceGetVirtualizationMode", lambda gpu: gpu.virtualization),
    ("nvmlDeviceGetCurrentClocksEventReasons", lambda gpu: gpu.clock_event_reasons),
    ("nvmlDeviceGetCurrentClocksThrottleReasons", lambda gpu: gpu.clock_event_reasons),
    ("nvmlDeviceGetPowerUsage", lambda gpu: milli(gpu.power_usage_w)),
    ("nvmlDeviceGetEnforcedPowerLimit", lambda gpu: milli(gpu.power_limit_w)),
    ("nvmlDeviceGetPowerManagementDefaultLimit", lambda gpu: milli(gpu.power_limit_default_w)),
    ("nvmlDeviceGetCurrPcieLinkGeneration", lambda gpu: gpu.pcie_generation),
    ("nvmlDeviceGetCurrPcieLinkWidth", lambda gpu: gpu.pcie_width),
    ("nvmlDeviceGetMaxPcieLinkGeneration", lambda gpu: gpu.pcie_generation_max),
    ("nvmlDeviceGetMaxPcieLinkWidth", lambda gpu: gpu.pcie_width_max),
    ("nvmlDeviceGetPcieReplayCounter", lambda gpu: gpu.pcie_replays),
    ("nvmlDeviceGetFanSpeed", lambda gpu: gpu.fan_percent),
)
_texts(
    ("nvmlDeviceGetUUID", lambda gpu: gpu.uuid),
    ("nvmlDeviceGetName", lambda gpu: gpu.name),
    ("nvmlDeviceGetVbiosVersion", lambda gpu: gpu.vbios_version),
)


@answers(ON_DEVICE, "nvmlDeviceGetPciInfo_v3")
def _pci_info(_driver: SimulatedDriver, gpu: SimulatedGpu, out: Any) -> int:
    return write_bus(out, gpu.pci_bus_id)


@answers(ON_DEVICE, "nvmlDeviceGetCudaComputeCapability")
def _compute_capability(_driver: SimulatedDriver, gpu: SimulatedGpu, major: Any, minor: Any) -> int:
    if gpu.compute_capability is None:
        return Code.NOT_SUPPORTED
    write(major, gpu.compute_capability[0])
    return write(minor, gpu.compute_capability[1])


@answers(ON_DEVICE, "nvmlDeviceGetEccMode")
def _ecc_mode(_driver: SimulatedDriver, gpu: SimulatedGpu, current: Any, pending: Any) -> int:
    write(pending, gpu.ecc_enabled if gpu.ecc_pending is None else gpu.ecc_pending)
    return write(current, gpu.ecc_enabled)


@answers(ON_DEVICE, "nvmlDeviceGetMigMode")
def _mig_mode(_driver: SimulatedDriver, gpu: SimulatedGpu, current: Any, pending: Any) -> int:
    write(pending, gpu.mig_enabled if gpu.mig_pending is None else gpu.mig_pending)
    return write(current, gpu.mig_enabled)


@answers(ON_DEVICE, "nvmlDeviceGetUtilizationRates")
def _utilization(_driver: SimulatedDriver, gpu: SimulatedGpu, out: Any) -> int:
    return write_struct(out, gpu=gpu.utilization_percent, memory=gpu.memory_utilization_percent)


@answers(ON_DEVICE, "nvmlDeviceGetTemperature")
def _temperature(_driver: SimulatedDriver, gpu: SimulatedGpu, sensor: Any, out: Any) -> int:
    if sensor.value != TEMPERATURE_SENSOR_GPU:
        return Code.INVALID_ARGUMENT
    return write(out, gpu.core_temperature_c)


@answers(ON_DEVICE, "nvmlDeviceGetTemperatureThreshold")
def _threshold(_driver: SimulatedDriver, gpu: SimulatedGpu, which: Any, out: Any) -> int:
    thresholds = {
        Threshold.SHUTDOWN: gpu.temperature_shutdown_c,
        Threshold.SLOWDOWN: gpu.temperature_slowdown_c,
        Threshold.MEMORY_MAX: gpu.temperature_memory_max_c,
        Threshold.GPU_MAX: gpu.temperature_gpu_max_c,
    }
    return write(out, thresholds.get(which.value))


@answers(ON_DEVICE, "nvmlDeviceGetMarginTemperature")
def _margin(_driver: SimulatedDriver, gpu: SimulatedGpu, out: Any) -> int:
    return write_struct(out, marginTemperature=gpu.thermal_margin_c)


@answers(ON_DEVICE, "nvmlDeviceGetClockInfo")
def _clock(_driver: SimulatedDriver, gpu: SimulatedGpu, which: Any, out: Any) -> int:
    return write(out, getattr(gpu, CLOCKS[which.value])) if which.value in CLOCKS else Code.NOT_SUPPORTED


@answers(ON_DEVICE, "nvmlDeviceGetMaxClockInfo")
def _max_clock(_driver: SimulatedDriver, gpu: SimulatedGpu, which: Any, out: Any) -> int:
    clocks = {Clock.SM: gpu.sm_clock_max_mhz, Clock.MEMORY: gpu.memory_clock_max_mhz}
    return write(out, clocks.get(which.value))


def _slowed_ns(reason: int) -> Callable[[SimulatedGpu], float | None]:
    return lambda gpu: round(1e9 * gpu.slowed_s.get(reason, 0.0)) if gpu.slowed_counted else None


# Their reasons' bits are nvmlClocksEventReasons*.
NANOSECONDS = {
    Field.POWER_CAPPED: 0x4,
    Field.SYNC_BOOST: 0x10,
    Field.SW_THERMAL: 0x20,
    Field.HW_THERMAL: 0x40,
    Field.POWER_BRAKE: 0x80,
}
_FIELDS: dict[int, tuple[tuple[int, str], Callable[[SimulatedGpu], float | None]]] = {
    Field.MEMORY_TEMPERATURE: (UNSIGNED_INT, lambda gpu: gpu.memory_temperature_c),
    Field.TOTAL_ENERGY: (UNSIGNED_LONG_LONG, lambda gpu: milli(gpu.energy_j)),
    Field.NVLINK_COUNT: (UNSIGNED_INT, lambda gpu: None if gpu.nvlinks is None else len(gpu.nvlinks)),
    Field.PCIE_REPLAYS: (UNSIGNED_INT, lambda gpu: gpu.pcie_replays),
    Field.POWER_AVERAGE: (UNSIGNED_INT, lambda gpu: milli(gpu.power_average_w)),
    Field.POWER_INSTANT: (UNSIGNED_INT, lambda gpu: milli(gpu.power_w)),
    Field.POWER_LIMIT: (UNSIGNED_INT, lambda gpu: milli(gpu.power_limit_w)),
    Field.RECOVERY_ACTION: (UNTYPED, lambda gpu: gpu.recovery_action),
    Field.SLOWDOWN_MARGIN: (SIGNED_INT, lambda gpu: gpu.slowdown_margin_c),
    **{one: (UNSIGNED_LONG_LONG, _slowed_ns(reason)) for one, reason in NANOSECONDS.items()},
}


@answers(ON_DEVICE, "nvmlDeviceGetFieldValues")
def _field_values(driver: SimulatedDriver, gpu: SimulatedGpu, count: Any, out: Any) -> int:
    values = target(out)
    number = min(count.value, len(values))
    for answer in (plain(values._type_) * number).from_buffer(values):
        field_id = answer.fieldId
        answer.nvmlReturn = (
            _of_link(gpu, field_id, answer)
            if field_id in LINK_FIELDS
            else _field_value(gpu, field_id, answer)
        )
        for fault in driver.faults:
            if fault.field_id == field_id and fault.uuid in (None, gpu.uuid) and fault.trips():
                answer.nvmlReturn = fault.code
    return SUCCESS


def _of_link(gpu: SimulatedGpu, field_id: int, answer: Any) -> int:
    value = link_counter(gpu, answer.scopeId, LINK_FIELDS[field_id]) if gpu.nvlink_fields else None
    return _put(answer, *UNSIGNED_LONG_LONG, value)


def _field_value(gpu: SimulatedGpu, field_id: int, answer: Any) -> int:
    if field_id in gpu.raw_fields:
        return _put(answer, *gpu.raw_fields[field_id])
    if field_id not in _FIELDS:
        return Code.INVALID_ARGUMENT
    (kind, member), read = _FIELDS[field_id]
    return _put(answer, kind, member, read(gpu))


def _put(answer: Any, kind: int, member: str, value: float | None) -> int:
    if value is None:
        return Code.NOT_SUPPORTED
    answer.valueType = kind
    setattr(answer.value, member, value)
    return SUCCESS
