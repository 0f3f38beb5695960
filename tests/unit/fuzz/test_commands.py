"""Bad files through the command line: exit status 4 and one clear line, never a traceback."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from rigproof.cli.main import main
from rigproof.records.disk.reading import PARQUET_FILE, RECORDING_FILE
from support.acceptance import CHECKOUT, rigproof, run_pytest
from support.readers import READERS, RUNS, SAMPLES, UUID

GENUINE = SAMPLES / RUNS[0]
DEEP = b"[" * 100_000


@pytest.fixture
def cli(monkeypatch, capsys):
    """Call the command line; its exit status and all that it printed. What it raises, raises."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["rigproof", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return ended.value.code or 0, printed.out + printed.err

    return call


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(GENUINE, folder)
    return folder


def with_run(**changes):
    """The sample's recording with something else in its first line; bytes stand for what is no JSON."""
    first, _, rest = (GENUINE / RECORDING_FILE).read_bytes().partition(b"\n")
    plain = {key: key.upper() if isinstance(value, bytes) else value for key, value in changes.items()}
    line = json.dumps(json.loads(first) | plain).encode()
    for key, value in changes.items():
        if isinstance(value, bytes):
            line = line.replace(json.dumps(key.upper()).encode(), value)
    return line + b"\n" + rest


RECORDINGS = {
    "empty": (b"", "is empty"),
    "deep": (DEEP, "line 1"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "line 1"),
    "half a surrogate": (with_run(level=b'"\\ud800"'), "line 1"),
    "a huge number": (with_run(schema_version=b"9" * 9999), "line 1"),
    "an escape sequence": (with_run(schema_version="\x1b[2J"), r"schema_version = '\x1b[2J'"),
    "a rig of another kind": (with_run(rig={"name": "\x1b[2J"}), "its rig is damaged at"),
    "a level that nobody knows": (with_run(level="x\x1b[2J", stages=[]), "level"),
}


@pytest.mark.parametrize("command", ["judge", "report"])
@pytest.mark.parametrize("case", RECORDINGS)
def test_a_bad_recording_is_refused_by_judge_and_report(cli, run, command, case):
    content, expected = RECORDINGS[case]
    (run / RECORDING_FILE).write_bytes(content)
    status, output = cli(command, run)
    assert status == 4, output
    assert expected in output
    assert len(output.splitlines()) == 1
    assert len(output) < 1000


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(4000) + b"PAR1", DEEP])
def test_a_bad_table_is_refused_by_judge(cli, run, content):
    (run / PARQUET_FILE).write_bytes(content)
    status, output = cli("judge", run)
    assert (status, len(output.splitlines())) == (4, 1)
    assert PARQUET_FILE in output


@pytest.mark.parametrize("name", [RECORDING_FILE, PARQUET_FILE])
@pytest.mark.parametrize("put", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_a_run_of_pipes_folders_and_devices_is_refused_by_judge(cli, run, name, put):
    (run / name).unlink()
    put(run / name)
    status, output = cli("judge", run)
    assert (status, len(output.splitlines())) == (4, 1)
    assert name in output


def test_a_bad_verdict_is_written_anew_by_report(cli, run):
    (run / "verdict.json").write_bytes(b'{"elapsed_s": 1e999}')
    status, output = cli("report", run)
    assert (status, output) == (0, f"written: {run / 'report.html'}\n")
    assert b'"elapsed_s"' in (run / "verdict.json").read_bytes()


@pytest.mark.parametrize("content", [b"", DEEP, b"\xff\xfe", b'{"schema_version": 1, "figures": [NaN]}'])
def test_bad_champions_are_refused_by_judge_and_named_by_history(cli, run, tmp_path, content):
    folder = tmp_path / "reports" / "champions" / "lab"
    (folder / "gpus").mkdir(parents=True)
    (folder / "gpus" / f"{UUID}.json").write_bytes(content)
    status, output = cli("judge", run, "--champions", folder)
    assert (status, len(output.splitlines())) == (4, 1)
    assert f"{UUID}.json" in output
    status, output = cli("history", "--report-dir", tmp_path / "reports")
    assert status in (0, 4)
    assert f"{UUID}.json" in output


def test_bad_history_is_left_out_and_named(cli, tmp_path):
    folder = tmp_path / "reports" / "history" / "lab"
    folder.mkdir(parents=True)
    (sample,) = READERS["history"].samples()
    (folder / "0001_good.json").write_bytes(sample)
    (folder / "0002_deep.json").write_bytes(DEEP)
    (folder / "0003_surrogate.json").write_bytes(sample.replace(b"NVIDIA", b"\\ud800"))
    (folder / "0004_escape.json").write_bytes(sample.replace(b"NVIDIA", b"\\u001b[2J"))
    (folder / "0005_endless.json").write_bytes(sample.replace(b"NVIDIA", b"x" * 100_000))
    os.mkfifo(folder / "0006_pipe.json")
    (folder / os.fsdecode(b"0007_\xff.json")).write_bytes(b"")
    status, output = cli("history", "--report-dir", tmp_path / "reports")
    assert status in (0, 4)
    assert "\x1b" not in output
    assert len(output) < 10_000
    for name in ("0002_deep", "0003_surrogate", "0004_escape", "0005_endless", "0006_pipe", r"0007_\udcff"):
        assert f"{name}.json: left out: " in output
    assert "0001_good.json" not in output


PROFILES = {
    "deep": b"a = " + DEEP,
    "dots": b"a" + b".a" * 100_000 + b" = 1",
    "not text": b"\xff\xfe\x00",
    "huge": b"# " + b"x" * 2_000_000,
    "nan": b'name = "lab"\n[limits]\nthrottle_share = nan\n[[nodes]]\nname = "a"\n',
    "a huge number": b'name = "lab"\n[[nodes]]\nname = "a"\ncpus = ' + b"9" * 5000,
    "an escape sequence": b'name = "\\u001b[2J"\n',
}


@pytest.mark.parametrize("case", PROFILES)
def test_a_bad_profile_is_refused_by_lint(cli, tmp_path, case):
    (tmp_path / "lab.toml").write_bytes(PROFILES[case])
    status, output = cli("lint", tmp_path / "lab.toml")
    assert status == 4
    assert all("lab.toml: " in line for line in output.splitlines())
    assert "\x1b" not in output


def test_a_profile_that_is_a_pipe_is_refused_by_monitor_and_judge(cli, run, tmp_path):
    os.mkfifo(tmp_path / "lab.toml")
    for command in (["monitor", "--once"], ["judge", run]):
        status, output = cli(*command, "--hwprofile", tmp_path / "lab.toml")
        assert (status, len(output.splitlines())) == (4, 1)
        assert "is not a regular file" in output


@pytest.mark.parametrize("case", ["deep", "not text"])
def test_a_bad_profile_is_refused_by_the_plan_of_a_run(tmp_path, case):
    profile = tmp_path / "lab.toml"
    profile.write_bytes(PROFILES[case])
    done = run_pytest(
        "-m", "hardware", f"--hw-report-dir={tmp_path / 'r'}", f"--hwprofile={profile}", "--hw-plan"
    )
    assert done.returncode == 4
    assert "lab.toml" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_a_run_of_rubbish_does_not_end_the_monitor(tmp_path):
    run = tmp_path / "runs" / "a"
    run.mkdir(parents=True)
    (run / RECORDING_FILE).write_bytes(b'{"type":"run"}\n' + DEEP + b"\n\xff")
    done = rigproof("monitor", "--once", "--json", "--report-dir", tmp_path)
    assert done.returncode in (0, 1), done.stderr
    assert '"run": null' in done.stdout
    assert done.stderr == ""


def test_what_a_terminal_cannot_write_is_escaped(tmp_path):
    name = os.fsdecode(b"caf\xe9.toml")
    done = subprocess.run(
        [sys.executable, "-m", "rigproof", "lint", f"./{name}"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 4
    assert done.stderr.startswith(r"caf\udce9.toml: ")
    assert "Traceback" not in done.stderr
