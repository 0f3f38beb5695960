import json
import subprocess
import sys
from pathlib import Path

import pytest

import rigproof
from rigproof.records.disk.store import RecordingWriter, read_recording
from rigproof.records.recording import Recording
from rigproof.records.verdict import Decision
from rigproof.report.content.result import result_of
from rigproof.report.files.files import FILES, load_writers, write_reports


@pytest.fixture
def result(recording, verdicts):
    return result_of(recording, verdicts, decision=Decision.REJECTED, elapsed_s=61.2)


@pytest.mark.parametrize("broken", FILES)
def test_one_writer_that_fails_takes_no_other_with_it(tmp_path, result, broken):
    (tmp_path / broken).mkdir()
    (problem,) = write_reports(tmp_path, result)
    assert problem.startswith(f"{tmp_path / broken}: not written: ")
    assert all((tmp_path / name).is_file() for name in FILES if name != broken)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)


def test_a_fault_in_a_writer_names_itself_and_the_way_out(tmp_path, result, monkeypatch):
    def faulty(_path, _result):
        raise KeyError("charts")

    monkeypatch.setattr("rigproof.report.page.page.write_page", faulty)
    (problem,) = write_reports(tmp_path, result)
    assert "report.html: not written: KeyError: 'charts' (test_files.py:" in problem
    assert f"`rigproof report {tmp_path}` can write it again" in problem
    assert json.loads((tmp_path / "verdict.json").read_text())["verdict"] == "REJECTED"


def test_a_folder_that_is_gone_costs_the_files_not_the_run(tmp_path, result):
    problems = write_reports(tmp_path / "gone", result)
    assert len(problems) == len(FILES)
    assert all("No such file or directory; free space or make it writable" in problem for problem in problems)


def test_a_run_that_recorded_nothing_has_all_files(tmp_path, recording):
    empty = Recording(recording.run)
    result = result_of(empty, [], decision=Decision.INCOMPLETE, elapsed_s=0.1, interrupted=True)
    assert write_reports(tmp_path, result) == []
    content = json.loads((tmp_path / "verdict.json").read_text())
    assert (content["interrupted"], content["exit_status"], content["criteria"]) == (True, 2, [])


def test_the_files_can_be_written_again_from_what_was_stored(tmp_path, recording, verdicts):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    writer = RecordingWriter(first, recording.run)
    for name in ("nodes", "gpus", "stages"):
        writer.extend(getattr(recording, name).values())
    for name in ("workers", "rounds", "events", "gpu_samples", "host_samples"):
        writer.extend(getattr(recording, name))
    writer.close()
    for folder, source in ((first, recording), (second, read_recording(first))):
        result = result_of(source, verdicts, decision=Decision.REJECTED, elapsed_s=61.2)
        assert write_reports(folder, result) == []
    for name in ("verdict.json", "summary.md", "metrics.prom"):
        assert (first / name).read_text() == (second / name).read_text()


def test_reporting_is_not_loaded_before_it_is_needed():
    code = (
        "import sys, rigproof.report.files.files;"
        "import rigproof.report.terminal.terminal, rigproof.report.terminal.plan_text;"
        "print({'bokeh', 'pyarrow', 'ray', 'torch', 'pytest_benchmark'} & sys.modules.keys())"
    )
    environment = {"PYTHONPATH": str(Path(rigproof.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=True, env=environment
    )
    assert done.stdout == "set()\n"


def test_the_writers_can_be_loaded_in_advance():
    load_writers()
    assert "rigproof.report.page.page" in sys.modules
