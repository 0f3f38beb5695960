"""The command line around an acceptance run: its answers, and how it refuses what it cannot use."""

import json
import re
import tomllib
from dataclasses import replace

import jsonschema
import pytest

from rigproof.cli.rejudge import elapsed_s
from rigproof.profiles.lint.rig import lint_rig
from rigproof.profiles.loading.load import load_rig
from rigproof.records.disk.store import read_recording, write_recording
from rigproof.stages.registry import KINDS
from rigproof.telemetry import inventory
from support.acceptance import CHECKOUT, rigproof
from support.readers import READERS
from support.recordings import healthy_recording
from support.rig_profile import profile_text, stage_changes

SAMPLES = CHECKOUT / "reports" / "samples"


@pytest.fixture
def profile(tmp_path):
    """The healthy rig's profile, in a file."""
    path = tmp_path / "two-nodes.toml"
    path.write_text(profile_text())
    return path


@pytest.fixture
def run(tmp_path, profile):
    """A recorded run of the healthy rig, as an acceptance run leaves it before any report."""
    folder = tmp_path / "run"
    folder.mkdir()
    recording = healthy_recording(load_rig(str(profile), KINDS).dump(), sku="h200-sxm")
    write_recording(folder, recording)
    return folder


def refused(answer, *parts):
    status, out, err = answer
    assert status == 4, err
    assert out == ""
    for part in parts:
        assert part in err


def test_report_lays_another_run_over_one_and_leaves_its_own_page_alone(cli, run, profile, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    recording = healthy_recording(load_rig(str(profile), KINDS).dump(), sku="h200-sxm")
    recording.run = replace(recording.run, run_id="20260102T030405Z-lab-ffffff")
    write_recording(other, recording)
    status, out, err = cli("report", run, "--with", other, "--output", tmp_path / "both")
    assert (status, err) == (0, "")
    (page,) = (tmp_path / "both").iterdir()
    assert out == f"written: {page}\n"
    assert page.name.startswith("report-with-")
    assert ", other run</button>" in page.read_text()
    assert not (run / "report.html").exists()


def test_report_refuses_what_cannot_be_laid_over_a_run(cli, run, tmp_path):
    status, _, err = cli("report", run, "--with", tmp_path / "none")
    assert status == 4
    assert f"{tmp_path}/none/recording.jsonl: No such file or directory; give the folder of a run" in err
    status, _, err = cli("report", run, "--with", run)
    assert status == 4
    assert "that is the same run" in err
    status, _, err = cli("report", run, "--output", tmp_path)
    assert status == 4
    assert "name a new folder" in err


def test_judge_accepts_what_is_well(cli, run):
    status, out, err = cli("judge", run)
    assert (status, err) == (0, "")
    said = re.fullmatch(
        r"ACCEPTED for 40 s of load and 19 s of training, without ((?:\w+, )*\w+ and \w+), not a standard "
        "run, nodes not tested together: nothing failed in that time; the whole level is not proven",
        out.splitlines()[-1],
    )
    assert said is not None, out
    assert {"pattern", "bandwidth", "transfer", "ram", "disk"} <= set(re.findall(r"\w+", said[1]))
    assert sorted(path.name for path in run.iterdir()) == [
        "memory_reading.parquet",
        "pcie_errors.parquet",
        "recording.jsonl",
        "reward_batch.parquet",
        "round.parquet",
        "telemetry.parquet",
    ]


@pytest.mark.parametrize(
    ("changes", "failed"),
    [
        (
            stage_changes("sustained", combined_floor_tflops=1400.0),
            "rig throughput.combined: 1320 TFLOP/s, limit ≥ 1400 TFLOP/s",
        ),
        ({"limits": {"core_temperature_c": 60}}, "pc2/gpu0 thermal.core_temperature: 66 °C, limit ≤ 60 °C"),
    ],
    ids=["floor", "temperature"],
)
def test_judge_by_another_profile_finds_what_that_one_does_not_allow(cli, run, tmp_path, changes, failed):
    other = tmp_path / "other.toml"
    other.write_text(profile_text(changes))
    status, out, _ = cli("judge", run, "--hwprofile", other)
    assert status == 1
    assert failed in out
    assert out.splitlines()[-1].startswith("REJECTED: ")


def test_judge_by_a_profile_with_another_plan_measures_nothing_of_it(cli, run, tmp_path):
    other = tmp_path / "other.toml"
    gpus = [{"sku": "h200-sxm"}, {"sku": "h200-sxm"}]
    other.write_text(profile_text({"nodes": [{"name": "pc1", "gpus": gpus}]}))
    status, out, _ = cli("judge", run, "--hwprofile", other)
    assert status == 6
    assert "pc1/gpu1 inventory.gpus_present: not measured: this run did not look for pc1/gpu1" in out
    assert "pc1/gpu0: 4 criteria not measured: this run was planned with 2 workers of " in out


CANNOT_FAIL = {
    "limits": {
        "core_temperature_c": 200,
        "throttle_share": 0.99,
        "clock_ratio_share": 0.01,
        "success_share": 0.01,
    }
}


def test_judge_refuses_a_profile_that_a_run_would_refuse_and_names_all_that_is_wrong(cli, run, tmp_path):
    lax = tmp_path / "lax.toml"
    lax.write_text(profile_text(CANNOT_FAIL | stage_changes("sustained", stability_drop_share=0.01)))
    refused(
        cli("judge", run, "--hwprofile", lax),
        *(f"limits.{key} = " for key in CANNOT_FAIL["limits"]),
        "stages.sustained.stability_drop_share = 0.01",
    )


def test_judge_by_the_profile_that_was_recorded_is_refused_nothing(cli, run):
    text = (run / "recording.jsonl").read_text()
    assert '"stability_drop_share":0.95' in text
    (run / "recording.jsonl").write_text(
        text.replace('"stability_drop_share":0.95', '"stability_drop_share":0.01')
    )
    assert cli("judge", run)[0] == 0


def test_judge_by_another_profile_refuses_a_level_that_nobody_knows(cli, run, tmp_path):
    other = tmp_path / "other.toml"
    other.write_text(profile_text())
    text = (run / "recording.jsonl").read_text()
    (run / "recording.jsonl").write_text(text.replace('"level":"standard"', '"level":"mine"'))
    refused(cli("judge", run, "--hwprofile", other), 'level = "mine": no such level')


def test_judge_of_a_run_without_samples_proves_nothing(cli, run):
    (run / "telemetry.parquet").unlink()
    status, out, _ = cli("judge", run)
    assert status == 6
    assert "pc1/gpu0 thermal.core_temperature: not measured" in out or "criteria not measured" in out
    assert out.splitlines()[-1].startswith("INCOMPLETE: ")


def test_report_writes_every_file(cli, run):
    status, out, err = cli("report", run)
    assert (status, err) == (0, "")
    assert out == f"written: {run / 'report.html'}\n"
    assert json.loads((run / "verdict.json").read_text())["verdict"] == "ACCEPTED"
    for name in ("summary.md", "report.html", "metrics.prom"):
        assert (run / name).stat().st_size > 0


def test_a_file_that_report_cannot_write_is_named_and_not_called_written(cli, run):
    (run / "summary.md").mkdir()
    status, out, _ = cli("report", run)
    assert status == 6
    assert f"{run / 'summary.md'}: not written: " in out
    assert "written: " not in out.replace("not written: ", "")
    assert (run / "verdict.json").is_file()


def test_detect_prints_a_profile_that_can_be_used_at_once(cli, tmp_path):
    status, out, _ = cli("detect")
    assert status == 0
    saved = tmp_path / "found.toml"
    saved.write_text(out)
    loaded = load_rig(str(saved), KINDS)
    assert lint_rig(loaded, "quick") == []
    assert loaded.devices()
    assert cli("lint", saved)[0] == 0


def test_what_cannot_all_be_found_becomes_no_profile(cli, monkeypatch):
    nothing = inventory.HostInventory("box", 8.0, 32.0, None, "driver/library version mismatch", ())
    monkeypatch.setattr(inventory, "detect", lambda limit_s: nothing)
    status, out, err = cli("detect")
    assert (status, out) == (4, "")
    assert (
        err == "rigproof: this machine's hardware cannot be fully detected: driver/library version mismatch\n"
    )


@pytest.mark.parametrize("setting", ["all", "cuda:0", "gpu0", "0;1", "00000000:65:00.0"])
def test_detect_refuses_a_setting_that_never_names_a_gpu(cli, monkeypatch, setting):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
    status, out, err = cli("detect")
    assert (status, out) == (4, "")
    assert f"CUDA_VISIBLE_DEVICES={setting}: '{setting}' is neither the index nor the UUID of a GPU" in err
    assert len(err.splitlines()) == 1


def test_detect_says_what_hides_every_gpu_on_purpose(cli, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    status, out, _ = cli("detect")
    assert status == 0
    assert "hidden by CUDA_VISIBLE_DEVICES=-1" in out
    assert 'device = "cpu"' in out


def test_lint_calls_what_is_shipped_clean(cli):
    assert cli("lint") == (0, "clean\n", "")


def test_lint_says_how_a_rig_was_understood_and_what_may_be_wrong(cli, tmp_path):
    path = tmp_path / "lab.toml"
    path.write_text(
        'name = "lab"\nextends = "dual-3090-3070"\n[[nodes]]\nname = "pc1"\naddress = "10.0.0.1"\n'
    )
    status, out, err = cli("lint", path)
    assert (status, out.splitlines()[-1]) == (0, "clean")
    assert "  pc1: 10.0.0.1, 80 CPUs\n    pc1/gpu0: GeForce RTX 3090 (hwprofiles/gpus/rtx-3090.toml)" in out
    assert "combined_floor_tflops = 78.1" in out
    (line,) = err.splitlines()
    assert line.startswith(
        f"warning: {path}: pc1 stands at another address than in hwprofiles/rigs/dual-3090"
    )

    path.write_text(path.read_text() + '[[nodes.gpus]]\nsku = "rtx-3070"\n')
    status, out, err = cli("lint", path)
    assert (status, "clean" in out) == (4, False)
    assert "    pc1/gpu0: GeForce RTX 3070 " in out
    assert "combined_floor_tflops = 78.1: was set for rtx-3090 + rtx-3070" in err
    refused(cli("accept", "--hwprofile", path, "--plan"), "78.1: was set for rtx-3090 + rtx-3070")


def test_lint_names_every_problem_of_every_profile(cli, tmp_path):
    for name, text in (
        ("one", profile_text({"cpu": {"band_percent": [85, 70]}})),
        ("two", profile_text({"limits": {"core_temprature_c": 80}})),
    ):
        (tmp_path / f"{name}.toml").write_text(text)
    refused(
        cli("lint", tmp_path / "one.toml", tmp_path / "two.toml"),
        "one.toml: cpu.band_percent = [85, 70]",
        "two.toml: limits.core_temprature_c",
    )


@pytest.mark.parametrize("kind", ["rig", "sku"])
def test_schema_is_a_json_schema(cli, kind):
    status, out, err = cli("schema", kind)
    assert (status, err) == (0, "")
    jsonschema.Draft202012Validator.check_schema(json.loads(out))


def test_the_rig_schema_takes_a_good_profile_and_no_typo(cli, profile):
    validator = jsonschema.Draft202012Validator(json.loads(cli("schema")[1]))
    assert validator.is_valid(tomllib.loads(profile.read_text()))
    typo = tomllib.loads(profile_text({"limits": {"core_temprature_c": 80}}))
    assert not validator.is_valid(typo)


def test_history_of_a_fresh_checkout_says_that_nothing_is_kept_yet(cli, tmp_path):
    status, out, err = cli("history", "--report-dir", tmp_path)
    assert (status, err) == (0, "")
    assert "nothing is kept yet" in out


@pytest.mark.parametrize("command", [["history"], ["monitor", "--once"]])
def test_a_report_folder_that_is_not_there_is_refused_and_the_default_is_not(
    cli, tmp_path, monkeypatch, command
):
    there = tmp_path / "nowhere"
    refused(cli(*command, "--report-dir", there), f"--report-dir {there}: no such folder; name the one")
    monkeypatch.chdir(tmp_path)
    status, out, _ = cli("history")
    assert status == 0
    assert "nothing is kept yet" in out


@pytest.mark.parametrize(
    "command", ["history", "lint ./lab.toml", "judge run", "report run", "detect", "cluster lines h200-x2"]
)
def test_no_command_begins_in_a_folder_that_was_removed(tmp_path, monkeypatch, cli, command):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    refused(cli(*command.split()), "the current folder: No such file or directory; change to one that exists")


def test_a_latest_that_is_no_link_is_followed_by_every_command_that_reads_a_run(cli, run, tmp_path):
    reports = tmp_path / "reports"
    (reports / "runs").mkdir(parents=True)
    moved = run.rename(reports / "runs" / "run-1")
    (reports / "latest").write_text("runs/run-1\n")
    assert cli("judge", reports / "latest")[0] == 0
    assert cli("report", reports / "latest") == (0, f"written: {moved / 'report.html'}\n", "")
    assert (moved / "verdict.json").exists()
    assert "that is the same run" in cli("report", moved, "--with", reports / "latest")[2]


def test_history_of_an_unknown_rig_is_refused_with_those_there_are(cli, tmp_path):
    (tmp_path / "history" / "lab").mkdir(parents=True)
    refused(cli("history", "lob", "--report-dir", tmp_path), "lob: no such rig; there are: lab")
    assert cli("history", "lab", "--report-dir", tmp_path)[0] == 0


def test_history_takes_the_rig_s_file_too(cli, tmp_path):
    profile = tmp_path / "lab.toml"
    profile.write_text('name = "my-lab"\n[[nodes]]\nname = "pc1"\n[[nodes.gpus]]\nsku = "rtx-3090"\n')
    named = cli("history", "my-lab", "--report-dir", tmp_path)
    assert named[0] == 4
    assert cli("history", profile, "--report-dir", tmp_path) == named
    refused(cli("history", tmp_path / "no.toml", "--report-dir", tmp_path), "no.toml")


def test_one_command_of_the_page_answers_whether_a_card_is_normal(cli, tmp_path):
    page = (CHECKOUT / "docs" / "histories.md").read_text()
    (command,) = re.findall(r"^\| Is my 3090 normal\? \| `rigproof ([^`]+)`", page, re.MULTILINE)
    words = (*command.split(), "--report-dir", tmp_path)
    (tmp_path / "history").symlink_to(SAMPLES / "h200-x2-history")
    status, out, err = cli(*words)
    assert (status, err) == (0, "")
    assert out.count("\n  normal for H200 SXM 141 GB: 11 figures; nearest to a limit:\n") == 2
    models = [one["model"] for one in json.loads(cli(*words, "--json")[1])]
    assert {one["answer"] for one in models if one} == {"normal"}


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("spread = 0.0086", "spread = nan", "steady.gemm_bf16_tflops.spread = NaN"),
        ("spread = 0.0086", "spread = 0", "steady.gemm_bf16_tflops.spread = 0"),
        ("spread = 0.0086", "spraed = 0.0086", "steady.gemm_bf16_tflops.spraed"),
        ("value = 652", "value = 6520", "steady.gemm_bf16_tflops = 6520"),
        ("cards = 13", f"cards = {10**400}", "steady.gemm_fp32_tflops.cards = "),
        ("[steady]", "[steady", "not TOML"),
    ],
)
def test_a_sku_file_that_cannot_be_right_answers_nothing(cli, tmp_path, old, new, why):
    (tmp_path / "history").symlink_to(SAMPLES / "h200-x2-history")
    (tmp_path / "own.toml").write_text(
        (CHECKOUT / "hwprofiles/gpus/h200-sxm.toml").read_text().replace(old, new)
    )
    refused(cli("history", "--sku", tmp_path / "own.toml", "--report-dir", tmp_path), why)
    refused(cli("history", "--sku", tmp_path / "none.toml", "--report-dir", tmp_path), "No such file")


def test_history_of_a_run_that_was_not_kept_is_refused(cli, tmp_path):
    (tmp_path / "history" / "lab").mkdir(parents=True)
    done = cli("history", "lab", "0007", "--report-dir", tmp_path)
    refused(done, "no run 0007; `rigproof history lab` lists them")


BAD = {
    "unknown command": (["acept"], ["acept"]),
    "unknown option": (["judge", "RUN", "--hwprofil", "x"], ["--hwprofil"]),
    "missing argument": (["judge"], ["judge", "run"]),
    "run that is not there": (["judge", "{tmp}/nowhere"], ["nowhere", "give the folder of a run"]),
    "run that is a file": (["judge", "{tmp}/file"], ["file", "give the folder of a run"]),
    "run with another file": (["judge", "{tmp}/garbled"], ["recording.jsonl: line 1"]),
    "report of nothing": (["report", "{tmp}/nowhere"], ["nowhere", "give the folder of a run"]),
    "unknown rig to judge by": (["judge", "{run}", "--hwprofile", "nobody"], ["nobody", "dual-3090-3070"]),
    "rig file to judge by": (["judge", "{run}", "--hwprofile", "{tmp}/file"], ["file"]),
    "unknown rig to lint": (["lint", "nobody"], ["nobody", "dual-3090-3070"]),
    "champions of all rigs": (
        ["judge", "{run}", "--champions", "{tmp}"],
        ["neither rig.json nor gpus is in it; give one like reports/champions/NAME"],
    ),
    "faults of a rig": (["lint", "lab.toml", "--faults"], ["leave out lab.toml"]),
    "profile of other nodes": (
        ["judge", "{run}", "--hwprofile", "single-gpu"],
        ["single-gpu.toml: is of localhost, and the run of pc1, pc2: nothing of it can be judged by this"],
    ),
    "unknown schema": (["schema", "gpu"], ["gpu: no such schema; use rig, sku or xids"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_with_one_message(cli, run, tmp_path, case):
    (tmp_path / "file").write_text("not a run\n")
    (tmp_path / "garbled").mkdir()
    (tmp_path / "garbled" / "recording.jsonl").write_text("not a run\n")
    arguments, expected = BAD[case]
    refused(cli(*(one.format(tmp=tmp_path, run=run) for one in arguments)), *expected)


def test_no_command_shows_what_there_is(cli):
    status, out, err = cli()
    assert status == 4
    for command in ("accept", "detect", "lint", "schema", "judge", "report", "history"):
        assert command in out + err


def test_bad_input_shows_no_traceback(tmp_path):
    done = rigproof("judge", tmp_path)
    assert done.returncode == 4
    assert done.stderr.startswith("rigproof: ")
    assert len(done.stderr.splitlines()) == 1


def test_ctrl_c_ends_it_as_interrupted(cli, monkeypatch):
    def stopped(limit_s):
        raise KeyboardInterrupt

    monkeypatch.setattr(inventory, "detect", stopped)
    assert cli("detect")[0] == 2


@pytest.mark.parametrize(
    ("limit", "arguments", "file"),
    [
        ("profiles.loading.files.PROFILE_BYTES_MAX", ["lint", "{tmp}/two-nodes.toml"], "two-nodes.toml"),
        ("records.disk.reading.RECORDING_BYTES_MAX", ["judge", "{run}"], "recording.jsonl"),
        ("records.disk.reading.RECORDING_BYTES_MAX", ["report", "{run}"], "recording.jsonl"),
        (
            "history.champions.CHAMPIONS_BYTES_MAX",
            ["judge", "{run}", "--champions", "{tmp}/kept"],
            "rig.json",
        ),
    ],
    ids=["profile", "recording", "recording to report", "champion"],
)
def test_a_file_over_its_limit_is_refused_by_name_size_and_limit(
    cli, run, tmp_path, monkeypatch, limit, arguments, file
):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "rig.json").write_text("{" + " " * 100)
    size = next(path.stat().st_size for path in tmp_path.rglob(file))
    monkeypatch.setattr(f"rigproof.{limit}", 77)
    answer = cli(*(one.format(tmp=tmp_path, run=run) for one in arguments))
    refused(answer, file, f"{size} bytes are more than the 77 it can have")
    assert len(answer[2].splitlines()) == 1


def test_a_verdict_over_its_limit_counts_as_none(run, monkeypatch):
    """The run's length then comes from what was recorded."""
    recording = read_recording(run)
    (run / "verdict.json").write_text('{\n "elapsed_s": 4321.5,\n "more": null\n}\n')
    assert elapsed_s(run, recording) == 4321.5
    monkeypatch.setattr("rigproof.cli.rejudge.VERDICT_BYTES_MAX", 20)
    assert elapsed_s(run, recording) == recording.last_s()


def test_a_history_file_over_its_limit_is_named_with_its_size_and_the_limit(cli, tmp_path, monkeypatch):
    """The others are listed all the same."""
    lab = tmp_path / "history" / "lab"
    lab.mkdir(parents=True)
    (lab / "0001_run.json").write_text(" " * 100)
    monkeypatch.setattr("rigproof.history.reading.HISTORY_BYTES_MAX", 77)
    status, out, _ = cli("history", "lab", "--report-dir", tmp_path)
    assert status == 4
    assert "0001_run.json: left out: 100 bytes are more than the 77 it can have" in out


def test_a_page_is_of_one_rig_and_says_where_it_was_written(cli, tmp_path):
    stored, page = READERS["history"].samples()[0], tmp_path / "page.html"
    for rig in ("lab", "lob"):
        (tmp_path / "history" / rig).mkdir(parents=True)
        (tmp_path / "history" / rig / "0001_run.json").write_bytes(stored)
    of_all = "history", "--report-dir", tmp_path, "--html"
    refused(cli(*of_all, page), "a page is of one rig, and lab, lob is selected; name one")
    refused(cli(*of_all, page, "--json"), "--json, --csv and --html: choose one of them")
    refused(cli(*of_all, tmp_path, "lab"), f"--html {tmp_path}: ", "; name another file")
    assert not page.exists()
    assert cli(*of_all, page, "lab") == (0, f"written: {page}\n", "")
    assert "<h1>History of lab</h1>" in page.read_text()
    (tmp_path / "history" / "lab" / "0002_run.json").write_text("{")
    assert cli(*of_all, page, "lab")[0] == 4
    assert "0002_run.json: left out: " in page.read_text()


def test_a_report_is_not_written_through_a_link(cli, run, tmp_path):
    link = tmp_path / "reports" / "latest"
    link.parent.mkdir()
    link.symlink_to(run)
    before = sorted(path.name for path in run.iterdir())
    refused(cli("report", link), "a symbolic link leads out of")
    assert sorted(path.name for path in run.iterdir()) == before


def test_a_report_is_written_elsewhere_on_demand(cli, run, tmp_path):
    before = sorted(path.name for path in run.iterdir())
    status, out, _ = cli("report", run, "--output", tmp_path / "elsewhere")
    assert (status, out) == (0, f"written: {tmp_path / 'elsewhere' / 'report.html'}\n")
    written = {path.name for path in (tmp_path / "elsewhere").iterdir()}
    assert written == {"verdict.json", "summary.md", "metrics.prom", "report.html"}
    assert sorted(path.name for path in run.iterdir()) == before
