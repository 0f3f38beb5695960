"""What a card is, through the real pynvml over a simulated driver."""

import pynvml
import pytest

from rigproof.simulation.nvml.library import installed
from rigproof.simulation.nvml.model import Fault, SimulatedDriver, SimulatedGpu
from rigproof.telemetry.nvml.protocol import Code
from rigproof.telemetry.nvml.session import open_nvml
from support.loaded_gpu import OTHER, SUBJECT, UUID, loaded_gpu, opened

READINGS = [
    "compute_capability", "vbios_version", "brand", "virtualization",
    "display_active", "ecc_enabled", "power_limit_w", "power_limit_default_w",
    "sm_clock_max_mhz", "memory_clock_max_mhz", "temperature_gpu_max_c", "temperature_memory_max_c",
    "temperature_slowdown_c", "temperature_shutdown_c", "slowdown_margin_c", "pcie_generation_max",
    "pcie_width_max",
]  # fmt: skip


def test_identity_of_a_data_centre_card() -> None:
    with opened(loaded_gpu()) as (_, nvml):
        (gpu,) = nvml.gpus("pc1")
        assert nvml.driver_version == "580.95.05"
    assert (gpu.subject, gpu.uuid, gpu.name, gpu.index, gpu.device) == (
        SUBJECT,
        UUID,
        "NVIDIA H200",
        0,
        "cuda",
    )
    assert (gpu.memory_total_mib, gpu.pci_bus_id) == (143771.0, "00000000:01:00.0")
    assert gpu.compute_capability == (8, 6)
    assert (gpu.power_limit_w, gpu.power_limit_default_w) == (350.0, 350.0)
    assert (gpu.sm_clock_max_mhz, gpu.memory_clock_max_mhz) == (2100.0, 9751.0)
    assert (gpu.temperature_gpu_max_c, gpu.temperature_memory_max_c) == (93.0, 95.0)
    assert (gpu.temperature_slowdown_c, gpu.temperature_shutdown_c) == (95.0, 98.0)
    assert (gpu.pcie_generation_max, gpu.pcie_width_max) == (4, 16)
    assert (gpu.ecc_enabled, gpu.display_active, gpu.xid_supported) == (True, False, True)
    assert gpu.vbios_version == "94.02.42.00.01"
    assert (gpu.brand, gpu.virtualization) == ("geforce_rtx", "none")


@pytest.mark.parametrize("reading", READINGS)
def test_identity_leaves_out_what_a_card_does_not_report(reading: str) -> None:
    with opened(loaded_gpu(**{reading: None})) as (_, nvml):
        (gpu,) = nvml.gpus("pc1")
        assert getattr(gpu, reading) is None
        assert nvml.problems() == []


@pytest.mark.parametrize(
    ("brand", "mode", "expected"),
    [(14, 2, ("nvidia", "vgpu")), (10, 1, ("nvidia_vws", "passthrough")), (99, 99, (None, None))],
)
def test_brand_and_virtualization_are_reported_by_name(brand, mode, expected) -> None:
    with opened(loaded_gpu(brand=brand, virtualization=mode)) as (_, nvml):
        (gpu,) = nvml.gpus("pc1")
        assert (gpu.brand, gpu.virtualization) == expected


@pytest.mark.parametrize(("number", "name"), [(0, "default"), (2, "prohibited"), (9, None), (None, None)])
def test_modes_are_reported_by_name(number: int | None, name: str | None) -> None:
    card = loaded_gpu(compute_mode=number, mig_enabled=True, mig_pending=False, persistence=False)
    with opened(card) as (_, nvml):
        (gpu,) = nvml.gpus("pc1")
        assert (gpu.compute_mode, gpu.persistence, gpu.mig_enabled, gpu.mig_pending) == (
            name,
            False,
            True,
            False,
        )


@pytest.mark.parametrize(("stated", "read"), [(13000, "13.0"), (12080, "12.8"), (None, None)])
def test_the_newest_cuda_of_the_driver(stated: int | None, read: str | None) -> None:
    with installed(SimulatedDriver([loaded_gpu()], cuda_version=stated)), open_nvml() as nvml:
        assert nvml.driver_cuda == read


@pytest.mark.parametrize("stated", [(5, "siVal", -2), (1, "uiVal", 2**32 - 2), (0, "siVal", -2)])
def test_a_margin_is_signed_whatever_type_the_driver_states(stated: tuple[int, str, int]) -> None:
    gpu = loaded_gpu(raw_fields={pynvml.NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT: stated})
    with opened(gpu) as (_, nvml):
        assert nvml.gpus("pc1")[0].slowdown_margin_c == -2


@pytest.mark.parametrize("value", [0, 2**32 - 5])  # nvmlDeviceGetTemperatureThreshold's type is unsigned
def test_a_threshold_of_zero_or_less_is_none(value: int) -> None:
    with opened(loaded_gpu(temperature_gpu_max_c=value)) as (_, nvml):
        assert nvml.gpus("pc1")[0].temperature_gpu_max_c is None


def test_a_gpu_without_events_does_not_support_xids() -> None:
    with opened(loaded_gpu(xid_supported=False)) as (_, nvml):
        assert nvml.gpus("pc1")[0].xid_supported is False


def test_a_gpu_without_memory_of_its_own_has_the_hosts() -> None:
    with opened(loaded_gpu(memory_total_mib=None)) as (_, nvml):
        assert nvml.gpus("pc1")[0].memory_total_mib > 0


def test_a_gpu_whose_memory_cannot_be_read_is_left_out_and_noted() -> None:
    with opened(loaded_gpu(), SimulatedGpu(OTHER)) as (driver, nvml):
        for name in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"):
            driver.inject(Fault(name, Code.UNKNOWN, uuid=UUID))
        assert [(gpu.subject, gpu.index) for gpu in nvml.gpus("pc1")] == [("pc1/gpu1", 1)]
        assert {event.subject for event in nvml.problems()} == {"pc1/gpu0"}
