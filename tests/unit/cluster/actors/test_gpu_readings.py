"""Readings of all GPUs at once, over a simulated driver."""

import threading
from contextlib import contextmanager
from functools import partial

import pytest

from rigproof.cluster.actors.gpu_readings import Silent, read_all
from rigproof.records.measurements import EVENT_KINDS, GpuCounters
from rigproof.simulation.nvml.library import installed
from rigproof.simulation.nvml.model import Fault, SimulatedDriver, SimulatedGpu
from rigproof.telemetry.nvml.counters import read_counters
from rigproof.telemetry.nvml.errors import GpuLost
from rigproof.telemetry.nvml.session import open_nvml

UUIDS = {f"GPU-{index}": f"pc1/gpu{index}" for index in range(8)}
REPLAYS = "nvmlDeviceGetPcieReplayCounter"
PLENTY_S = 60.0


def now_s():
    return 5.0


@contextmanager
def opened():
    with installed(SimulatedDriver([SimulatedGpu(uuid) for uuid in UUIDS])) as driver, open_nvml() as nvml:
        yield driver, nvml, Silent(nvml, now_s)


def counters(nvml, silent, limit_s=PLENTY_S):
    def read(uuid, subject):
        return read_counters(nvml.gpu(uuid, subject, now_s()), "after")

    return read_all(UUIDS, read, query="counters after", limit_s=limit_s, silent=silent, now_s=now_s)


def by_subject(found):
    return {record.subject: record for record in found}


def test_all_gpus_are_asked_side_by_side():
    class AllOfThem:
        """Lets a call on only once every GPU's is under way, which one after another never happens."""

        barrier = threading.Barrier(len(UUIDS), timeout=PLENTY_S)
        wait = partial(barrier.wait)

    with opened() as (driver, nvml, silent):
        driver.inject(Fault(REPLAYS, hang=AllOfThem))
        found = counters(nvml, silent)
    assert [type(record) for record in found] == [GpuCounters] * len(UUIDS)


def test_gpus_that_hang_are_timeouts_and_the_others_are_read():
    release = threading.Event()
    with opened() as (driver, nvml, silent):
        for uuid in ("GPU-1", "GPU-6"):
            driver.inject(Fault(REPLAYS, uuid=uuid, hang=release))
        found = by_subject(counters(nvml, silent, 0.5))
        asked = driver.calls[REPLAYS]
        again = by_subject(counters(nvml, silent))
        assert driver.calls[REPLAYS] == asked + len(UUIDS) - 2  # the hung ones were left alone
        release.set()
    kinds = {subject: getattr(record, "kind", "read") for subject, record in found.items()}
    assert kinds == dict.fromkeys(UUIDS.values(), "read") | {"pc1/gpu1": "timeout", "pc1/gpu6": "timeout"}
    event = found["pc1/gpu1"]
    assert (event.t_s, event.data) == (5.0, {"limit_s": 0.5, "query": "counters after"})
    assert "“counters after”" in event.message
    assert set(again) == set(UUIDS.values()) - {"pc1/gpu1", "pc1/gpu6"}  # reported once


def test_a_lost_gpu_is_reported_once_and_the_others_are_read():
    with opened() as (driver, nvml, silent):
        driver.gpu("GPU-2").lost = True
        found = counters(nvml, silent)
        again = counters(nvml, silent)
    (event,) = [record for record in found if not isinstance(record, GpuCounters)]
    assert event.kind in EVENT_KINDS
    assert (event.kind, event.subject, event.t_s) == ("gpu_lost", "pc1/gpu2", 5.0)
    assert event.data["uuid"] == "GPU-2"
    assert "does not answer" in event.message
    assert len(found) == len(UUIDS)
    assert [record for record in again if not isinstance(record, GpuCounters)] == []


def test_another_failure_is_an_nvml_error_that_names_the_query():
    def read(uuid, subject):
        raise ValueError("an odd answer")

    with opened() as (_, _nvml, silent):
        found = read_all(
            {"GPU-0": "pc1/gpu0"}, read, query="counters after", limit_s=PLENTY_S, silent=silent, now_s=now_s
        )
    (event,) = found
    assert (event.kind, event.subject) == ("nvml_error", "pc1/gpu0")
    assert event.message == "counters after: ValueError: an odd answer"


@pytest.mark.parametrize("first", ["hung", "lost"])
def test_one_cause_is_reported_once_whichever_query_meets_it(first):
    with opened() as (_, _nvml, silent):
        reports = {
            "hung": lambda: silent.hung("GPU-0", "pc1/gpu0", "sample", 30.0),
            "lost": lambda: silent.lost(GpuLost("pc1/gpu0", "GPU-0", "fell off the bus"), "sample"),
        }
        assert len(reports[first]()) == 1
        assert [event for report in reports.values() for event in report()] == []
        assert len(silent.lost(GpuLost("pc1/gpu1", "GPU-1", "fell off the bus"), "sample")) == 1
