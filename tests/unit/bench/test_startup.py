"""bench/startup.py: what it makes of a recording. How long a start takes decides no test."""

import importlib
import sys
from pathlib import Path

import pytest

from rigproof.records.identity import RunInfo
from rigproof.records.measurements import TFLOP, Event, Round, Stage
from rigproof.records.recording import Recording

BENCH = Path(__file__).resolve().parents[3] / "bench"
WORKERS = ("pc1/gpu0#0", "pc1/gpu1#0")


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    yield importlib.import_module("startup")
    sys.modules.pop("startup", None)


@pytest.fixture
def recording():
    """A run whose process began 2 s before its run time, and whose first stage began at 5 s."""
    made = Recording(RunInfo("r", "2026-01-01T00:00:00Z", "quick", "0", "3", {}, ()))
    made.add(
        Event(4.5, "start_up", "rig", "", data={"process_s": -2.0, "ended_s": {"rig": -0.5, "ray": 1.0}})
    )
    made.add(Stage("gemm", 5.0, workers=WORKERS))
    for number, worker in enumerate(WORKERS):
        data = {"process_s": 0.5 + number, "torch_s": 3.0}
        subject = worker.partition("#")[0]
        made.add(Event(4.0 + number, "worker_up", subject, "", worker=worker, data=data))
        made.add(Event(5.2 + number / 10, "reference", subject, "", "gemm", worker))
        made.add(Round(5.5, "gemm", worker, subject, "warmup", 0.1, 1.0, TFLOP, True))
    return made


def test_parts_count_from_the_start_of_the_process(bench, recording):
    assert bench.parts_of(recording) == pytest.approx(
        {"rig": 1.5, "ray": 3.0, "load begins": 7.0, "first products verified": 7.3, "first rounds": 7.5}
    )


def test_what_each_part_added(bench):
    assert bench.lengths({"rig": 1.5, "ray": 3.25, "load begins": 7.0}) == {
        "rig": 1.5,
        "ray": 1.75,
        "load begins": 3.75,
    }


def test_each_worker_is_told_by_itself(bench, recording):
    assert bench.workers_of(recording)["workers"] == {
        WORKERS[0]: {"process": 2.5, "torch": 5.0, "device": 6.0},
        WORKERS[1]: {"process": 3.5, "torch": 5.0, "device": 7.0},
    }
