"""bench/large_rig.py on a small rig: what it writes is judged as what it is, by one process and by two."""

import importlib
import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from rigproof.cli import rejudge
from rigproof.judging.laps import judge_all
from rigproof.records.disk.store import read_recording
from rigproof.records.verdict import Outcome
from rigproof.stages.feeding.stage import RewardBatch

BENCH = Path(__file__).resolve().parents[3] / "bench"
SLOW, HOT = "node0001/gpu2", "node0002/gpu5"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The folder of a recording of 4 nodes with 8 GPUs each over 60 s."""
    folder = tmp_path_factory.mktemp("large")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(BENCH), *sys.path])
        bench = importlib.import_module("large_rig")
        shape = bench.work.Shape(4, 8, 60, slow=10, hot=21)
        bench.write_recording(folder, shape)
    return folder


def test_exactly_the_slow_and_the_hot_card_fail(recorded):
    recording = read_recording(recorded)
    verdicts = judge_all(recording)
    failed = {(one.subject, one.criterion) for one in verdicts if one.outcome is Outcome.FAIL}
    assert {subject for subject, _ in failed} == {SLOW, HOT}
    hot = {"thermal.core_temperature", "thermal.margin"}
    assert {criterion for subject, criterion in failed if subject == HOT} == hot
    assert (SLOW, "throughput.sustained") in failed
    assert (SLOW, "throughput.peer_outlier") in failed
    counted = Counter(one.outcome for one in verdicts)
    assert counted[Outcome.WARN] == counted[Outcome.NOT_MEASURED] == 0
    assert len({one.subject for one in verdicts}) == 32 + 4 + 1


def test_every_kind_of_record_is_there_once_a_second(recorded):
    recording = read_recording(recorded)
    assert len(recording.nodes) == 4
    assert len(recording.gpus) == len(recording.workers) == len(recording.foreign_memory) == 32
    assert len(recording.rounds) == len(recording.memory) == 32 * 60
    assert len(recording.gpu_samples) == 32 * 65
    assert len(recording.host_samples) == 4 * 65
    assert len(recording.counters) == 64
    assert {stage.status for stage in recording.stages.values()} == {"finished"}
    assert {one.label("part") for one in recording.rounds} == {None, "precision"}
    assert recording.of(RewardBatch)


def test_several_processes_write_what_one_writes(recorded, monkeypatch):
    files = ("verdict.json", "metrics.prom", "summary.md")
    monkeypatch.setattr("rigproof.report.page.page.page_text", lambda *_: "")  # the slowest of all
    assert rejudge.rewrite(recorded, print) == 0  # so that both find the same elapsed time
    contents = []
    for processes in (1, 2, 3):
        monkeypatch.setattr(rejudge, "_processes", lambda _, number=processes: number)
        assert rejudge.rewrite(recorded, print) == 0
        content = {name: (recorded / name).read_text() for name in files}
        contents.append(content)
    assert contents[0] == contents[1] == contents[2]
    assert json.loads(contents[0]["verdict.json"])["verdict"] == "REJECTED"
