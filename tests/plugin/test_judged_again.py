"""What a run recorded is judged again from its folder, with the same result or by other limits."""

import json
import shutil

import pytest

from rigproof.judging.laps import judge_all
from rigproof.records.disk.store import read_recording
from rigproof.report.content.verdict_json import criterion_json
from support.acceptance import rigproof
from support.rig_profile import profile_text, stage_changes


@pytest.mark.parametrize("scenario", ["healthy", "slow", "without-sensor", "sigterm"])
def test_the_recording_gives_the_verdicts_of_the_run(acceptance, scenario):
    run = acceptance(scenario)
    again = [criterion_json(verdict) for verdict in judge_all(read_recording(run.folder))]
    assert again == run.result["criteria"]


@pytest.mark.parametrize(("scenario", "status"), [("healthy", 0), ("slow", 1), ("without-sensor", 6)])
def test_judge_ends_as_the_run_did_and_writes_nothing(acceptance, scenario, status):
    run = acceptance(scenario)
    before = {path: path.stat().st_mtime_ns for path in run.folder.iterdir()}
    done = rigproof("judge", run.folder)
    assert done.returncode == status == run.status, done.stderr
    assert done.stdout.splitlines()[-1].startswith(run.result["verdict"])
    assert {path: path.stat().st_mtime_ns for path in run.folder.iterdir()} == before


def test_other_limits_give_another_verdict(acceptance, tmp_path):
    strict = tmp_path / "strict.toml"
    strict.write_text(profile_text(stage_changes("sustained", combined_floor_tflops=1400.0)))
    done = rigproof("judge", acceptance("healthy").folder, "--hwprofile", strict)
    assert done.returncode == 1, done.stderr
    assert "rig throughput.combined: 1320 TFLOP/s, limit ≥ 1400 TFLOP/s" in done.stdout
    others = len(acceptance("healthy").criteria) - 3  # of which two have no earlier runs
    assert f"{others} pass, 1 fail, 2 no limit" in done.stdout


def test_report_writes_the_files_of_a_run_anew(acceptance, tmp_path):
    run = acceptance("slow")
    copy = tmp_path / "copy"
    shutil.copytree(run.folder, copy)
    for name in ("verdict.json", "summary.md", "report.html", "metrics.prom"):
        (copy / name).unlink()
    left = {one: run.result[one] for one in ("verdict", "elapsed_s")}
    (copy / "verdict.json").write_text(json.dumps(left, indent=1))
    # What is taken from the first report is how long the run took; everything else is in the recording.
    done = rigproof("report", copy)
    assert done.returncode == 0, done.stderr
    written = json.loads((copy / "verdict.json").read_text())
    # Only the canned rig's levels are as short as its run.
    assert written | {"shortened": []} == run.result | {"judged_again": True}
    assert (copy / "summary.md").read_text() == (run.folder / "summary.md").read_text()
    for name in ("report.html", "metrics.prom"):
        assert (copy / name).stat().st_size > 0


def test_what_was_left_out_stays_left_out(acceptance, tmp_path):
    run = acceptance("healthy", "-k", "thermal")
    assert run.result["verdict"] == "INCOMPLETE"
    copy = tmp_path / "copy"
    shutil.copytree(run.folder, copy)
    assert rigproof("judge", copy).returncode == 6
    assert rigproof("report", copy).returncode == 0
    assert json.loads((copy / "verdict.json").read_text())["verdict"] == "INCOMPLETE"
