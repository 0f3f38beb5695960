"""Recordings of real GPUs are judged today as they were when they were made."""

import json
from pathlib import Path

import pytest

from rigproof.criteria.judge import judge_all
from rigproof.records.store import read_recording
from rigproof.records.verdict import decide

SAMPLES = Path(__file__).resolve().parents[2] / "reports" / "samples"
RUNS = sorted(path.parent for path in SAMPLES.glob("*/verdict.json"))


def test_there_are_samples():
    verdicts = [json.loads((run / "verdict.json").read_text())["verdict"] for run in RUNS]
    assert verdicts.count("ACCEPTED") >= 4


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_sample_is_judged_as_it_was(run):
    said = json.loads((run / "verdict.json").read_text())
    recording = read_recording(run)
    verdicts = judge_all(recording)
    now = {(one.criterion, one.subject): one.outcome.value for one in verdicts}
    was = {(one["criterion"], one["subject"]): one["outcome"] for one in said["criteria"]}
    assert {key: now[key] for key in was} == was
    # A criterion that came later is judged of the same data.
    assert {outcome for key, outcome in now.items() if key not in was} <= {"pass"}
    assert decide(verdicts).value == said["verdict"]
    assert not said["simulated"]
    assert {gpu.name for gpu in recording.gpus.values()} == {"NVIDIA H200"}


@pytest.mark.parametrize(("file", "least"), [("gemm.json", 0.98), ("sampling.json", 0.99)])
def test_a_bench_shows_what_it_must(file, least):
    assert json.loads((SAMPLES / "bench" / file).read_text())["ratio"] >= least
