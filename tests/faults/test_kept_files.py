"""Two runs that write to one folder at once, and what is said of their files once they are damaged."""

import json
import shutil

import pytest

from rigproof.records.disk.reading import PARQUET_FILE, RECORDING_FILE
from support.acceptance import rigproof
from support.small_rigs import small_rig


@pytest.fixture
def reports(tmp_path):
    return tmp_path / "reports"


def test_two_runs_at_once_both_end_well_and_damage_to_their_files_is_told(start_run, tmp_path, reports):
    """One test, because two runs are what takes the time."""
    profile = small_rig(tmp_path, sustained_s=2, gemm_s=1)
    runs = [start_run(profile, report_dir=reports)]
    runs[0].wait_for(lambda run: run.folder)
    runs.append(start_run(profile, report_dir=reports))  # beside the first, whose folder is there by now
    for run in runs:
        assert run.finish() in (0, 6), run.text()  # a slow machine may not do enough products
        assert run.not_well() == set(), run.text()
        assert run.outcomes()["throughput.sustained", "here/cpu0"] == "no_limit"
    for run in runs:
        run.check_recording()
        run.check_nothing_is_left()
    history_is_whole(reports, [run.folder.name for run in runs])
    assert (reports / "latest").resolve() in [run.folder for run in runs]

    a_truncated_history_is_left_out_by_name(reports)
    an_unfinished_line_is_left_out_and_a_stage_without_its_end_does_not_pass(runs[0].folder, tmp_path)
    damaged_samples_are_refused_by_name(runs[0].folder, tmp_path)
    a_truncated_champion_is_refused_before_any_load(start_run, profile, reports)


def history_is_whole(reports, run_ids):
    """Each run's figures are there, in a file of its own, and say that the run was a short one."""
    files = sorted((reports / "history" / "small").glob("*"))
    kept = [one for path in files for one in json.loads(path.read_text())["benchmarks"]]
    assert len(files) == len(run_ids)
    assert {one["extra_info"]["run_id"] for one in kept} == set(run_ids)
    assert all(one["extra_info"]["shortened"].endswith("not a quick run") for one in kept)


def a_truncated_history_is_left_out_by_name(reports):
    path = min((reports / "history" / "small").glob("*.json"))
    path.write_bytes(path.read_bytes()[:-200])
    done = rigproof("history", f"--report-dir={reports}")
    assert done.returncode == 4, done.stderr
    assert f"{path}: left out: " in done.stdout
    assert "of 1 runs" in done.stdout  # the other one's


def an_unfinished_line_is_left_out_and_a_stage_without_its_end_does_not_pass(folder, tmp_path):
    cut = tmp_path / "cut"
    shutil.copytree(folder, cut)
    path = cut / RECORDING_FILE
    lines = path.read_bytes().splitlines(keepends=True)
    end = max(number for number, line in enumerate(lines) if line.startswith(b'{"type":"stage"'))
    path.write_bytes(b"".join(lines[:end]) + lines[end][:40])
    done = rigproof("judge", cut)
    assert done.returncode == 6, done.stdout + done.stderr
    assert "INCOMPLETE" in done.stdout
    assert "Traceback" not in done.stderr


def damaged_samples_are_refused_by_name(folder, tmp_path):
    damaged = tmp_path / "damaged"
    shutil.copytree(folder, damaged)
    path = damaged / PARQUET_FILE
    path.write_bytes(path.read_bytes()[:-100])
    done = rigproof("judge", damaged)
    assert done.returncode == 4, done.stdout + done.stderr
    assert str(path) in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def a_truncated_champion_is_refused_before_any_load(start_run, profile, reports):
    path = reports / "champions" / "small" / "rig.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"schema_version": 1, "figures": [')
    run = start_run(profile, report_dir=reports)
    run.hurt_now()
    assert run.finish() == 4, run.text()
    assert str(path) in run.text()
    assert "Traceback" not in run.text()
    run.check_nothing_is_left()
    run.record("champion file is truncated", "start", deadline_s=0, outcome="refused, exit 4; it is named")
