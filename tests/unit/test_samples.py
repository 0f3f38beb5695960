"""Recordings of real GPUs are judged today as they were when they were made."""

import dataclasses
import json
from pathlib import Path

import pytest

from rigproof.criteria.judge import judge_all
from rigproof.profiles.load import load_rig
from rigproof.profiles.loaded import LoadedRig
from rigproof.records.store import read_recording
from rigproof.records.verdict import decide

SAMPLES = Path(__file__).resolve().parents[2] / "reports" / "samples"
RUNS = sorted(path.parent for path in SAMPLES.glob("*/verdict.json"))
CARDS = {"h100": "NVIDIA H100 80GB HBM3", "h200": "NVIDIA H200"}
PAIRS = [run for run in RUNS if run.name.startswith("h200-x2-")]


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
    later = [one for one in verdicts if (one.criterion, one.subject) not in was and one.required]
    assert {one.outcome.value for one in later} <= {"pass"}
    assert decide(verdicts).value == said["verdict"]
    assert not said["simulated"]
    assert {gpu.name for gpu in recording.gpus.values()} == {CARDS[run.name.partition("-")[0]]}


def judged_today(recording):
    """By the limits that the run was recorded with and those that came later; what does not pass."""
    rig = LoadedRig.restore(recording.run.rig)
    later = load_rig("h200-x2").rig.limits.model_dump(exclude_none=True)
    limits = rig.rig.limits.model_copy(
        update={name: later[name] for name in ("peer_share", "pcie_replays_warn")}
    )
    verdicts = judge_all(
        recording, dataclasses.replace(rig, rig=rig.rig.model_copy(update={"limits": limits}))
    )
    assert "throughput.peer_outlier" in {one.criterion for one in verdicts}
    return {(one.criterion, one.subject): one.outcome.value for one in verdicts if one.outcome != "pass"}


@pytest.mark.parametrize("run", PAIRS, ids=lambda run: run.name)
def test_two_cards_are_sound_beside_each_other_and_a_tenth_less_of_one_is_noticed(run):
    recording = read_recording(run)
    was = judged_today(recording)
    assert "fail" not in was.values()
    first = min(recording.gpus)
    recording.rounds = [
        dataclasses.replace(one, tflop=one.tflop * 0.9)
        if (one.subject, one.stage) == (first, "sustained")
        else one
        for one in recording.rounds
    ]
    assert judged_today(recording) == was | {("throughput.peer_outlier", first): "fail"}


@pytest.mark.parametrize("run", PAIRS, ids=lambda run: run.name)
def test_a_link_of_half_its_lanes_is_noticed(run):
    recording = read_recording(run)
    was, last = judged_today(recording), max(recording.gpus)
    recording.gpu_samples = [
        dataclasses.replace(one, pcie_width=8) if one.subject == last else one
        for one in recording.gpu_samples
    ]
    assert judged_today(recording) == was | {("transfer.link", last): "fail"}


@pytest.mark.parametrize(("file", "least"), [("gemm.json", 0.98), ("sampling.json", 0.99)])
def test_a_bench_shows_what_it_must(file, least):
    assert json.loads((SAMPLES / "bench" / file).read_text())["ratio"] >= least
