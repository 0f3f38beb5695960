"""NVML readings through the real pynvml over a simulated driver."""

import pickle
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pynvml
import pytest

from rigproof.records.samples import GpuSample
from rigproof.simulation.nvml.library import installed
from rigproof.simulation.nvml.model import (
    Fault,
    SimulatedDriver,
    SimulatedGpu,
    SimulatedLink,
    SimulatedProcess,
)
from rigproof.telemetry.nvml import protocol as nvml_protocol
from rigproof.telemetry.nvml.errors import GpuLost, NvmlUnavailable
from rigproof.telemetry.nvml.protocol import Code, Field
from rigproof.telemetry.nvml.session import Nvml, open_nvml

SUBJECT = "pc1/gpu0"
UUID = "GPU-11111111-aaaa"
OTHER = "GPU-22222222-bbbb"


def loaded_gpu(**changes: object) -> SimulatedGpu:
    """A data centre card under load: it has every sensor."""
    gpu = SimulatedGpu(
        UUID,
        name="NVIDIA H200",
        memory_total_mib=143771.0,
        memory_used_mib=100000.0,
        utilization_percent=99,
        core_temperature_c=71,
        memory_temperature_c=82,
        power_w=695.125,
        power_average_w=688.5,
        power_usage_w=600.0,
        energy_j=123456.789,
        sm_clock_mhz=1470,
        memory_clock_mhz=3201,
        clock_event_reasons=0x4,
        temperature_memory_max_c=95,
        pcie_generation=5,
        pcie_width=8,
        pcie_replays=3,
        thermal_margin_c=16,
        slowdown_margin_c=-2,
        ecc_enabled=True,
        ecc_corrected=7,
        ecc_uncorrected=1,
        remapped_correctable=2,
        remapped_uncorrectable=4,
        remap_pending=True,
        retired_pages_single_bit=5,
        retired_pages_double_bit=6,
    )
    for name, value in changes.items():
        assert hasattr(gpu, name)
        setattr(gpu, name, value)
    return gpu


@contextmanager
def opened(*gpus: SimulatedGpu) -> Iterator[tuple[SimulatedDriver, Nvml]]:
    with installed(SimulatedDriver(list(gpus))) as driver, open_nvml() as nvml:
        yield driver, nvml


def sample_of(**changes: object) -> GpuSample:
    with opened(loaded_gpu(**changes)) as (_, nvml):
        sample = nvml.sample(UUID, SUBJECT, 12.5, 0.25)
        assert nvml.problems() == []
        return sample


def test_protocol_numbers_are_those_of_pynvml() -> None:
    for code in Code:
        name = "NVML_SUCCESS" if code is Code.SUCCESS else f"NVML_ERROR_{code.name}"
        assert getattr(pynvml, name) == code
    assert {
        pynvml.NVML_FI_DEV_MEMORY_TEMP,
        pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION,
        pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER,
        pynvml.NVML_FI_DEV_POWER_AVERAGE,
        pynvml.NVML_FI_DEV_POWER_INSTANT,
        pynvml.NVML_FI_DEV_POWER_CURRENT_LIMIT,
        pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION,
        pynvml.NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT,
        pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP,
        pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST,
        pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN,
        pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN,
        pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN,
        pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT,
        pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY,
        pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY,
        pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_CRC,
        pynvml.NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS,
    } == set(Field)
    assert nvml_protocol.Threshold.SHUTDOWN == pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN
    assert nvml_protocol.Threshold.SLOWDOWN == pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
    assert nvml_protocol.Threshold.MEMORY_MAX == pynvml.NVML_TEMPERATURE_THRESHOLD_MEM_MAX
    assert nvml_protocol.Threshold.GPU_MAX == pynvml.NVML_TEMPERATURE_THRESHOLD_GPU_MAX
    for brand in nvml_protocol.Brand:
        assert getattr(pynvml, f"NVML_BRAND_{brand.name}") == brand
    for compute_mode in nvml_protocol.ComputeMode:
        assert getattr(pynvml, f"NVML_COMPUTEMODE_{compute_mode.name}") == compute_mode
    for error in nvml_protocol.LinkError:
        assert getattr(pynvml, f"NVML_NVLINK_ERROR_DL_{error.name}") == error
    for state in nvml_protocol.FabricState:
        assert getattr(pynvml, f"NVML_GPU_FABRIC_STATE_{state.name}") == state
    for mode in nvml_protocol.Virtualization:
        assert getattr(pynvml, f"NVML_GPU_VIRTUALIZATION_MODE_{mode.name}") == mode
    assert nvml_protocol.Clock.SM == pynvml.NVML_CLOCK_SM
    assert nvml_protocol.Clock.MEMORY == pynvml.NVML_CLOCK_MEM
    assert nvml_protocol.ECC_CORRECTED == pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED
    assert nvml_protocol.ECC_UNCORRECTED == pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
    assert nvml_protocol.ECC_VOLATILE == pynvml.NVML_VOLATILE_ECC
    assert (
        nvml_protocol.RETIRED_MULTIPLE_SINGLE_BIT
        == pynvml.NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS
    )
    assert nvml_protocol.RETIRED_DOUBLE_BIT == pynvml.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR
    assert pynvml.nvmlEventTypeXidCriticalError == nvml_protocol.EVENT_XID_CRITICAL_ERROR
    assert pynvml.nvmlMemory_v2 == nvml_protocol.MEMORY_INFO_V2
    assert nvml_protocol.TEMPERATURE_SENSOR_GPU == pynvml.NVML_TEMPERATURE_GPU
    members = {name for name, _ in pynvml.c_nvmlValue_t._fields_}
    assert set(nvml_protocol.VALUE_MEMBERS.values()) == members
    assert len(nvml_protocol.VALUE_MEMBERS) == pynvml.NVML_VALUE_TYPE_COUNT


def test_a_sample_holds_every_reading_in_its_unit() -> None:
    assert sample_of() == GpuSample(
        t_s=12.5,
        subject=SUBJECT,
        utilization_percent=99.0,
        memory_used_mib=100000.0,
        core_temperature_c=71.0,
        memory_temperature_c=82.0,
        power_w=pytest.approx(695.125),
        power_average_w=pytest.approx(688.5),
        energy_j=pytest.approx(123456.789),
        power_limit_w=350.0,
        sm_clock_mhz=1470,
        memory_clock_mhz=3201,
        clock_event_reasons=0x4,
        pcie_generation=5,
        pcie_width=8,
        pcie_replays=3,
        lateness_s=0.25,
        thermal_margin_c=16,
    )


@pytest.mark.parametrize(
    ("sensor", "reading"),
    [
        ("utilization_percent", "utilization_percent"),
        ("memory_used_mib", "memory_used_mib"),
        ("core_temperature_c", "core_temperature_c"),
        ("memory_temperature_c", "memory_temperature_c"),
        ("power_w", "power_w"),
        ("energy_j", "energy_j"),
        ("sm_clock_mhz", "sm_clock_mhz"),
        ("memory_clock_mhz", "memory_clock_mhz"),
        ("clock_event_reasons", "clock_event_reasons"),
        ("pcie_generation", "pcie_generation"),
        ("pcie_width", "pcie_width"),
        ("pcie_replays", "pcie_replays"),
    ],
)
def test_an_unsupported_sensor_is_none_and_costs_no_other_reading(sensor: str, reading: str) -> None:
    whole, without = sample_of(), sample_of(**{sensor: None})
    assert getattr(whole, reading) is not None
    differing = [name for name in GpuSample.__slots__ if getattr(whole, name) != getattr(without, name)]
    assert differing == [reading]
    assert getattr(without, reading) is None


def test_average_power_falls_back_on_the_older_call_alone() -> None:
    assert sample_of(power_average_w=None).power_average_w == 600.0
    assert sample_of(power_average_w=None, power_usage_w=None).power_average_w is None
    assert sample_of(power_w=None).power_w is None  # the older call is no instant reading


@pytest.mark.parametrize("sensor", ["memory_temperature_c", "core_temperature_c", "power_w"])
def test_a_sensor_that_reads_zero_is_missing(sensor: str) -> None:
    assert getattr(sample_of(**{sensor: 0}), sensor) is None


@pytest.mark.parametrize("sensor", ["core_temperature_c", "sm_clock_mhz", "pcie_generation"])
def test_all_bits_set_is_not_available(sensor: str) -> None:
    assert getattr(sample_of(**{sensor: 0xFFFFFFFF}), sensor) is None


@pytest.mark.parametrize(
    ("kind", "member", "raw", "expected"),
    [
        (0, "dVal", 81.5, 81.5),
        (1, "uiVal", 81, 81),
        (2, "ulVal", 81, 81),
        (3, "ullVal", 81, 81),
        (4, "sllVal", 81, 81),
        (5, "siVal", 81, 81),
        (6, "usVal", 81, 81),
        (4, "sllVal", -4, None),
        (1, "uiVal", 0xFFFFFFFF, None),
        (3, "ullVal", 0xFFFFFFFFFFFFFFFF, None),
        (77, "uiVal", 81, None),  # a type that nobody knows
    ],
)
def test_field_values_are_read_by_their_type(
    kind: int, member: str, raw: float, expected: float | None
) -> None:
    fields = {int(Field.MEMORY_TEMPERATURE): (kind, member, raw)}
    assert sample_of(raw_fields=fields).memory_temperature_c == expected


def test_utilization_over_100_percent_is_no_reading() -> None:
    assert sample_of(utilization_percent=101).utilization_percent is None


def test_a_field_that_the_driver_does_not_know_is_none_without_an_event() -> None:
    with opened(loaded_gpu()) as (driver, nvml):
        driver.inject(Fault("nvmlDeviceGetFieldValues", Code.INVALID_ARGUMENT, field_id=Field.POWER_INSTANT))
        sample = nvml.sample(UUID, SUBJECT, 0.0, 0.0)
        assert (sample.power_w, sample.power_average_w) == (None, 688.5)
        assert nvml.problems() == []


def test_an_unknown_error_of_one_field_is_none_and_noted_once() -> None:
    with opened(loaded_gpu()) as (driver, nvml):
        driver.inject(Fault("nvmlDeviceGetFieldValues", Code.UNKNOWN, field_id=Field.TOTAL_ENERGY))
        samples = [nvml.sample(UUID, SUBJECT, t, 0.0) for t in (1.0, 2.0)]
        assert [sample.energy_j for sample in samples] == [None, None]
        assert all(sample.power_w for sample in samples)
        (event,) = nvml.problems()
        assert (event.kind, event.subject, event.t_s) == ("nvml_error", SUBJECT, 1.0)
        assert event.data == {"query": f"field {Field.TOTAL_ENERGY}", "code": 999}
        assert nvml.problems() == []


def test_an_unknown_error_of_a_call_is_none_and_noted_once() -> None:
    with opened(loaded_gpu()) as (driver, nvml):
        driver.inject(Fault("nvmlDeviceGetTemperature", Code.UNKNOWN, after_calls=1))
        readings = [nvml.sample(UUID, SUBJECT, t, 0.0).core_temperature_c for t in (0.0, 1.0, 2.0)]
        assert readings == [71.0, None, None]
        (event,) = nvml.problems()
        assert event.data["query"] == "nvmlDeviceGetTemperature"
        assert "Unknown Error" in event.message


@pytest.mark.parametrize("code", [Code.NO_PERMISSION, Code.NOT_SUPPORTED, Code.NO_DATA])
def test_a_whole_batch_that_is_refused_leaves_the_other_readings(code: Code) -> None:
    with opened(loaded_gpu()) as (driver, nvml):
        driver.inject(Fault("nvmlDeviceGetFieldValues", code))
        sample = nvml.sample(UUID, SUBJECT, 0.0, 0.0)
        assert (sample.power_w, sample.energy_j, sample.memory_temperature_c) == (None, None, None)
        assert (sample.core_temperature_c, sample.power_average_w) == (71.0, 600.0)
        assert nvml.problems() == []


def test_an_older_driver_answers_under_the_older_names() -> None:
    with opened(loaded_gpu()) as (driver, nvml):
        driver.missing_functions |= {
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetMemoryInfo_v2",
        }
        sample = nvml.sample(UUID, SUBJECT, 0.0, 0.0)
        assert sample.clock_event_reasons == 0x4
        assert sample.memory_used_mib == 100300.0  # that version counts the driver's reserve as used
        assert nvml.foreign_memory(UUID, SUBJECT, frozenset(), 0.0).used_mib is None


def test_a_driver_without_either_name_has_no_clock_event_reasons() -> None:
    with opened(loaded_gpu()) as (driver, nvml):
        driver.missing_functions |= {
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetCurrentClocksThrottleReasons",
        }
        assert nvml.sample(UUID, SUBJECT, 0.0, 0.0).clock_event_reasons is None
        assert nvml.problems() == []


def test_a_sample_asks_seven_calls_and_link_and_margin_once_a_second() -> None:
    with opened(loaded_gpu()) as (driver, nvml):
        nvml.sample(UUID, SUBJECT, 0.0, 0.0)
        driver.calls.clear()
        driver.gpus[0].pcie_generation = 1
        held = nvml.sample(UUID, SUBJECT, 0.9, 0.0)
        assert sum(driver.calls.values()) == 7
        assert held.pcie_generation == 5
        assert nvml.sample(UUID, SUBJECT, 1.0, 0.0).pcie_generation == 1
        assert sum(driver.calls.values()) == 7 + 10
        slow = {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetPcieThroughput"}
        assert not slow & driver.calls.keys()


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


@pytest.mark.parametrize(
    ("sensor", "reading"),
    [
        ("compute_capability", "compute_capability"),
        ("vbios_version", "vbios_version"),
        ("brand", "brand"),
        ("virtualization", "virtualization"),
        ("display_active", "display_active"),
        ("ecc_enabled", "ecc_enabled"),
        ("power_limit_w", "power_limit_w"),
        ("power_limit_default_w", "power_limit_default_w"),
        ("sm_clock_max_mhz", "sm_clock_max_mhz"),
        ("memory_clock_max_mhz", "memory_clock_max_mhz"),
        ("temperature_gpu_max_c", "temperature_gpu_max_c"),
        ("temperature_memory_max_c", "temperature_memory_max_c"),
        ("temperature_slowdown_c", "temperature_slowdown_c"),
        ("temperature_shutdown_c", "temperature_shutdown_c"),
        ("slowdown_margin_c", "slowdown_margin_c"),
        ("pcie_generation_max", "pcie_generation_max"),
        ("pcie_width_max", "pcie_width_max"),
    ],
)
def test_identity_leaves_out_what_a_card_does_not_report(sensor: str, reading: str) -> None:
    with opened(loaded_gpu(**{sensor: None})) as (_, nvml):
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


@pytest.mark.parametrize("margin", [47, 0, -3, None])
def test_the_thermal_margin_may_be_negative(margin: int | None) -> None:
    assert sample_of(thermal_margin_c=margin).thermal_margin_c == margin


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


def test_a_lost_gpu_is_left_out_and_the_others_keep_their_index() -> None:
    with opened(loaded_gpu(lost=True), SimulatedGpu(OTHER)) as (_, nvml):
        assert [(gpu.subject, gpu.uuid) for gpu in nvml.gpus("pc1")] == [("pc1/gpu1", OTHER)]
        (event,) = nvml.problems()
        assert (event.subject, event.data["code"]) == ("pc1/gpu0", Code.GPU_IS_LOST)


def test_a_gpu_that_is_lost_mid_run_raises_and_is_not_asked_again() -> None:
    with opened(loaded_gpu(), SimulatedGpu(OTHER)) as (driver, nvml):
        nvml.sample(UUID, SUBJECT, 0.0, 0.0)
        driver.gpus[0].lost = True
        with pytest.raises(GpuLost, match=r"pc1/gpu0 .*GPU is lost"):
            nvml.sample(UUID, SUBJECT, 1.0, 0.0)
        driver.calls.clear()
        driver.gpus[0].lost = False  # even if it came back
        for ask in (
            lambda: nvml.sample(UUID, SUBJECT, 2.0, 0.0),
            lambda: nvml.counters(UUID, SUBJECT, "after", 2.0),
            lambda: nvml.foreign_memory(UUID, SUBJECT, frozenset(), 2.0),
        ):
            with pytest.raises(GpuLost):
                ask()
        assert driver.calls == {}
        assert nvml.sample(OTHER, "pc1/gpu1", 2.0, 0.0).core_temperature_c == 35.0


def test_a_field_that_says_lost_is_a_lost_gpu() -> None:
    with opened(loaded_gpu()) as (driver, nvml):
        driver.inject(Fault("nvmlDeviceGetFieldValues", Code.GPU_IS_LOST, field_id=Field.POWER_INSTANT))
        with pytest.raises(GpuLost):
            nvml.sample(UUID, SUBJECT, 0.0, 0.0)


def test_an_unknown_uuid_is_a_gpu_that_does_not_answer() -> None:
    with opened(loaded_gpu()) as (driver, nvml):
        for _ in range(2):
            with pytest.raises(GpuLost, match="pc1/gpu9 does not answer"):
                nvml.sample("GPU-none", "pc1/gpu9", 0.0, 0.0)
        assert driver.calls["nvmlDeviceGetHandleByUUID"] == 1


def test_a_gpu_that_was_given_up_is_not_asked() -> None:
    with opened(loaded_gpu()) as (driver, nvml):
        nvml.give_up(UUID, "its last call did not return")
        driver.calls.clear()
        with pytest.raises(GpuLost, match="did not return"):
            nvml.sample(UUID, SUBJECT, 0.0, 0.0)
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


def test_counters_before_and_after() -> None:
    with opened(loaded_gpu()) as (driver, nvml):
        before = nvml.counters(UUID, SUBJECT, "before", 1.0)
        driver.gpus[0].ecc_uncorrected = 3
        after = nvml.counters(UUID, SUBJECT, "after", 2.0)
    assert (before.t_s, before.subject, before.moment) == (1.0, SUBJECT, "before")
    assert (before.ecc_uncorrected, before.ecc_corrected) == (1, 7)
    assert (before.remapped_uncorrectable, before.remapped_correctable) == (4, 2)
    assert (before.remap_pending, before.remap_failed) == (True, False)
    assert (before.retired_pages, before.pcie_replays) == (11, 3)
    assert (after.moment, after.ecc_uncorrected) == ("after", 3)


def test_a_geforce_card_has_no_memory_error_counters() -> None:
    with opened(SimulatedGpu(UUID)) as (_, nvml):
        counters = nvml.counters(UUID, SUBJECT, "before", 0.0)
        assert nvml.problems() == []
    assert (counters.ecc_uncorrected, counters.ecc_corrected) == (None, None)
    assert (counters.remapped_uncorrectable, counters.remapped_correctable) == (None, None)
    assert (counters.remap_pending, counters.remap_failed) == (None, None)
    assert (counters.retired_pages, counters.pcie_replays) == (None, 0)


@pytest.mark.parametrize("action", [0, 1, 7, None])
def test_what_the_driver_wants_done_is_read_where_it_has_that_field(action: int | None) -> None:
    with opened(loaded_gpu(recovery_action=action)) as (_, nvml):
        assert nvml.counters(UUID, SUBJECT, "before", 0.0).recovery_action == action
        assert nvml.problems() == []


@pytest.mark.parametrize(
    ("stated", "read"),
    [((0, "uiVal", 1), 1), ((0, "dVal", 2.0), 2), ((1, "uiVal", 4), 4), ((3, "ullVal", 7), 7)],
)
def test_a_wanted_reset_is_read_whatever_type_the_driver_states(
    stated: tuple[int, str, float], read: int
) -> None:
    """Driver 580 leaves the type of field 230 at 0, a double: an integer of 1 would read as 5e-324."""
    gpu = loaded_gpu(raw_fields={pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION: stated})
    with opened(gpu) as (_, nvml):
        assert nvml.counters(UUID, SUBJECT, "before", 0.0).recovery_action == read


def test_a_driver_too_old_to_know_the_recovery_action_is_no_problem() -> None:
    with opened(loaded_gpu()) as (driver, nvml):
        driver.inject(Fault("nvmlDeviceGetFieldValues", code=Code.INVALID_ARGUMENT))
        counters = nvml.counters(UUID, SUBJECT, "before", 0.0)
        assert (counters.recovery_action, counters.pcie_replays) == (None, 3)
        assert nvml.problems() == []


def test_how_long_each_reason_lasted_is_read_in_seconds() -> None:
    with opened(loaded_gpu(slowed_s={0x4: 61.25, 0x40: 0.4})) as (driver, nvml):
        read = nvml.counters(UUID, SUBJECT, "before", 0.0)
        assert (read.power_capped_s, read.hw_thermal_s) == pytest.approx((61.25, 0.4))
        assert (read.sync_boost_s, read.sw_thermal_s, read.power_brake_s) == (0, 0, 0)
        driver.gpus[0].slowed_counted = False
        read = nvml.counters(UUID, SUBJECT, "before", 0.0)
        assert (read.power_capped_s, read.hw_thermal_s) == (None, None)
        assert nvml.problems() == []


def test_what_the_card_reports_of_its_defects() -> None:
    worn = loaded_gpu(
        remap_spares=(3000, 60, 9, 2, 1),
        sram_threshold_exceeded=True,
        channel_repair_pending=False,
        tpc_repair_pending=True,
        inforom_valid=False,
    )
    with opened(worn) as (_, nvml):
        read = nvml.counters(UUID, SUBJECT, "before", 0.0)
        assert nvml.problems() == []
    assert read.remap_spares == (3000, 60, 9, 2, 1)
    assert (read.sram_threshold_exceeded, read.inforom_valid) == (True, False)
    assert (read.channel_repair_pending, read.tpc_repair_pending) == (False, True)


def test_a_card_that_reports_no_defects_has_none_of_these_readings() -> None:
    with opened(SimulatedGpu(UUID)) as (_, nvml):
        read = nvml.counters(UUID, SUBJECT, "before", 0.0)
        assert nvml.problems() == []
    assert (read.remap_spares, read.sram_threshold_exceeded, read.inforom_valid) == (None, None, None)
    assert (read.channel_repair_pending, read.tpc_repair_pending) == (None, None)


def test_a_check_of_the_inforom_that_fails_otherwise_is_no_result() -> None:
    with opened(loaded_gpu(inforom_valid=True)) as (driver, nvml):
        driver.inject(Fault("nvmlDeviceValidateInforom", Code.UNKNOWN))
        assert nvml.counters(UUID, SUBJECT, "before", 0.0).inforom_valid is None
        assert [event.data["query"] for event in nvml.problems()] == ["nvmlDeviceValidateInforom"]


def test_the_errors_of_active_nvlinks_are_counted_link_by_link() -> None:
    links = [SimulatedLink(), SimulatedLink(active=False), SimulatedLink(True, 2, 3, 5)]
    for fields in (True, False):  # a driver that has no field values for them has functions
        with opened(loaded_gpu(nvlinks=links, nvlink_fields=fields)) as (_, nvml):
            read = nvml.counters(UUID, SUBJECT, "before", 0.0)
            assert nvml.problems() == []
        assert read.nvlinks == (True, False, True)
        assert read.nvlink_replays == (0, None, 2)
        assert read.nvlink_recoveries == (0, None, 3)
        assert read.nvlink_crc_errors == (0, None, 5)


@pytest.mark.parametrize("links", [None, [], [SimulatedLink(active=None)] * 18])
def test_a_card_without_nvlinks_has_none(links: list[SimulatedLink] | None) -> None:
    with opened(loaded_gpu(nvlinks=links)) as (_, nvml):
        read = nvml.counters(UUID, SUBJECT, "before", 0.0)
        assert (read.nvlinks, read.nvlink_replays, read.nvlink_crc_errors) == (None, None, None)
        assert nvml.problems() == []


def test_an_nvlink_that_is_down_counts_no_errors() -> None:
    with opened(loaded_gpu(nvlinks=[SimulatedLink(active=False)] * 4)) as (_, nvml):
        read = nvml.counters(UUID, SUBJECT, "before", 0.0)
        assert (read.nvlinks, read.nvlink_replays) == ((False,) * 4, None)


def test_the_fabric_is_read_by_name() -> None:
    with opened(loaded_gpu(fabric_state=3, fabric_health=0x21)) as (driver, nvml):
        read = nvml.counters(UUID, SUBJECT, "before", 0.0)
        assert (read.fabric_state, read.fabric_status, read.fabric_health) == ("completed", 0, 0x21)
        driver.gpus[0].fabric_state = 2
        assert nvml.counters(UUID, SUBJECT, "after", 1.0).fabric_state == "in_progress"
        driver.gpus[0].fabric_state = 9
        assert nvml.counters(UUID, SUBJECT, "after", 2.0).fabric_state == "unknown (9)"
        assert nvml.problems() == []


def test_a_pynvml_or_driver_that_knows_no_fabric_is_no_problem(monkeypatch) -> None:
    with opened(loaded_gpu(fabric_state=3)) as (driver, nvml):
        monkeypatch.delattr(pynvml, "c_nvmlGpuFabricInfoV_t")
        assert nvml.counters(UUID, SUBJECT, "before", 0.0).fabric_state is None
        monkeypatch.undo()
        driver.missing_functions.add("nvmlDeviceGetGpuFabricInfoV")
        assert nvml.counters(UUID, SUBJECT, "before", 0.0).fabric_state is None
        assert nvml.problems() == []


def test_half_a_count_of_retired_pages_is_none() -> None:
    with opened(loaded_gpu(retired_pages_double_bit=None)) as (_, nvml):
        assert nvml.counters(UUID, SUBJECT, "before", 0.0).retired_pages is None


def test_foreign_memory_leaves_our_own_processes_out() -> None:
    processes = [
        SimulatedProcess(10, 400.0),
        SimulatedProcess(20, 600.0),
        SimulatedProcess(20, 600.0, graphics=True),  # in both lists, counted once
        SimulatedProcess(30, None, graphics=True),
    ]
    with opened(loaded_gpu(memory_used_mib=1050.0, processes=processes)) as (_, nvml):
        foreign = nvml.foreign_memory(UUID, SUBJECT, frozenset({20}), 3.0)
    assert (foreign.t_s, foreign.subject) == (3.0, SUBJECT)
    assert (foreign.used_mib, foreign.pids) == (450.0, (10, 30))


def test_an_unreadable_process_list_is_none_not_empty() -> None:
    with opened(loaded_gpu(processes=None)) as (_, nvml):
        foreign = nvml.foreign_memory(UUID, SUBJECT, frozenset({1}), 0.0)
    assert (foreign.used_mib, foreign.pids) == (100000.0, None)


def test_nobody_else_is_an_empty_list() -> None:
    with opened(loaded_gpu(memory_used_mib=0.0)) as (_, nvml):
        foreign = nvml.foreign_memory(UUID, SUBJECT, frozenset(), 0.0)
    assert (foreign.used_mib, foreign.pids) == (0.0, ())


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for another thread; the limit only ends a test that has failed already."""
    deadline_s = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.002)


def test_a_hung_call_holds_neither_the_other_gpus_nor_the_end() -> None:
    released = threading.Event()
    driver = SimulatedDriver([loaded_gpu(), SimulatedGpu(OTHER)])
    with ExitStack() as stack:
        stack.enter_context(installed(driver))
        nvml_block = open_nvml()
        nvml = nvml_block.__enter__()
        driver.inject(Fault("nvmlDeviceGetUtilizationRates", uuid=UUID, hang=released))
        hung = threading.Thread(target=nvml.sample, args=(UUID, SUBJECT, 0.0, 0.0), daemon=True)
        hung.start()
        wait_until(lambda: driver.calls.get("nvmlDeviceGetUtilizationRates", 0) == 1)
        assert nvml.sample(OTHER, "pc1/gpu1", 0.0, 0.0).utilization_percent == 0.0
        nvml_block.__exit__(None, None, None)
        assert driver.started == 1  # shutting down would hang too
        released.set()
        hung.join()
