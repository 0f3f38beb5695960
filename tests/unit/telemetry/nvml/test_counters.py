"""Counters and others' memory through the real pynvml over a simulated driver."""

import pynvml
import pytest

from rigproof.simulation.nvml.model import Fault, SimulatedGpu, SimulatedProcess
from rigproof.telemetry.nvml.counters import read_counters, read_foreign_memory
from rigproof.telemetry.nvml.protocol import Code
from support.loaded_gpu import SUBJECT, UUID, loaded_gpu, opened


def test_counters_before_and_after() -> None:
    with opened(loaded_gpu()) as (driver, nvml):
        before = read_counters(nvml.gpu(UUID, SUBJECT, 1.0), "before")
        driver.gpus[0].ecc_uncorrected = 3
        after = read_counters(nvml.gpu(UUID, SUBJECT, 2.0), "after")
    assert (before.t_s, before.subject, before.moment) == (1.0, SUBJECT, "before")
    assert (before.ecc_uncorrected, before.ecc_corrected) == (1, 7)
    assert (before.remapped_uncorrectable, before.remapped_correctable) == (4, 2)
    assert (before.remap_pending, before.remap_failed) == (True, False)
    assert (before.retired_pages, before.pcie_replays) == (11, 3)
    assert (after.moment, after.ecc_uncorrected) == ("after", 3)


def test_a_geforce_card_has_no_memory_error_counters() -> None:
    with opened(SimulatedGpu(UUID)) as (_, nvml):
        counters = read_counters(nvml.gpu(UUID, SUBJECT, 0.0), "before")
        assert nvml.problems() == []
    assert (counters.ecc_uncorrected, counters.ecc_corrected) == (None, None)
    assert (counters.remapped_uncorrectable, counters.remapped_correctable) == (None, None)
    assert (counters.remap_pending, counters.remap_failed) == (None, None)
    assert (counters.retired_pages, counters.pcie_replays) == (None, 0)
    assert (counters.remap_spares, counters.sram_threshold_exceeded, counters.inforom_valid) == (None,) * 3
    assert (counters.channel_repair_pending, counters.tpc_repair_pending) == (None, None)


@pytest.mark.parametrize("action", [0, 1, 7, None])
def test_what_the_driver_wants_done_is_read_where_it_has_that_field(action: int | None) -> None:
    with opened(loaded_gpu(recovery_action=action)) as (_, nvml):
        assert read_counters(nvml.gpu(UUID, SUBJECT, 0.0), "before").recovery_action == action
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
        assert read_counters(nvml.gpu(UUID, SUBJECT, 0.0), "before").recovery_action == read


def test_a_driver_too_old_to_know_the_recovery_action_is_no_problem() -> None:
    with opened(loaded_gpu()) as (driver, nvml):
        driver.inject(Fault("nvmlDeviceGetFieldValues", code=Code.INVALID_ARGUMENT))
        counters = read_counters(nvml.gpu(UUID, SUBJECT, 0.0), "before")
        assert (counters.recovery_action, counters.pcie_replays) == (None, 3)
        assert nvml.problems() == []


def test_how_long_each_reason_lasted_is_read_in_seconds() -> None:
    with opened(loaded_gpu(slowed_s={0x4: 61.25, 0x40: 0.4})) as (driver, nvml):
        read = read_counters(nvml.gpu(UUID, SUBJECT, 0.0), "before")
        assert (read.power_capped_s, read.hw_thermal_s) == pytest.approx((61.25, 0.4))
        assert (read.sync_boost_s, read.sw_thermal_s, read.power_brake_s) == (0, 0, 0)
        driver.gpus[0].slowed_counted = False
        read = read_counters(nvml.gpu(UUID, SUBJECT, 0.0), "before")
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
        read = read_counters(nvml.gpu(UUID, SUBJECT, 0.0), "before")
        assert nvml.problems() == []
    assert read.remap_spares == (3000, 60, 9, 2, 1)
    assert (read.sram_threshold_exceeded, read.inforom_valid) == (True, False)
    assert (read.channel_repair_pending, read.tpc_repair_pending) == (False, True)


def test_a_check_of_the_inforom_that_fails_otherwise_is_no_result() -> None:
    with opened(loaded_gpu(inforom_valid=True)) as (driver, nvml):
        driver.inject(Fault("nvmlDeviceValidateInforom", Code.UNKNOWN))
        assert read_counters(nvml.gpu(UUID, SUBJECT, 0.0), "before").inforom_valid is None
        assert [event.data["query"] for event in nvml.problems()] == ["nvmlDeviceValidateInforom"]


def test_half_a_count_of_retired_pages_is_none() -> None:
    with opened(loaded_gpu(retired_pages_double_bit=None)) as (_, nvml):
        assert read_counters(nvml.gpu(UUID, SUBJECT, 0.0), "before").retired_pages is None


def test_foreign_memory_leaves_our_own_processes_out() -> None:
    processes = [
        SimulatedProcess(10, 400.0),
        SimulatedProcess(20, 600.0),
        SimulatedProcess(20, 600.0, graphics=True),  # in both lists, counted once
        SimulatedProcess(30, None, graphics=True),
    ]
    with opened(loaded_gpu(memory_used_mib=1050.0, processes=processes)) as (_, nvml):
        foreign = read_foreign_memory(nvml.gpu(UUID, SUBJECT, 3.0), frozenset({20}))
    assert (foreign.t_s, foreign.subject) == (3.0, SUBJECT)
    assert (foreign.used_mib, foreign.pids) == (450.0, (10, 30))


def test_an_unreadable_process_list_is_none_not_empty() -> None:
    with opened(loaded_gpu(processes=None)) as (_, nvml):
        foreign = read_foreign_memory(nvml.gpu(UUID, SUBJECT, 0.0), frozenset({1}))
    assert (foreign.used_mib, foreign.pids) == (100000.0, None)


def test_nobody_else_is_an_empty_list() -> None:
    with opened(loaded_gpu(memory_used_mib=0.0)) as (_, nvml):
        foreign = read_foreign_memory(nvml.gpu(UUID, SUBJECT, 0.0), frozenset())
    assert (foreign.used_mib, foreign.pids) == (0.0, ())
