"""A run that is stopped keeps what it has: files, and the verdicts of what had been finished."""

import json
import re

import pytest

from support.acceptance import python

STOPPED = pytest.mark.parametrize("scenario", ["ctrl-c", "sigterm", "sigterm-twice"])
FILES = {"verdict.json", "telemetry.parquet", "report.html", "summary.md", "junit.xml", "metrics.prom"}


@STOPPED
def test_a_run_that_is_stopped_is_incomplete(acceptance, scenario):
    run = acceptance(scenario)
    assert run.status == 2, run.output
    assert "\nINCOMPLETE: the run was interrupted" in run.output
    assert run.output.count("not measured:") == run.output.count("did not run") == 0
    assert re.search(
        r"^the run was interrupted before the stages sustained, .* ended: \d+ criteria are not measured$",
        run.output,
        re.MULTILINE,
    )
    assert run.result["verdict"] == "INCOMPLETE"
    assert run.result["interrupted"] is True
    assert run.result["exit_status"] == 2


@STOPPED
def test_its_files_are_there(acceptance, scenario):
    run = acceptance(scenario)
    assert {path.name for path in run.folder.iterdir()} >= FILES | {"recording.jsonl"}
    assert all((run.folder / name).stat().st_size for name in FILES)
    assert "INCOMPLETE" in (run.folder / "summary.md").read_text()


@STOPPED
def test_the_stage_that_had_been_finished_is_judged(acceptance, scenario):
    run = acceptance(scenario)
    for subject in ("pc1/gpu0", "pc2/gpu0"):
        assert run.outcome("throughput.gemm_bf16", subject) == "pass"
        assert run.outcome("inventory.gpus_present", subject) == "pass"


@STOPPED
def test_the_stage_that_was_broken_off_does_not_pass(acceptance, scenario):
    run = acceptance(scenario)
    for criterion in ("throughput.sustained", "thermal.core_temperature", "memory.ecc", "health.xid"):
        assert run.outcome(criterion, "pc1/gpu0") == "not_measured"
    assert run.outcome("host.cpu_band", "pc1") == "not_measured"


def test_the_signal_is_recorded(acceptance):
    lines = (acceptance("sigterm").folder / "recording.jsonl").read_text().splitlines()
    events = [record for record in map(json.loads, lines) if record["type"] == "event"]
    others = [
        (event["kind"], event["data"])
        for event in events
        if event["kind"] not in ("start_up", "reference", "allocation")
    ]
    assert others == [("interrupted", {"signal": "SIGTERM"})]


@STOPPED
def test_nothing_of_it_enters_the_history(acceptance, scenario):
    assert not acceptance(scenario).history


def test_a_run_that_is_stopped_before_it_begins_says_so_and_leaves_no_run(acceptance):
    run = acceptance("sigterm-early")
    assert (run.status, run.output.splitlines()[-1]) == (
        2,
        "INCOMPLETE: SIGTERM interrupted the run before anything was tested",
    ), run.output
    assert not list((run.reports / "runs").glob("*"))


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_nor_is_there_a_traceback_while_rigproof_itself_is_imported(name):
    code = f"""
import signal, sys
class Stopped:
    def find_spec(self, module, *_):
        if module == "rigproof.cli.main":
            signal.raise_signal(signal.{name})
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = ["rigproof", "accept"]
from rigproof.__main__ import main
sys.meta_path.insert(0, Stopped())
main()
"""
    done = python("-c", code)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"rigproof: INCOMPLETE: {name} interrupted the run before anything was tested\n"
