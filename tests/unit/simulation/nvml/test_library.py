"""The simulated libnvidia-ml itself, called through pynvml."""

import pynvml
import pytest

from rigproof.simulation.nvml.library import STATE, installed
from rigproof.simulation.nvml.model import (
    Fault,
    SimulatedDriver,
    SimulatedGpu,
)


def driver_of(*gpus: SimulatedGpu) -> SimulatedDriver:
    return SimulatedDriver(list(gpus) or [SimulatedGpu("GPU-1"), SimulatedGpu("GPU-2")])


def test_pynvml_is_put_back_as_it_was() -> None:
    before = {name: getattr(pynvml, name) for name in STATE}
    with installed(driver_of()):
        pynvml.nvmlInit()
        assert pynvml.nvmlDeviceGetCount() == 2
        assert pynvml._nvmlLib_refcount == 1
    assert {name: getattr(pynvml, name) for name in STATE} == before
    assert all(getattr(pynvml, name) is value for name, value in before.items())


def test_drivers_can_be_installed_inside_one_another() -> None:
    with installed(driver_of()):
        pynvml.nvmlInit()
        with installed(driver_of(SimulatedGpu("GPU-9"))):
            pynvml.nvmlInit()
            assert pynvml.nvmlDeviceGetCount() == 1
        assert pynvml.nvmlDeviceGetCount() == 2


def test_a_function_that_is_not_simulated_is_not_found() -> None:
    with installed(driver_of()):
        pynvml.nvmlInit()
        with pytest.raises(pynvml.NVMLError_FunctionNotFound):
            pynvml.nvmlDeviceGetNumFans(pynvml.nvmlDeviceGetHandleByIndex(0))


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


def test_a_handle_that_was_never_given_out_is_refused() -> None:
    with installed(driver_of()):
        pynvml.nvmlInit()
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            pynvml.nvmlDeviceGetName(pynvml.c_nvmlDevice_t())
