"""NVLinks and their fabric through the real pynvml over a simulated driver."""

import pynvml
import pytest

from rigproof.simulation.nvml.model import SimulatedLink
from rigproof.telemetry.nvml.counters import read_counters
from support.loaded_gpu import SUBJECT, UUID, loaded_gpu, opened


def test_the_errors_of_active_nvlinks_are_counted_link_by_link() -> None:
    links = [SimulatedLink(), SimulatedLink(active=False), SimulatedLink(True, 2, 3, 5)]
    for fields in (True, False):  # a driver that has no field values for them has functions
        with opened(loaded_gpu(nvlinks=links, nvlink_fields=fields)) as (_, nvml):
            read = read_counters(nvml.gpu(UUID, SUBJECT, 0.0), "before")
            assert nvml.problems() == []
        assert read.nvlinks == (True, False, True)
        assert read.nvlink_replays == (0, None, 2)
        assert read.nvlink_recoveries == (0, None, 3)
        assert read.nvlink_crc_errors == (0, None, 5)


@pytest.mark.parametrize("links", [None, [], [SimulatedLink(active=None)] * 18])
def test_a_card_without_nvlinks_has_none(links: list[SimulatedLink] | None) -> None:
    with opened(loaded_gpu(nvlinks=links)) as (_, nvml):
        read = read_counters(nvml.gpu(UUID, SUBJECT, 0.0), "before")
        assert (read.nvlinks, read.nvlink_replays, read.nvlink_crc_errors) == (None, None, None)
        assert nvml.problems() == []


def test_an_nvlink_that_is_down_counts_no_errors() -> None:
    with opened(loaded_gpu(nvlinks=[SimulatedLink(active=False)] * 4)) as (_, nvml):
        read = read_counters(nvml.gpu(UUID, SUBJECT, 0.0), "before")
        assert (read.nvlinks, read.nvlink_replays) == ((False,) * 4, None)


def test_the_fabric_is_read_by_name() -> None:
    with opened(loaded_gpu(fabric_state=3, fabric_health=0x21)) as (driver, nvml):
        read = read_counters(nvml.gpu(UUID, SUBJECT, 0.0), "before")
        assert (read.fabric_state, read.fabric_status, read.fabric_health) == ("completed", 0, 0x21)
        driver.gpus[0].fabric_state = 2
        assert read_counters(nvml.gpu(UUID, SUBJECT, 1.0), "after").fabric_state == "in_progress"
        driver.gpus[0].fabric_state = 9
        assert read_counters(nvml.gpu(UUID, SUBJECT, 2.0), "after").fabric_state == "unknown (9)"
        assert nvml.problems() == []


def test_a_pynvml_or_driver_that_knows_no_fabric_is_no_problem(monkeypatch) -> None:
    with opened(loaded_gpu(fabric_state=3)) as (driver, nvml):
        monkeypatch.delattr(pynvml, "c_nvmlGpuFabricInfoV_t")
        assert read_counters(nvml.gpu(UUID, SUBJECT, 0.0), "before").fabric_state is None
        monkeypatch.undo()
        driver.missing_functions.add("nvmlDeviceGetGpuFabricInfoV")
        assert read_counters(nvml.gpu(UUID, SUBJECT, 0.0), "before").fabric_state is None
        assert nvml.problems() == []
