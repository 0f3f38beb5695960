"""The simulated libnvidia-ml itself, called through pynvml."""

import pynvml
import pytest

from rigproof.simulation.nvml.abi import ON_DEVICE, ON_DRIVER
from rigproof.simulation.nvml.library import STATE, installed
from rigproof.simulation.nvml.model import (
    FUNCTION_NAMES,
    Fault,
    SimulatedDriver,
    SimulatedGpu,
    SimulatedProcess,
)


def driver_of(*gpus: SimulatedGpu) -> SimulatedDriver:
    return SimulatedDriver(list(gpus) or [SimulatedGpu("GPU-1"), SimulatedGpu("GPU-2")])


def test_every_name_is_answered_and_no_other() -> None:
    assert ON_DRIVER.keys() | ON_DEVICE.keys() | {"nvmlErrorString"} == FUNCTION_NAMES
    assert not ON_DRIVER.keys() & ON_DEVICE.keys()


def test_pynvml_is_put_back_as_it_was() -> None:
    before = {name: getattr(pynvml, name) for name in STATE}
    with installed(driver_of()):
        pynvml.nvmlInit()
        assert pynvml.nvmlDeviceGetCount() == 2
        assert pynvml._nvmlLib_refcount == 1
    assert {name: getattr(pynvml, name) for name in STATE} == before
    assert all(getattr(pynvml, name) is value for name, value in before.items())


def test_pynvml_is_put_back_after_an_error() -> None:
    before = pynvml.nvmlLib
    with pytest.raises(RuntimeError), installed(driver_of()):
        raise RuntimeError
    assert pynvml.nvmlLib is before


def test_drivers_can_be_installed_inside_one_another() -> None:
    with installed(driver_of()):
        pynvml.nvmlInit()
        with installed(driver_of(SimulatedGpu("GPU-9"))):
            pynvml.nvmlInit()
            assert pynvml.nvmlDeviceGetCount() == 1
        assert pynvml.nvmlDeviceGetCount() == 2


def test_before_init_and_after_shutdown_nothing_answers() -> None:
    with installed(driver_of()):
        with pytest.raises(pynvml.NVMLError_Uninitialized):
            pynvml.nvmlDeviceGetCount()
        pynvml.nvmlInit()
        pynvml.nvmlShutdown()
        with pytest.raises(pynvml.NVMLError_Uninitialized):
            pynvml.nvmlSystemGetDriverVersion()


def test_a_function_that_is_not_simulated_is_not_found() -> None:
    with installed(driver_of()):
        pynvml.nvmlInit()
        with pytest.raises(pynvml.NVMLError_FunctionNotFound):
            pynvml.nvmlDeviceGetNumFans(pynvml.nvmlDeviceGetHandleByIndex(0))


def test_a_function_that_the_driver_lacks_is_not_found() -> None:
    driver = driver_of()
    driver.missing_functions.add("nvmlDeviceGetName")
    with installed(driver):
        pynvml.nvmlInit()
        with pytest.raises(pynvml.NVMLError_FunctionNotFound):
            pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(0))


def test_a_typo_in_a_function_name_is_refused() -> None:
    with pytest.raises(ValueError, match=r"nvmlDeviceGetTemperture.*close: nvmlDeviceGetTemperature"):
        Fault("nvmlDeviceGetTemperture", 999)
    driver = driver_of()
    driver.missing_functions.add("nvmlDeviceGetNmae")
    with pytest.raises(ValueError, match="nvmlDeviceGetNmae"), installed(driver):
        pass


def test_a_gpu_that_is_not_there_is_refused() -> None:
    driver = driver_of()
    with pytest.raises(ValueError, match="GPU-7"):
        driver.inject(Fault("nvmlDeviceGetName", 999, uuid="GPU-7"))
    with pytest.raises(ValueError, match="GPU-7"):
        driver.raise_xid("GPU-7", 79)


def test_a_fault_trips_after_its_calls_and_stays_tripped() -> None:
    driver = driver_of()
    driver.inject(Fault("nvmlDeviceGetPowerUsage", pynvml.NVML_ERROR_UNKNOWN, after_calls=2, uuid="GPU-2"))
    with installed(driver):
        pynvml.nvmlInit()
        good, faulty = (pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(2))
        assert [pynvml.nvmlDeviceGetPowerUsage(faulty) for _ in range(2)] == [25000, 25000]
        for _ in range(3):
            with pytest.raises(pynvml.NVMLError_Unknown):
                pynvml.nvmlDeviceGetPowerUsage(faulty)
        assert pynvml.nvmlDeviceGetPowerUsage(good) == 25000


def test_handles_by_uuid_and_by_index_are_of_the_same_gpu() -> None:
    with installed(driver_of()):
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByUUID("GPU-2")
        assert pynvml.nvmlDeviceGetUUID(handle) == "GPU-2"
        with pytest.raises(pynvml.NVMLError_NotFound):
            pynvml.nvmlDeviceGetHandleByUUID("GPU-3")
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            pynvml.nvmlDeviceGetHandleByIndex(2)


def test_a_handle_that_was_never_given_out_is_refused() -> None:
    with installed(driver_of()):
        pynvml.nvmlInit()
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            pynvml.nvmlDeviceGetName(pynvml.c_nvmlDevice_t())


def test_a_lost_gpu_answers_nothing() -> None:
    driver = driver_of()
    with installed(driver):
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        driver.gpu("GPU-1").lost = True
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            pynvml.nvmlDeviceGetName(handle)
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            pynvml.nvmlDeviceGetHandleByIndex(0)


def test_both_versions_of_the_memory_call() -> None:
    gpu = SimulatedGpu("GPU-1", memory_total_mib=1000.0, memory_used_mib=100.0, memory_reserved_mib=50.0)
    mib = 2**20
    with installed(driver_of(gpu)):
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        old = pynvml.nvmlDeviceGetMemoryInfo(handle)
        new = pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)
    assert (old.total, old.used, old.free) == (1000 * mib, 150 * mib, 850 * mib)
    assert (new.total, new.used, new.reserved, new.free) == (1000 * mib, 100 * mib, 50 * mib, 850 * mib)


def test_process_lists_and_retired_pages_grow_into_the_callers_buffer() -> None:
    processes = [SimulatedProcess(pid, float(pid)) for pid in range(1, 8)]
    gpu = SimulatedGpu("GPU-1", processes=processes, retired_pages_single_bit=9, retired_pages_double_bit=0)
    with installed(driver_of(gpu)):
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        found = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
        assert [(process.pid, process.usedGpuMemory) for process in found] == [
            (pid, pid * 2**20) for pid in range(1, 8)
        ]
        assert pynvml.nvmlDeviceGetGraphicsRunningProcesses(handle) == []
        assert len(pynvml.nvmlDeviceGetRetiredPages(handle, 0)) == 9
        assert pynvml.nvmlDeviceGetRetiredPages(handle, 1) == []


def test_energy_beyond_32_bits_is_whole() -> None:
    gpu = SimulatedGpu("GPU-1", energy_j=9e9)
    with installed(driver_of(gpu)):
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        assert pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) == 9_000_000_000_000
        (answer,) = pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION])
        assert answer.value.ullVal == 9_000_000_000_000


def test_a_text_that_does_not_fit_its_buffer_is_an_error() -> None:
    gpu = SimulatedGpu("GPU-1", vbios_version="9" * 100)
    with installed(driver_of(gpu)):
        pynvml.nvmlInit()
        with pytest.raises(pynvml.NVMLError_InsufficientSize):
            pynvml.nvmlDeviceGetVbiosVersion(pynvml.nvmlDeviceGetHandleByIndex(0))


def test_versions() -> None:
    with installed(driver_of()):
        pynvml.nvmlInit()
        assert pynvml.nvmlSystemGetDriverVersion() == "580.95.05"
        assert pynvml.nvmlSystemGetNVMLVersion() == "13.580.95"


def test_an_xid_waits_for_the_set_that_its_gpu_is_registered_in() -> None:
    driver = driver_of()
    xid = pynvml.nvmlEventTypeXidCriticalError
    with installed(driver):
        pynvml.nvmlInit()
        first, second = (pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(2))
        sets = [pynvml.nvmlEventSetCreate() for _ in range(2)]
        pynvml.nvmlDeviceRegisterEvents(first, xid, sets[0])
        pynvml.nvmlDeviceRegisterEvents(second, xid, sets[1])
        driver.raise_xid("GPU-2", 48)
        with pytest.raises(pynvml.NVMLError_Timeout):
            pynvml.nvmlEventSetWait_v2(sets[0], 1)
        event = pynvml.nvmlEventSetWait_v2(sets[1], 1)
        assert (event.eventType, event.eventData) == (xid, 48)
        assert pynvml.nvmlDeviceGetUUID(event.device) == "GPU-2"
        with pytest.raises(pynvml.NVMLError_Timeout):  # delivered once
            pynvml.nvmlEventSetWait_v2(sets[1], 1)
        pynvml.nvmlEventSetFree(sets[0])
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            pynvml.nvmlEventSetFree(sets[0])
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            pynvml.nvmlEventSetWait_v2(sets[0], 1)
