"""A recorded run judged by a profile that leaves its cards to be found."""

import json
import shutil
from pathlib import Path

import pytest

from rigproof.cli.rejudge import NEVER_ENDED, earlier_problems, rejudge, rewrite
from rigproof.profiles.auto import completed
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.plan import recorded
from rigproof.profiles.planning.planning import make_plan
from rigproof.records.disk.store import RecordingWriter
from rigproof.records.identity import GpuIdentity, HostInventory, NodeIdentity, RunInfo, WorkerIdentity
from rigproof.records.measurements import Event, ForeignMemory
from rigproof.report.terminal import matrix_lines
from rigproof.stages.registry import KINDS

H200 = GpuIdentity("localhost/gpu0", "cuda", "GPU-0", "NVIDIA H200", 0, 143771.0, sku="h200-sxm")
HOST = NodeIdentity(
    "localhost", "box", "127.0.0.1", 16.0, 64.0, "Linux", "3.11.7", "2.60.0", "2.13.0", "580.1", None, 1,
    clock_offset_s=0.0, clock_error_s=0.0
)  # fmt: skip
HALF_OF_THE_CARD_MIB = 70_000.0
SAMPLES = Path(__file__).resolve().parents[3] / "reports" / "samples"
ACCEPTED = "h200-quick"


def record(folder, *records):
    """A run of single-gpu on a machine with an H200."""
    inventory = HostInventory("box", 16.0, 64.0, "580.1", None, (H200,))
    loaded = completed(load_rig("single-gpu", KINDS), inventory)
    rig = loaded.dump()
    run = RunInfo("run-1", "2026-01-02T03:04:05Z", "quick", "0.1.0", "3.11.7", rig, ("gemm", "sustained"))
    writer = RecordingWriter(folder, run)
    writer.extend([recorded(make_plan(loaded, run.level)), *records])
    writer.close()


def judged(folder, profile):
    lines = []
    rejudge(folder, profile, lines.append)
    return "\n".join(lines)


def test_the_cards_of_the_run_are_the_ones_found(tmp_path):
    held = ForeignMemory(0.0, "localhost/gpu0", HALF_OF_THE_CARD_MIB, None)
    record(tmp_path, HOST, H200, held)
    by_its_own = judged(tmp_path, None)
    assert "inventory.foreign_memory" in by_its_own
    assert by_its_own.partition("\n")[2] in judged(tmp_path, "single-gpu")


def test_what_was_left_out_ends_the_verdict_line(tmp_path, monkeypatch):
    dump = LoadedRig.dump
    left_out = [{"node": "pc9", "what": "no GPU"}]
    monkeypatch.setattr(LoadedRig, "dump", lambda loaded: {**dump(loaded), "left_out": left_out})
    record(tmp_path, HOST, H200)
    assert judged(tmp_path, None).endswith("; not tested: pc9 (no GPU)")
    assert judged(tmp_path, "single-gpu").endswith("; not tested: pc9 (no GPU)")


def test_a_run_of_another_machine_is_judged_all_the_same(tmp_path):
    record(tmp_path)
    assert "localhost/gpu0" in judged(tmp_path, "single-gpu")


def test_a_run_of_what_was_found_is_judged_by_a_profile_of_this_machine(tmp_path):
    """Both mean the one machine of the run: its host's name to `auto`, localhost to `single-gpu`."""
    sample = SAMPLES / "h200-quick"
    mine = tmp_path / "mine.toml"
    mine.write_text('name = "mine"\nextends = "single-gpu"\n[limits]\ncore_temperature_c = 40\n')
    own, other = judged(sample, None), judged(sample, str(mine))
    assert "vm/gpu0 thermal.core_temperature: " not in own
    assert "vm/gpu0 thermal.core_temperature: " in other
    assert "limit ≤ 40 °C" in other
    lost = [line for line in judged(sample, "single-gpu").splitlines() if ": not measured: " in line]
    # These two sensors were not sampled when the sample was made.
    assert [line.split(":")[0] for line in lost] == ["vm/gpu0 transfer.errors", "vm/gpu0 thermal.margin"]


def test_the_report_of_the_run_is_named_where_it_says_the_same_alone(tmp_path):
    record(tmp_path, HOST, H200)
    (tmp_path / "report.html").write_text("by the recorded limits")
    (tmp_path / "champions").mkdir()
    assert f"report: {tmp_path}/report.html" in judged(tmp_path, None)
    assert "report.html" not in judged(tmp_path, "single-gpu")
    lines = []
    rejudge(tmp_path, None, lines.append, tmp_path / "champions")
    assert "report.html" not in "\n".join(lines)


def test_another_plan_than_the_runs_is_not_measured(tmp_path):
    gpu = "localhost/gpu0"
    worker = WorkerIdentity(f"{gpu}#0", gpu, "localhost", "cuda", "GPU-0", 9, 1.0, "2.13", "13.0", ("fp16",))
    record(tmp_path, HOST, H200, worker)
    other = tmp_path / "other.toml"
    other.write_text('name = "other"\nextends = "single-gpu"\n[gpu_defaults]\nvram_share = 0.5\n')
    output = judged(tmp_path, str(other))
    assert "this run was planned with 1 worker of " in output
    assert "run again with that profile" in output


def test_a_run_that_was_interrupted_says_so(tmp_path):
    record(tmp_path, HOST, H200, Event(1.0, "interrupted", "rig", "Ctrl-C"))
    assert "the run was interrupted" in judged(tmp_path, None)


@pytest.mark.parametrize(
    ("text", "lost", "status", "said"),
    [
        ("", ("verdict.json",), 0, ""),  # a recording alone is judged by what it holds
        ("", ("verdict.json", "telemetry.parquet"), 6, ""),
        ("", (), 6, "verdict.json: empty"),
        ("[1]", (), 6, "verdict.json: no verdict of a run"),
        ('{"verdict": ["ACCEPTED"]}', (), 6, "verdict.json: no verdict of a run"),
    ],
)
def test_a_run_without_a_verdict_is_accepted_only_if_it_ended(tmp_path, text, lost, status, said):
    run = tmp_path / "run"
    shutil.copytree(SAMPLES / ACCEPTED, run)
    (run / "verdict.json").write_text(text)
    for name in lost:
        (run / name).unlink()
    lines: list[str] = []
    assert rejudge(run, None, lines.append) == status, lines
    assert said in "\n".join(lines)


def test_a_run_that_never_ended_says_so(tmp_path):
    assert earlier_problems(tmp_path) == [NEVER_ENDED % tmp_path.name]


KEPT = {
    "another's test": ({"problems": ["tests/test_own.py::test_it failed, though no criterion did"]}, 6),
    "an interruption": ({"interrupted": True}, 6),
    "a file that is written now": ({"problems": ["/srv/run/report.html: not written: No space left"]}, 0),
    "a file that is not": ({"problems": ["/srv/run/junit.xml: not written: No space left"]}, 6),
    "what is no list": ({"problems": 7}, 0),
}


@pytest.mark.parametrize("why", KEPT)
def test_what_kept_a_run_from_being_accepted_still_does_when_it_is_judged_again(tmp_path, why):
    """It stands in verdict.json alone: most of it is only known when the recording is closed."""
    changes, status = KEPT[why]
    run = tmp_path / "run"
    shutil.copytree(SAMPLES / ACCEPTED, run)
    result = json.loads((run / "verdict.json").read_text()) | changes
    (run / "verdict.json").write_text(json.dumps(result, indent=1))
    for _ in range(2):  # as the run left it, and as `report` does
        lines: list[str] = []
        assert rejudge(run, None, lines.append) == status, lines
        assert ("ACCEPTED" in lines[-1]) is (status == 0)
        assert rewrite(run, lines.append) == 0
        assert (json.loads((run / "verdict.json").read_text())["verdict"] == "ACCEPTED") is (status == 0)


FORMATS = {
    "jq": lambda result: json.dumps(result, indent=2),
    "compact": json.dumps,
    "CRLF": lambda result: json.dumps(result, indent=1).replace("\n", "\r\n"),
    "cut inside": lambda result: json.dumps(result | {"problems": ["x" * 100_000]}, indent=1),
    "no JSON": lambda result: json.dumps(result, indent=1).replace("though", r"th\qough"),
    "too deep": lambda result: json.dumps(result).replace('["tests', "[" * 60_000 + '"tests'),
}


@pytest.mark.parametrize("how", FORMATS)
def test_so_it_does_however_somebody_has_formatted_verdict_json(tmp_path, how):
    run = tmp_path / "run"
    shutil.copytree(SAMPLES / ACCEPTED, run)
    problems = ["tests/test_own.py::test_it failed, though no criterion did"]
    result = {"problems": problems} | json.loads((run / "verdict.json").read_text())
    (run / "verdict.json").write_text(FORMATS[how](result), newline="")
    lines: list[str] = []
    assert rejudge(run, None, lines.append) == 6, lines
    assert "INCOMPLETE" in lines[-1]


def test_colours_are_for_terminals_that_want_them(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(matrix_lines.sys.stdout, "isatty", lambda: True)
    assert matrix_lines.colored()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not matrix_lines.colored()
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not matrix_lines.colored()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(matrix_lines.sys.stdout, "isatty", lambda: False)
    assert not matrix_lines.colored()
