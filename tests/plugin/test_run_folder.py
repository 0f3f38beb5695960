"""The files of a run, and what they say about each other."""

import json
import re
import signal
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest

from rigproof.report.content.order import WORDS
from support.acceptance import SHORT_PCS, accept, properties, rigproof
from support.jenkins import refusals
from support.recordings import END_S, STEP_S

FILES = {
    "verdict.json",
    "telemetry.parquet",
    "report.html",
    "summary.md",
    "junit.xml",
    "metrics.prom",
    "benchmark.json",
    "recording.jsonl",
    "round.parquet",
    "memory_reading.parquet",
    "pcie_errors.parquet",
    "reward_batch.parquet",
}


def test_every_file_is_there_and_nothing_else(acceptance):
    run = acceptance("healthy")
    assert {path.name for path in run.folder.iterdir()} == FILES
    assert all((run.folder / name).stat().st_size for name in FILES)


def test_latest_points_at_the_run_and_moves_with_the_reports(acceptance):
    run = acceptance("healthy")
    latest = run.reports / "latest"
    assert latest.is_symlink()
    assert not latest.readlink().is_absolute()
    assert run.folder.parent == run.reports.resolve() / "runs"
    assert run.folder.name == run.result["run_id"]


DIES = """\
import os, signal
def pytest_runtest_logreport(report):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_latest_is_the_run_that_was_killed_and_not_the_accepted_one_before_it(tmp_path, monkeypatch):
    """What the README says to do after a crash in the night."""
    (tmp_path / "dies.py").write_text(DIES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    command = ("accept", "--simulate-inline", f"--hwprofile={SHORT_PCS}", "--level=quick")
    done = rigproof(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    latest = tmp_path / "reports" / "latest"
    before = latest.resolve()
    assert rigproof(*command, "-p", "dies", cwd=tmp_path).returncode == -signal.SIGKILL
    assert latest.resolve() != before
    judged = rigproof("judge", "reports/latest", cwd=tmp_path)
    assert judged.returncode == 6, judged.stdout + judged.stderr
    assert f"the run {latest.resolve().name} has not ended: it still runs, or was killed" in judged.stdout
    assert "left no verdict. `rigproof report` writes a report of what was recorded" in judged.stdout
    assert "SIMULATED INCOMPLETE" in judged.stdout.splitlines()[-1]
    done = rigproof("report", "reports/latest", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    judged = rigproof("judge", "reports/latest", cwd=tmp_path)
    assert judged.returncode == 6, judged.stdout + judged.stderr
    assert "report: reports/latest/report.html" in judged.stdout


def test_every_output_names_the_decision(acceptance):
    run = acceptance("slow")
    for name in ("summary.md", "report.html"):
        decision = re.search(r"rigproof: (\w+)", (run.folder / name).read_text())
        assert decision, name
        assert decision[1] == "REJECTED", name
    assert f"report: {run.reports}/latest/report.html" in run.output


def test_all_samples_are_kept(acceptance):
    table = pq.read_table(acceptance("healthy").folder / "telemetry.parquet")
    per_subject = int(END_S / STEP_S)
    assert table.num_rows == 4 * per_subject
    assert set(table.column("subject").to_pylist()) == {"pc1", "pc2", "pc1/gpu0", "pc2/gpu0"}


def test_the_recording_names_the_options_and_the_profile_of_the_run(acceptance, two_nodes):
    first = (acceptance("healthy").folder / "recording.jsonl").read_text().splitlines()[0]
    run = json.loads(first)
    assert f"--hwprofile={two_nodes}" in run["command"]
    assert run["rig"]["file"] == str(two_nodes)
    assert run["simulated"] is False


@pytest.mark.parametrize("scenario", ["slow", "without-sensor"])
def test_junit_and_verdict_json_agree(acceptance, scenario):
    run = acceptance(scenario)
    words = {outcome.value: said for outcome, said in WORDS.items()}
    said = sorted(case.findtext("system-out").partition(": ") for case in run.junit.values())
    assert [(begin, rest.split(": ")[0]) for begin, _, rest in said] == sorted(
        (words[one["outcome"]], f"{one['subject']} {one['criterion']}") for one in run.criteria.values()
    )
    failed = {name for name, case in run.junit.items() if case.find("failure") is not None}
    assert len(failed) == run.result["counts"]["fail"]


@pytest.mark.parametrize("scenario", ["healthy", "slow", "without-sensor"])
def test_jenkins_takes_the_junit_file_as_it_is(acceptance, scenario):
    root = ElementTree.parse(acceptance(scenario).folder / "junit.xml").getroot()
    assert refusals(root) == []
    suite = properties(root.find("testsuite"))
    assert (suite["rig"], suite["simulated"]) == ("two-nodes", "false")


def test_an_own_junit_file_is_written_too(acceptance, two_nodes, tmp_path):
    own = tmp_path / "junit.xml"
    run = accept(tmp_path / "reports", two_nodes, "healthy", f"--junitxml={own}", "-k", "nodes_present")
    assert own.read_bytes() == (run.folder / "junit.xml").read_bytes()
    assert set(run.junit) == {"test_nodes_present[pc1]", "test_nodes_present[pc2]"}


@pytest.mark.parametrize("scenario", ["slow", "without-sensor"])
def test_each_run_has_a_folder_of_its_own(acceptance, scenario):
    run = acceptance(scenario)
    assert [path.name for path in (run.reports / "runs").iterdir()] == [run.folder.name]
