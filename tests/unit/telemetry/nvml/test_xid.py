"""Xid events through the real pynvml over a simulated driver."""

import pytest

from rigproof.records.measurements import EVENT_KINDS, Event
from rigproof.simulation.nvml.library import installed
from rigproof.simulation.nvml.model import Fault, SimulatedDriver, SimulatedGpu
from rigproof.telemetry.nvml.counters import read_counters
from rigproof.telemetry.nvml.errors import GpuLost
from rigproof.telemetry.nvml.protocol import Code
from rigproof.telemetry.nvml.sampling import read_sample
from rigproof.telemetry.nvml.session import open_nvml
from rigproof.telemetry.nvml.xid import XidListener
from support.waiting import wait_for

FIRST, SECOND = "GPU-1", "GPU-2"
SUBJECTS = {FIRST: "pc1/gpu0", SECOND: "pc1/gpu1"}


def new_driver() -> SimulatedDriver:
    return SimulatedDriver([SimulatedGpu(FIRST), SimulatedGpu(SECOND)])


def drained(listener: XidListener, count: int) -> list[Event]:
    """Wait for that many events."""
    events: list[Event] = []
    wait_for(lambda: events.extend(listener.drain()) or len(events) >= count)
    return events


def test_an_xid_is_reported_once_for_its_own_gpu() -> None:
    with installed(new_driver()) as driver, open_nvml() as nvml:
        listener = nvml.xids(SUBJECTS, now_s=lambda: 42.0)
        assert listener.supported == {"pc1/gpu0", "pc1/gpu1"}
        driver.raise_xid(SECOND, 63)
        driver.raise_xid(FIRST, 31)
        first, second = drained(listener, 2)
        assert listener.stop()
        assert listener.drain() == []
    assert (first.kind, first.subject, first.t_s) == ("xid", "pc1/gpu1", 42.0)
    assert first.kind in EVENT_KINDS
    assert first.data == {"xid": 63, "uuid": SECOND}
    assert first.message == "Xid 63: a memory row was remapped, or a page retired, after an error"
    assert (second.subject, second.data["xid"]) == ("pc1/gpu0", 31)
    assert driver.event_sets == {}  # freed by the thread that waited on it


def test_an_xid_without_a_known_meaning_is_reported_too() -> None:
    with installed(new_driver()) as driver, open_nvml() as nvml:
        listener = nvml.xids(SUBJECTS, now_s=lambda: 0.0)
        driver.raise_xid(FIRST, 777)
        (event,) = drained(listener, 1)
    assert event.message == "Xid 777: in no catalogue known to rigproof"


@pytest.mark.parametrize("xid", [79, 119, 120])
def test_after_an_xid_that_takes_the_gpu_away_it_is_not_asked_any_more(xid: int) -> None:
    with installed(new_driver()) as driver, open_nvml() as nvml:
        listener = nvml.xids(SUBJECTS, now_s=lambda: 0.0)
        read_sample(nvml.gpu(FIRST, "pc1/gpu0", 0.0), 0.0)
        driver.raise_xid(FIRST, xid)
        drained(listener, 1)
        assert listener.stop()
        driver.calls.clear()
        with pytest.raises(GpuLost, match=f"Xid {xid}"):
            read_sample(nvml.gpu(FIRST, "pc1/gpu0", 1.0), 0.0)
        assert driver.calls == {}
        assert read_sample(nvml.gpu(SECOND, "pc1/gpu1", 1.0), 0.0).core_temperature_c == 35.0


def test_after_an_ecc_xid_the_counters_are_still_read() -> None:
    with installed(new_driver()) as driver, open_nvml() as nvml:
        driver.gpus[0].ecc_uncorrected = 1
        listener = nvml.xids(SUBJECTS, now_s=lambda: 0.0)
        driver.raise_xid(FIRST, 48)
        drained(listener, 1)
        assert read_counters(nvml.gpu(FIRST, "pc1/gpu0", 1.0), "after").ecc_uncorrected == 1


def test_a_gpu_without_events_is_not_supported() -> None:
    driver = new_driver()
    driver.gpus[0].xid_supported = False
    with installed(driver), open_nvml() as nvml:
        listener = nvml.xids(SUBJECTS, now_s=lambda: 0.0)
        assert listener.supported == {"pc1/gpu1"}


@pytest.mark.parametrize("function", ["nvmlDeviceRegisterEvents", "nvmlDeviceGetSupportedEventTypes"])
def test_a_gpu_that_cannot_be_registered_is_not_supported(function: str) -> None:
    driver = new_driver()
    driver.inject(Fault(function, Code.UNKNOWN, uuid=SECOND))
    with installed(driver), open_nvml() as nvml:
        assert nvml.xids(SUBJECTS, now_s=lambda: 0.0).supported == {"pc1/gpu0"}


def test_a_lost_gpu_is_not_supported() -> None:
    driver = new_driver()
    driver.gpus[1].lost = True
    with installed(driver), open_nvml() as nvml:
        assert nvml.xids(SUBJECTS, now_s=lambda: 0.0).supported == {"pc1/gpu0"}


def test_a_driver_without_events_supports_none_and_stops_at_once() -> None:
    driver = new_driver()
    driver.events_supported = False
    with installed(driver), open_nvml() as nvml:
        listener = nvml.xids(SUBJECTS, now_s=lambda: 0.0)
        assert listener.supported == frozenset()
        assert listener.drain() == []
        assert listener.stop()


def test_no_supported_gpu_leaves_no_event_set_behind() -> None:
    driver = new_driver()
    for gpu in driver.gpus:
        gpu.xid_supported = False
    with installed(driver), open_nvml() as nvml:
        nvml.xids(SUBJECTS, now_s=lambda: 0.0)
        assert driver.event_sets == {}


def test_a_wait_that_fails_is_noted_once_and_listening_goes_on() -> None:
    with installed(new_driver()) as driver, open_nvml() as nvml:
        fault = driver.inject(Fault("nvmlEventSetWait_v2", Code.UNKNOWN))
        listener = nvml.xids(SUBJECTS, now_s=lambda: 7.0)
        wait_for(lambda: fault.calls >= 2)
        driver.faults.clear()
        driver.raise_xid(FIRST, 94)
        (event,) = drained(listener, 1)
        assert event.data["xid"] == 94
        assert [problem.data["query"] for problem in nvml.problems()] == ["nvmlEventSetWait_v2"]


@pytest.mark.parametrize("wait_ms", [0, 20])
def test_whoever_asks_by_hand_waits_no_longer_than_asked_where_the_driver_refuses(
    wait_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with installed(new_driver()) as driver, open_nvml() as nvml:
        listener = nvml.xids(SUBJECTS, now_s=lambda: 7.0, by_itself=False)
        driver.inject(Fault("nvmlEventSetWait_v2", Code.UNKNOWN))
        waited: list[float | None] = []
        monkeypatch.setattr(listener._stopping, "wait", waited.append)
        assert not listener.hear(wait_ms)
        assert waited == [wait_ms / 1000]
        assert [problem.data["query"] for problem in nvml.problems()] == ["nvmlEventSetWait_v2"]
