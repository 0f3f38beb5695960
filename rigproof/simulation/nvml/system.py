"""NVML's functions for the driver as a whole: initialisation, counting, handles, and its events."""

from typing import Any

from rigproof.simulation.nvml.abi import (
    FIRST_HANDLE,
    address,
    answers,
    target,
    write,
    write_pointer,
    write_text,
)
from rigproof.simulation.nvml.model import ON_DEVICE, ON_DRIVER, SimulatedDriver, SimulatedGpu
from rigproof.telemetry.nvml.protocol import EVENT_XID_CRITICAL_ERROR, SUCCESS, Code

FIRST_MIG_HANDLE = 0x100000  # handles of MIG devices


@answers(ON_DRIVER, "nvmlInitWithFlags")
def _init(driver: SimulatedDriver, _flags: int) -> int:
    driver.started += 1
    return SUCCESS


@answers(ON_DRIVER, "nvmlShutdown")
def _shutdown(driver: SimulatedDriver) -> int:
    driver.started -= 1
    return SUCCESS


@answers(ON_DRIVER, "nvmlSystemGetDriverVersion")
def _driver_version(driver: SimulatedDriver, buffer: Any, _size: Any) -> int:
    return write_text(buffer, driver.version)


@answers(ON_DRIVER, "nvmlSystemGetCudaDriverVersion_v2")
def _cuda_version(driver: SimulatedDriver, out: Any) -> int:
    return write(out, driver.cuda_version)


@answers(ON_DRIVER, "nvmlDeviceGetCount_v2")
def _count(driver: SimulatedDriver, out: Any) -> int:
    return write(out, len(driver.gpus))


@answers(ON_DRIVER, "nvmlDeviceGetHandleByIndex_v2")
def _by_index(driver: SimulatedDriver, index: Any, out: Any) -> int:
    if index.value >= len(driver.gpus):
        return Code.INVALID_ARGUMENT
    return _write_handle(driver, index.value, out)


@answers(ON_DRIVER, "nvmlDeviceGetHandleByUUID")
def _by_uuid(driver: SimulatedDriver, uuid: Any, out: Any) -> int:
    wanted = uuid.value.decode()
    for index, gpu in enumerate(driver.gpus):
        if gpu.uuid == wanted:
            return _write_handle(driver, index, out)
    mig = _mig_devices(driver)
    if wanted not in mig:
        return Code.NOT_FOUND
    write_pointer(target(out), FIRST_MIG_HANDLE + list(mig).index(wanted))
    return SUCCESS


@answers(ON_DRIVER, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle")
def _parent_of_mig(driver: SimulatedDriver, device: Any, out: Any) -> int:
    parents = list(_mig_devices(driver).values())
    place = address(device) - FIRST_MIG_HANDLE
    return _write_handle(driver, parents[place], out) if 0 <= place < len(parents) else Code.INVALID_ARGUMENT


def _mig_devices(driver: SimulatedDriver) -> dict[str, int]:
    """The index of its GPU for each MIG device, by UUID."""
    return {uuid: index for index, gpu in enumerate(driver.gpus) for uuid in gpu.mig_uuids}


def _write_handle(driver: SimulatedDriver, index: int, out: Any) -> int:
    if driver.gpus[index].lost:
        return Code.GPU_IS_LOST
    write_pointer(target(out), FIRST_HANDLE + index)
    return SUCCESS


@answers(ON_DEVICE, "nvmlDeviceGetSupportedEventTypes")
def _event_types(driver: SimulatedDriver, gpu: SimulatedGpu, out: Any) -> int:
    if not driver.events_supported:
        return Code.NOT_SUPPORTED
    return write(out, EVENT_XID_CRITICAL_ERROR if gpu.xid_supported else 0)


@answers(ON_DEVICE, "nvmlDeviceRegisterEvents")
def _register_events(driver: SimulatedDriver, gpu: SimulatedGpu, types: Any, event_set: Any) -> int:
    if not driver.events_supported or not gpu.xid_supported:
        return Code.NOT_SUPPORTED
    if types.value & EVENT_XID_CRITICAL_ERROR:
        driver.event_sets[address(event_set)].add(gpu.uuid)
    return SUCCESS


@answers(ON_DRIVER, "nvmlEventSetCreate")
def _event_set_create(driver: SimulatedDriver, out: Any) -> int:
    if not driver.events_supported:
        return Code.NOT_SUPPORTED
    key = max(driver.event_sets, default=0) + 1
    driver.event_sets[key] = set()
    write_pointer(target(out), key)
    return SUCCESS


@answers(ON_DRIVER, "nvmlEventSetWait_v2")
def _event_set_wait(driver: SimulatedDriver, event_set: Any, out: Any, timeout_ms: Any) -> int:
    registered = driver.event_sets.get(address(event_set))
    if registered is None:
        return Code.INVALID_ARGUMENT
    with driver.changed:
        if timeout_ms.value:
            driver.changed.wait_for(
                lambda: _next_xid(driver, registered) is not None, timeout_ms.value / 1000
            )
        index = _next_xid(driver, registered)
        if index is None:
            return Code.TIMEOUT
        uuid, xid = driver.xids.pop(index)
    data = target(out)
    write_pointer(data.device, FIRST_HANDLE + [gpu.uuid for gpu in driver.gpus].index(uuid))
    data.eventType, data.eventData = EVENT_XID_CRITICAL_ERROR, xid
    return SUCCESS


def _next_xid(driver: SimulatedDriver, registered: set[str]) -> int | None:
    return next((index for index, (uuid, _) in enumerate(driver.xids) if uuid in registered), None)


@answers(ON_DRIVER, "nvmlEventSetFree")
def _event_set_free(driver: SimulatedDriver, event_set: Any) -> int:
    freed = driver.event_sets.pop(address(event_set), None)
    return Code.INVALID_ARGUMENT if freed is None else SUCCESS
