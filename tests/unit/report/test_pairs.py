"""A pair of devices in what a run writes: named as it is promised, and no device for it."""

import json
from dataclasses import replace

import pytest

from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.subjects import subjects
from rigproof.records.disk.store import read_recording
from rigproof.records.measurements import Event
from rigproof.records.verdict import Decision, Outcome, Verdict
from rigproof.report.content.matrix import matrix_of
from rigproof.report.content.order import not_measured_groups, not_measured_sentence
from rigproof.report.files.files import result_of, write_reports
from rigproof.report.published.shared_copy import write_shared
from rigproof.stages.registry import KINDS

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


@pytest.mark.parametrize("host", ["quokka", "quokka-2", "gpu0-pc1"])
def test_a_shared_copy_names_a_pair_as_its_rig_would(paired, verdicts, tmp_path, host):
    """Whatever the hosts are called: a pseudonym stands for the whole of a name, on both sides."""
    rig = json.loads(json.dumps(paired.run.rig).replace('"pc1"', f'"{host}"'))
    paired.run = replace(paired.run, rig=rig)
    renamed = PAIR.replace("pc1", host)
    paired.nodes = {host: replace(paired.nodes["pc1"], subject=host, hostname=host)}
    paired.events = [replace(one, subject=one.subject.replace("pc1", host)) for one in paired.events]
    verdicts = [replace(one, subject=renamed) for one in verdicts]
    shared = write_shared(tmp_path, paired, verdicts, decision=Decision.REJECTED, elapsed_s=60.0)
    assert shared.problems == ()
    (first, _) = json.loads((shared.folder / "verdict.json").read_text())["criteria"]
    again = read_recording(shared.folder)
    (promised,) = subjects(LoadedRig.restore(again.run.rig, KINDS), "pair")
    assert host not in first["subject"]
    assert first["subject"] == promised.text
    assert [one.subject for one in again.events if one.kind == "crew_failed"] == [promised.text]


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
