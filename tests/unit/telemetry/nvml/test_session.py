"""NVML that does not start or end, and GPUs that are lost, over a simulated driver."""

import gc
import pickle
import threading
from contextlib import ExitStack

import pytest

from rigproof.simulation.nvml.library import installed
from rigproof.simulation.nvml.model import Fault, SimulatedDriver, SimulatedGpu
from rigproof.telemetry.nvml.counters import read_counters, read_foreign_memory
from rigproof.telemetry.nvml.errors import GpuLost, NvmlUnavailable
from rigproof.telemetry.nvml.protocol import Code, Field
from rigproof.telemetry.nvml.sampling import read_sample
from rigproof.telemetry.nvml.session import open_nvml
from support.loaded_gpu import OTHER, SUBJECT, UUID, loaded_gpu, opened
from support.waiting import wait_for


def test_a_lost_gpu_is_left_out_and_the_others_keep_their_index() -> None:
    with opened(loaded_gpu(lost=True), SimulatedGpu(OTHER)) as (_, nvml):
        assert [(gpu.subject, gpu.uuid) for gpu in nvml.gpus("pc1")] == [("pc1/gpu1", OTHER)]
        (event,) = nvml.problems()
        assert (event.subject, event.data["code"]) == ("pc1/gpu0", Code.GPU_IS_LOST)


def test_a_gpu_that_is_lost_mid_run_raises_and_is_not_asked_again() -> None:
    with opened(loaded_gpu(), SimulatedGpu(OTHER)) as (driver, nvml):
        read_sample(nvml.gpu(UUID, SUBJECT, 0.0), 0.0)
        driver.gpus[0].lost = True
        with pytest.raises(GpuLost, match=r"pc1/gpu0 .*GPU is lost"):
            read_sample(nvml.gpu(UUID, SUBJECT, 1.0), 0.0)
        driver.calls.clear()
        driver.gpus[0].lost = False  # even if it came back
        for ask in (
            lambda: read_sample(nvml.gpu(UUID, SUBJECT, 2.0), 0.0),
            lambda: read_counters(nvml.gpu(UUID, SUBJECT, 2.0), "after"),
            lambda: read_foreign_memory(nvml.gpu(UUID, SUBJECT, 2.0), frozenset()),
        ):
            with pytest.raises(GpuLost):
                ask()
        assert driver.calls == {}
        assert read_sample(nvml.gpu(OTHER, "pc1/gpu1", 2.0), 0.0).core_temperature_c == 35.0


def test_a_field_that_says_lost_is_a_lost_gpu() -> None:
    with opened(loaded_gpu()) as (driver, nvml):
        driver.inject(Fault("nvmlDeviceGetFieldValues", Code.GPU_IS_LOST, field_id=Field.POWER_INSTANT))
        with pytest.raises(GpuLost):
            read_sample(nvml.gpu(UUID, SUBJECT, 0.0), 0.0)


def test_an_unknown_uuid_is_a_gpu_that_does_not_answer() -> None:
    with opened(loaded_gpu()) as (driver, nvml):
        for _ in range(2):
            with pytest.raises(GpuLost, match="pc1/gpu9 does not answer"):
                read_sample(nvml.gpu("GPU-none", "pc1/gpu9", 0.0), 0.0)
        assert driver.calls["nvmlDeviceGetHandleByUUID"] == 1


def test_a_gpu_that_was_given_up_is_not_asked() -> None:
    with opened(loaded_gpu()) as (driver, nvml):
        nvml.give_up(UUID, "its last call did not return")
        driver.calls.clear()
        with pytest.raises(GpuLost, match="did not return"):
            read_sample(nvml.gpu(UUID, SUBJECT, 0.0), 0.0)
        assert driver.calls == {}


def test_errors_survive_the_way_to_another_process() -> None:
    lost = pickle.loads(pickle.dumps(GpuLost(SUBJECT, UUID, "gone")))
    assert (lost.subject, lost.uuid, lost.reason) == (SUBJECT, UUID, "gone")
    unavailable = pickle.loads(pickle.dumps(NvmlUnavailable("why", 18)))
    assert (str(unavailable), unavailable.code) == ("why", 18)


@pytest.mark.parametrize(
    ("code", "message", "driver_missing"),
    [
        (Code.LIBRARY_NOT_FOUND, "no NVIDIA driver is installed", True),
        (Code.DRIVER_NOT_LOADED, "modprobe nvidia", False),
        (Code.LIB_RM_VERSION_MISMATCH, "driver/library version mismatch.*reboot", False),
        (Code.NO_PERMISSION, "/dev/nvidia", False),
        (Code.UNKNOWN, "Unknown Error.*nvidia-smi", False),
        (4242, "simulated NVML error 4242", False),
    ],
)
def test_nvml_that_does_not_start_says_why_and_what_to_do(
    code: int, message: str, driver_missing: bool
) -> None:
    driver = SimulatedDriver([loaded_gpu()])
    driver.inject(Fault("nvmlInitWithFlags", code))
    with (
        installed(driver),
        pytest.raises(NvmlUnavailable, match=rf"code {int(code)}\): .*{message}") as caught,
        open_nvml(),
    ):
        pass
    assert caught.value.driver_missing is driver_missing


def test_a_driver_that_cannot_even_count_is_unavailable() -> None:
    with opened(loaded_gpu()) as (driver, nvml):
        driver.inject(Fault("nvmlDeviceGetCount_v2", Code.UNKNOWN))
        with pytest.raises(NvmlUnavailable):
            nvml.gpus("pc1")


def test_no_gpu_is_no_error() -> None:
    with opened() as (_, nvml):
        assert nvml.gpus("pc1") == ()
        assert nvml.problems() == []


def test_nvml_is_shut_down_at_the_end() -> None:
    with opened(loaded_gpu()) as (driver, _):
        assert driver.started == 1
    assert driver.started == 0


def test_what_nobody_ended_makes_no_call_where_it_is_collected() -> None:
    """Inside of pynvml's lock, which `nvmlShutdown` takes, a collection would wait for itself."""
    with installed(SimulatedDriver([loaded_gpu()])) as driver:
        open_nvml().__enter__()
        gc.collect()
        assert driver.started == 1


def test_a_hung_call_holds_neither_the_other_gpus_nor_the_end() -> None:
    released = threading.Event()
    driver = SimulatedDriver([loaded_gpu(), SimulatedGpu(OTHER)])
    with ExitStack() as stack:
        stack.enter_context(installed(driver))
        nvml_block = open_nvml()
        nvml = nvml_block.__enter__()
        driver.inject(Fault("nvmlDeviceGetUtilizationRates", uuid=UUID, hang=released))
        hung = threading.Thread(target=read_sample, args=(nvml.gpu(UUID, SUBJECT, 0.0), 0.0), daemon=True)
        hung.start()
        wait_for(lambda: driver.calls.get("nvmlDeviceGetUtilizationRates", 0) == 1)
        assert read_sample(nvml.gpu(OTHER, "pc1/gpu1", 0.0), 0.0).utilization_percent == 0.0
        nvml_block.__exit__(None, None, None)
        assert driver.started == 1  # shutting down would hang too
        released.set()
        hung.join()
