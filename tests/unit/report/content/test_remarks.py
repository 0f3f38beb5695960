"""What must be known about how a run was done stands in every file of it."""

import json

import pytest

from rigproof.judging.judge import judge_all
from rigproof.records.measurements import Event
from rigproof.records.verdict import Decision
from rigproof.report.content.remarks import remarks
from rigproof.report.files.files import write_reports

SAID = "the cluster asks nobody for a token; it was joined because of --allow-open-cluster"


@pytest.fixture
def written(recording, verdicts, tmp_path):
    def write():
        assert write_reports(tmp_path, recording, verdicts, decision=Decision.ACCEPTED, elapsed_s=60.0) == []
        return {name: (tmp_path / name).read_text() for name in ("verdict.json", "summary.md", "report.html")}

    return write


def test_an_open_cluster_is_named_in_every_report(recording, written):
    recording.add(Event(0.1, "open_cluster", "rig", SAID, data={"address": "10.0.0.1:6379"}))
    files = written()
    assert json.loads(files["verdict.json"])["remarks"] == [SAID]
    assert f"> {SAID}" in files["summary.md"]
    assert f'<p class="banner">{SAID}</p>' in files["report.html"]
    assert remarks(recording) == (SAID,)


def test_a_run_that_needs_no_remark_has_none(recording, written):
    files = written()
    assert "remarks" not in json.loads(files["verdict.json"])
    assert remarks(recording) == ()


def test_an_open_cluster_decides_nothing(recording):
    before = judge_all(recording)
    recording.add(Event(0.1, "open_cluster", "rig", SAID))
    assert judge_all(recording) == before
