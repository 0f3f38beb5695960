"""A remark about how a run was done is in each of its reports."""

import json
from dataclasses import replace

import pytest

from rigproof.judging.laps import judge_all
from rigproof.records.measurements import Event
from rigproof.records.verdict import Decision
from rigproof.report.content.facts import left_out, not_tested, remarks
from rigproof.report.content.result import result_of
from rigproof.report.files.files import write_reports

REMARK = "the cluster has no token authentication; it was joined because of --hw-allow-open-cluster"


@pytest.fixture
def written(recording, verdicts, tmp_path):
    def write():
        result = result_of(recording, verdicts, decision=Decision.ACCEPTED, elapsed_s=60.0)
        assert write_reports(tmp_path, result) == []
        return {name: (tmp_path / name).read_text() for name in ("verdict.json", "summary.md", "report.html")}

    return write


def test_an_open_cluster_is_named_in_every_report(recording, written):
    recording.add(Event(0.1, "open_cluster", "rig", REMARK, data={"address": "10.0.0.1:6379"}))
    files = written()
    assert json.loads(files["verdict.json"])["remarks"] == [REMARK]
    assert f"> {REMARK}" in files["summary.md"]
    assert f'<p class="banner">{REMARK}</p>' in files["report.html"]
    assert remarks(recording) == (REMARK,)


def test_other_runs_have_no_remark(recording, written):
    files = written()
    assert "remarks" not in json.loads(files["verdict.json"])
    assert remarks(recording) == ()


def test_joining_an_open_cluster_changes_no_verdict(recording):
    before = judge_all(recording)
    recording.add(Event(0.1, "open_cluster", "rig", REMARK))
    assert judge_all(recording) == before


LEFT_OUT = [{"node": "pc9", "what": "no GPU"}]


def test_what_was_left_out_is_in_every_verdict_line(recording, written):
    recording.run = replace(recording.run, rig={**recording.run.rig, "left_out": LEFT_OUT})
    files = written()
    assert json.loads(files["verdict.json"])["not_tested"] == LEFT_OUT
    assert "; not tested: pc9 (no GPU)." in files["summary.md"]
    assert "; not tested: pc9 (no GPU)." in files["report.html"]


@pytest.mark.parametrize("damaged", [None, 1, "pc9", {"node": 1}, [1, None, "x"]])
def test_a_damaged_list_of_what_was_left_out_stops_no_report(recording, damaged):
    recording.run = replace(recording.run, rig={**recording.run.rig, "left_out": damaged})
    assert left_out(recording) == ()
    assert not_tested(recording) == ""
