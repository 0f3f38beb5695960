"""A shared report: every file that is written is searched for everything that identifies the rig."""

import json
import socket
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from rigproof.judging.laps import judge_all
from rigproof.records.disk.store import read_recording
from rigproof.records.identity import NodeIdentity
from rigproof.records.measurements import Event
from rigproof.records.processes import GpuProcess, ProcessWatch
from rigproof.records.verdict import Decision, Outcome, Verdict
from rigproof.report.files.folders import ReportFolderError
from rigproof.report.published.pseudonyms import Key, Pseudonyms, ShareError
from rigproof.report.published.shared_copy import scrubber_of, shared_recording, write_shared

TABLES = {"round.parquet", "telemetry.parquet"}
FILES = {"metrics.prom", "recording.jsonl", "report.html", "summary.md", "verdict.json"} | TABLES
HOST, SHORT, OTHER_HOST = "quokka.example.org", "quokka", "wombat7"
PINNED = "GPU-abcdef01-2345-6789-abcd-ef0123456789"
IDENTIFYING = [
    *(HOST, SHORT, OTHER_HOST, "head.platypus.net", "platypus"),
    *("10.20.30.40", "10.20.30.41", "2001:db8:0:1::17", "52:54:00:ab:cd:ef"),
    *("GPU-01111111-2222-3333-4444-555555555555", "01111111-2222", "11111111-2222-3333", PINNED),
    *("edwina", "moonshot", "s3cr3t", "tok-123456", "internal-value"),
]


@pytest.fixture
def identified(recording, monkeypatch):
    """The sample run with its rig's names in all the places where a run has any."""
    for key, value in {"API_TOKEN": "s3cr3t", "TEAM": "internal-value", "USER": "edwina"}.items():
        monkeypatch.setenv(key, value)
    rig = json.loads(json.dumps(recording.run.rig))
    rig["nodes"][0]["address"] = "10.20.30.40"
    rig["nodes"][0]["gpus"][0]["uuid"] = PINNED
    rig["description"] = f"the rig of edwina beside {OTHER_HOST}"
    rig["file"] = "/home/edwina/moonshot/lab.toml"
    recording.run = replace(
        recording.run,
        run_id=f"20260102T030405Z-{SHORT}-a1b2c3",
        rig=rig,
        command=(
            *("-m", "hardware", "--hw-ray-address", "head.platypus.net:6379"),
            "--hw-report-dir=/home/edwina/moonshot/reports",
        ),
    )
    old = recording.nodes["pc1"]
    recording.add(replace(old, hostname=HOST, address="10.20.30.40"))
    recording.add(
        NodeIdentity(OTHER_HOST, OTHER_HOST, "10.20.30.41", 8.0, 32.0, old.os, "3.11.7", "2.60.0", None, None,
                     f"no driver on {OTHER_HOST}", 77, 0.0, 0.0)
    )  # fmt: skip
    uuid = recording.gpus["pc1/gpu0"].uuid
    error = (
        f'File "/home/edwina/moonshot/train.py", line 3: cannot reach {SHORT} (2001:db8:0:1::17, '
        "52:54:00:ab:cd:ef); API_TOKEN=s3cr3t WANDB_API_KEY=tok-123456; internal-value"
    )
    recording.add(Event(50.0, "worker_failed", "pc1/gpu0", error, worker="pc1/gpu0#0", data={"error": error}))
    recording.add(Event(51.0, "champions", "rig", f"of {uuid}", data={"gpus": {uuid: {}}}))
    recording.add(Event(52.0, "node_lost", OTHER_HOST, f"{OTHER_HOST} (10.20.30.41) is gone"))
    return recording


@pytest.fixture
def verdicts(identified):
    """Verdicts that name what they judge."""
    return [
        Verdict(
            "cluster.nodes_present",
            OTHER_HOST,
            Outcome.FAIL,
            detail=f"{OTHER_HOST} is not in the cluster of head.platypus.net:6379",
            limit_source="/home/edwina/moonshot/lab.toml",
            remedy=f"type on {OTHER_HOST}: RAY_AUTH_MODE=token ray start --address=10.20.30.40:6379",
        ),
        Verdict(
            "thermal.core_temperature", "pc1/gpu0", Outcome.PASS, "°C", 79, 80, "hwprofiles/rigs/lab.toml"
        ),
    ]


@pytest.fixture
def without_reports(monkeypatch):
    """The recording alone: what is made of it is the first test's matter."""
    monkeypatch.setattr("rigproof.report.published.shared_copy.write_reports", lambda *_, **__: [])


def share(run, recording, verdicts, **options):
    run.mkdir(parents=True, exist_ok=True)
    return write_shared(run, recording, verdicts, decision=Decision.REJECTED, elapsed_s=60.0, **options)


def everything_in(folder):
    """Each file's whole content as text, the table's columns included."""
    for path in sorted(folder.iterdir()):
        yield path.name, path.read_bytes().decode("utf-8", "replace")
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            yield path.name, repr(table.to_pydict()) + repr(table.schema.metadata)


def test_no_file_holds_what_identifies_the_rig(identified, verdicts, tmp_path):
    run = tmp_path / "reports" / "runs" / "one"
    shared = share(run, identified, verdicts)
    assert shared.problems == ()
    assert shared.folder == run / "shared"
    assert {path.name for path in shared.folder.iterdir()} == FILES
    for name, content in everything_in(shared.folder):
        for original in IDENTIFYING:
            assert original.lower() not in content.lower(), f"{original} in {name}"


def test_the_search_is_not_blind(identified, verdicts):
    """What is not there afterwards was there before."""
    records = [
        identified.run,
        *identified.nodes.values(),
        *identified.gpus.values(),
        *identified.events,
        *verdicts,
    ]
    assert [one for one in IDENTIFYING if one.lower() not in repr(records).lower()] == []


def test_what_was_measured_is_the_same_and_judged_the_same(identified, verdicts, tmp_path):
    shared = share(tmp_path / "run", identified, verdicts).folder
    copy = read_recording(shared)
    assert [one.seconds for one in copy.rounds] == [one.seconds for one in identified.rounds]
    assert [one.power_w for one in copy.gpu_samples] == [one.power_w for one in identified.gpu_samples]
    before, after = judge_all(identified), judge_all(copy)
    assert [(one.criterion, one.outcome, one.measured, one.limit) for one in after] == [
        (one.criterion, one.outcome, one.measured, one.limit) for one in before
    ]
    verdict = json.loads((shared / "verdict.json").read_text())
    assert verdict["verdict"] == "REJECTED"
    assert verdict["elapsed_s"] == 60.0
    assert [one["outcome"] for one in verdict["criteria"]] == ["fail", "pass"]
    assert "RAY_AUTH_MODE=token ray start --address=address-" in verdict["criteria"][0]["remedy"]


def test_users_and_programs_of_strangers_are_hidden_in_every_file(recording, tmp_path):
    """Also those that are called like a word of ours, which is left alone elsewhere."""
    for pid, user, name in ((5263, "thorsten", "finetune.py"), (5264, "host", "gemm")):
        recording.add(GpuProcess(40.0, "pc1/gpu0", pid, used_mib=900.0, user=user, name=name))
    limits = recording.run.rig["limits"] | {"stranger_sm_percent": 5.0, "stranger_growth_mib": 512.0}
    recording.run = replace(recording.run, rig=recording.run.rig | {"limits": limits})
    recording.extend(GpuProcess(one.t_s, one.subject, one.pid) for one in recording.workers)
    recording.add(ProcessWatch(900.0, "pc1/gpu0", 0.0, 900, 1.0, sm_readable=True))
    hungry = {"foreign": ["pid 5265 (render.sh, user klaus) 61 %"]}
    recording.add(Event(900.0, "host_load", "pc1", "the CPU load has ended", data=hungry))
    verdicts = judge_all(recording)
    undisturbed = next(one for one in verdicts if one.criterion == "activity.undisturbed")
    assert "pid 5263 (finetune.py, user thorsten)" in undisturbed.detail
    shared = share(tmp_path / "run", recording, verdicts).folder
    for name, content in everything_in(shared):
        for secret in (
            "thorsten",
            "klaus",
            "render.sh",
            "finetune",
            "(gemm, user",
            "user host)",
            '"user":"host"',
        ):
            assert secret not in content, f"{secret} in {name}"
    copy = next(one for one in judge_all(read_recording(shared)) if one.criterion == "activity.undisturbed")
    assert "pid 5263 (program-" in copy.detail
    assert copy.outcome is Outcome.NOT_MEASURED


@pytest.mark.usefixtures("without_reports")
def test_two_reports_of_one_rig_agree_and_those_of_another_folder_do_not(identified, verdicts, tmp_path):
    folders = [tmp_path / "a" / "runs" / "1", tmp_path / "a" / "runs" / "2", tmp_path / "b" / "runs" / "1"]
    hosts = [read_recording(share(run, identified, verdicts).folder).nodes["pc1"].hostname for run in folders]
    assert hosts[0] == hosts[1]
    assert hosts[0] != hosts[2]
    assert not list((tmp_path / "a").rglob("shared/share.key"))
    assert (tmp_path / "a" / "share.key").stat().st_mode & 0o777 == 0o600


def test_a_host_that_is_called_like_a_word_of_ours_hurts_nothing(recording):
    """Its name is hidden where it stands as a name; the criteria keep theirs."""
    recording.add(replace(recording.nodes["pc1"], hostname="host"))
    recording.add(Event(1.0, "left_out", "pc1", "not selected", data={"criterion": "host.cpu_band"}))
    copy = shared_recording(recording, scrubber_of(recording, Pseudonyms(Key(b"1" * 32)), {}))
    assert copy.nodes["pc1"].hostname.startswith("host-")
    assert copy.events[-1].data == {"criterion": "host.cpu_band"}
    assert len(judge_all(copy)) == len(judge_all(recording))


def test_a_host_that_was_left_out_is_hidden_too(recording):
    recording.run = replace(
        recording.run, rig={**recording.run.rig, "left_out": [{"node": "platypus-login", "what": "no GPU"}]}
    )
    scrubber = scrubber_of(recording, Pseudonyms(Key(b"k" * 32)), {})
    [shared] = shared_recording(recording, scrubber).run.rig["left_out"]
    assert "platypus" not in shared["node"]
    assert shared["what"] == "no GPU"


def test_this_machine_s_name_is_hidden_too(recording, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "bandicoot.lan")
    recording.add(Event(1.0, "storage", "rig", "bandicoot: no space on bandicoot.lan"))
    copy = shared_recording(recording, scrubber_of(recording, Pseudonyms(Key(b"1" * 32)), {}))
    assert "bandicoot" not in copy.events[-1].message


@pytest.mark.usefixtures("without_reports")
def test_a_second_copy_takes_the_place_of_the_first(identified, verdicts, tmp_path):
    run = tmp_path / "run"
    folder = share(run, identified, verdicts).folder
    (folder / "stale.txt").write_text("of an older version")
    share(run, identified, verdicts)
    assert {path.name for path in folder.iterdir()} == {"recording.jsonl"} | TABLES
    assert {path.name for path in run.iterdir()} == {"shared", "share.key"}


def test_it_is_not_written_through_a_link(identified, verdicts, tmp_path):
    outside, run = tmp_path / "outside", tmp_path / "run"
    outside.mkdir()
    run.mkdir()
    (run / "shared").symlink_to(outside)
    with pytest.raises(ReportFolderError, match="a symbolic link leads out of"):
        share(run, identified, verdicts)
    assert list(outside.iterdir()) == []


@pytest.mark.usefixtures("without_reports")
def test_another_folder_must_be_new(identified, verdicts, tmp_path):
    there = tmp_path / "there"
    there.mkdir()
    (there / "mine").write_text("")
    with pytest.raises(ShareError, match="is not an empty folder"):
        share(tmp_path / "run", identified, verdicts, output=there)
    folder = share(tmp_path / "run", identified, verdicts, output=tmp_path / "new" / "one").folder
    assert (folder / "recording.jsonl").exists()


def test_what_breaks_off_leaves_no_half_of_it(identified, verdicts, tmp_path, monkeypatch):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rigproof.report.published.shared_copy.write_reports", full)
    with pytest.raises(OSError, match="No space"):
        share(tmp_path / "run", identified, verdicts)
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"share.key"}
