"""Samples through the real pynvml over a simulated driver."""

import pytest

from rigproof.records.samples import GpuSample
from rigproof.simulation.nvml.model import Fault
from rigproof.telemetry.nvml.counters import read_foreign_memory
from rigproof.telemetry.nvml.protocol import Code, Field
from rigproof.telemetry.nvml.sampling import read_sample
from support.loaded_gpu import SUBJECT, UUID, loaded_gpu, opened

# Sensors whose readings have the name that the simulated card gives them.
READINGS = [
    one for one in GpuSample.__slots__ if one not in ("t_s", "subject", "lateness_s", "power_average_w")
]


def sample_of(**changes: object) -> GpuSample:
    with opened(loaded_gpu(**changes)) as (_, nvml):
        sample = read_sample(nvml.gpu(UUID, SUBJECT, 12.5), 0.25)
        assert nvml.problems() == []
        return sample


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


@pytest.mark.parametrize("reading", READINGS)
def test_an_unsupported_sensor_is_none_and_costs_no_other_reading(reading: str) -> None:
    whole, without = sample_of(), sample_of(**{reading: None})
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
        sample = read_sample(nvml.gpu(UUID, SUBJECT, 0.0), 0.0)
        assert (sample.power_w, sample.power_average_w) == (None, 688.5)
        assert nvml.problems() == []


def test_an_unknown_error_of_one_field_is_none_and_noted_once() -> None:
    with opened(loaded_gpu()) as (driver, nvml):
        driver.inject(Fault("nvmlDeviceGetFieldValues", Code.UNKNOWN, field_id=Field.TOTAL_ENERGY))
        samples = [read_sample(nvml.gpu(UUID, SUBJECT, t), 0.0) for t in (1.0, 2.0)]
        assert [sample.energy_j for sample in samples] == [None, None]
        assert all(sample.power_w for sample in samples)
        (event,) = nvml.problems()
        assert (event.kind, event.subject, event.t_s) == ("nvml_error", SUBJECT, 1.0)
        assert event.data == {"query": f"field {Field.TOTAL_ENERGY}", "code": 999}
        assert nvml.problems() == []


def test_an_unknown_error_of_a_call_is_none_and_noted_once() -> None:
    with opened(loaded_gpu()) as (driver, nvml):
        driver.inject(Fault("nvmlDeviceGetTemperature", Code.UNKNOWN, after_calls=1))
        readings = [read_sample(nvml.gpu(UUID, SUBJECT, t), 0.0).core_temperature_c for t in (0.0, 1.0, 2.0)]
        assert readings == [71.0, None, None]
        (event,) = nvml.problems()
        assert event.data["query"] == "nvmlDeviceGetTemperature"
        assert "Unknown Error" in event.message


@pytest.mark.parametrize("code", [Code.NO_PERMISSION, Code.NOT_SUPPORTED, Code.NO_DATA])
def test_a_whole_batch_that_is_refused_leaves_the_other_readings(code: Code) -> None:
    with opened(loaded_gpu()) as (driver, nvml):
        driver.inject(Fault("nvmlDeviceGetFieldValues", code))
        sample = read_sample(nvml.gpu(UUID, SUBJECT, 0.0), 0.0)
        assert (sample.power_w, sample.energy_j, sample.memory_temperature_c) == (None, None, None)
        assert (sample.core_temperature_c, sample.power_average_w) == (71.0, 600.0)
        assert nvml.problems() == []


def test_an_older_driver_answers_under_the_older_names() -> None:
    with opened(loaded_gpu()) as (driver, nvml):
        driver.missing_functions |= {
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetMemoryInfo_v2",
        }
        sample = read_sample(nvml.gpu(UUID, SUBJECT, 0.0), 0.0)
        assert sample.clock_event_reasons == 0x4
        assert sample.memory_used_mib == 100300.0  # that version counts the driver's reserve as used
        assert read_foreign_memory(nvml.gpu(UUID, SUBJECT, 0.0), frozenset()).used_mib is None


def test_a_sample_asks_seven_calls_and_link_and_margin_once_a_second() -> None:
    with opened(loaded_gpu()) as (driver, nvml):
        read_sample(nvml.gpu(UUID, SUBJECT, 0.0), 0.0)
        driver.calls.clear()
        driver.gpus[0].pcie_generation = 1
        held = read_sample(nvml.gpu(UUID, SUBJECT, 0.9), 0.0)
        assert sum(driver.calls.values()) == 7
        assert held.pcie_generation == 5
        assert read_sample(nvml.gpu(UUID, SUBJECT, 1.0), 0.0).pcie_generation == 1
        assert sum(driver.calls.values()) == 7 + 10
        slow = {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetPcieThroughput"}
        assert not slow & driver.calls.keys()


@pytest.mark.parametrize("margin", [47, 0, -3, None])
def test_the_thermal_margin_may_be_negative(margin: int | None) -> None:
    assert sample_of(thermal_margin_c=margin).thermal_margin_c == margin
