"""A pair of devices in what a run writes: named as it is promised, and no device for it."""

import json
from dataclasses import replace

import pytest

from rigproof.records.measurements import Event
from rigproof.records.verdict import Decision, Outcome, Verdict
from rigproof.report.content.matrix import matrix_of
from rigproof.report.content.order import not_measured_groups, not_measured_sentence
from rigproof.report.content.result import result_of
from rigproof.report.files.files import write_reports

PAIR = "pc1/gpu0-pc1/gpu1"
MESSAGE = "it lost pc1/gpu1#0; the others were told to stop"


@pytest.fixture
def paired(recording):
    """The sample run; its cards worked together too."""
    done = replace(next(iter(recording.rounds)), subject=PAIR, t_s=50.0)
    recording.add(done)
    recording.add(Event(51.0, "crew_failed", PAIR, MESSAGE, "gemm", data={"workers": ["pc1/gpu1#0"]}))
    return recording


@pytest.fixture
def verdicts():
    """One that failed, and one that was not measured."""
    return [
        Verdict("transfer.peer", PAIR, Outcome.FAIL, "GB/s", 3.0, 20.0, "hwprofiles/rigs/lab.toml"),
        Verdict("transfer.path", PAIR, Outcome.NOT_MEASURED, detail=MESSAGE),
    ]


def test_every_file_names_the_pair(paired, verdicts, tmp_path):
    rejected = result_of(paired, verdicts, decision=Decision.REJECTED, elapsed_s=60.0)
    assert write_reports(tmp_path, rejected) == []
    result = json.loads((tmp_path / "verdict.json").read_text())
    assert [one["subject"] for one in result["criteria"]] == [PAIR, PAIR]
    assert [gpu["subject"] for node in result["rig"]["nodes"] for gpu in node["gpus"]] == [
        "pc1/gpu0",
        "pc1/gpu1",
    ]
    metrics = (tmp_path / "metrics.prom").read_text()
    assert f'subject="{PAIR}",unit="GB/s",uuid=""}} 3.0' in metrics  # it has none of its own
    assert f"{PAIR} transfer.peer: 3 GB/s, limit 20 GB/s" in (tmp_path / "summary.md").read_text()
    assert PAIR in (tmp_path / "report.html").read_text()


def test_what_one_missing_card_keeps_from_its_pairs_is_reported_once():
    detail = "pc9/gpu0 was not found"
    pairs = [f"pc{number}/gpu0-pc9/gpu0" for number in range(1, 8)]
    missing = [Verdict("transfer.peer", one, Outcome.NOT_MEASURED, detail=detail) for one in pairs]
    groups = list(not_measured_groups(missing))
    assert [not_measured_sentence(group) for group in groups] == [
        f"transfer.peer: 7 subjects not measured: {detail}"
    ]
    (row,) = matrix_of(missing, ["pc1/gpu0", "pc9/gpu0"]).rows
    assert (row.word, row.cells, row.spread) == ("?", (), f"? {pairs[0]}, 7 not measured")
