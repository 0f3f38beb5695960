"""The scripts run here, in this machine's `sh`, on processes of the test's own."""

import hashlib
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rigproof.cluster.launch import scripts as launch_scripts

SLEEPER = "import time; print('up', flush=True); time.sleep(600)"
PARENT = """
import os, subprocess, sys
env = {key: value for key, value in os.environ.items() if key != "RIGPROOF_CLUSTER"}
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env=env)
print(child.pid, flush=True)
child.wait()
"""
STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"


@pytest.fixture
def mark(tmp_path):
    return f"RIGPROOF_CLUSTER=rigproof-{tmp_path.name}-{time.monotonic_ns()}"


@pytest.fixture
def start():
    """Start a Python with this environment; it has printed its first line."""
    started = []

    def begin(code, mark=None):
        environment = {"PATH": "/usr/bin:/bin"} | (dict([mark.split("=")]) if mark else {})
        process = subprocess.Popen(
            [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        return process, process.stdout.readline().strip()

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def script(text, *arguments, given="", **environment):
    done = subprocess.run(
        ["sh", "-c", text, "sh", *arguments],
        input=given,
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout.splitlines()


def test_looking_reports_marked_processes_the_tokens_hash_and_whether_ray_is_there(tmp_path, start, mark):
    ours, _ = start(SLEEPER, mark)
    start(SLEEPER, mark + "0")
    folder = tmp_path / ".ray"
    folder.mkdir()
    (folder / "auth_token").write_text("abc\n")
    lines = script(launch_scripts.LOOK, mark, "no-such-ray", HOME=str(tmp_path))
    assert lines == [f"process {ours.pid}", f"token {hashlib.sha256(b'abc').hexdigest()}"]
    assert "ray" in script(launch_scripts.LOOK, mark, sys.executable, HOME=str(tmp_path))


def test_the_token_is_kept_for_its_owner_alone_and_never_replaced(tmp_path):
    script(launch_scripts.SAVE_IT, given="abc", HOME=str(tmp_path))
    path = tmp_path / ".ray" / "auth_token"
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("abc", 0o600)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    script(launch_scripts.SAVE_IT, given="def", HOME=str(tmp_path))
    assert path.read_text() == "abc"


def test_ending_ends_what_is_marked_with_its_children_and_nobody_else(tmp_path, start, mark):
    ours, child = start(PARENT, mark)
    theirs, _ = start(SLEEPER, mark + "0")
    plain, _ = start(SLEEPER)
    state = tmp_path / "ray" / "cluster-lab.state"
    state.parent.mkdir()
    state.write_text("{}")
    lines = script(launch_scripts.END, mark, "60", "lab", RAY_TMPDIR=str(tmp_path))
    assert lines == ["ended 2"]
    ours.wait(60)
    assert gone(child)
    assert theirs.poll() is None
    assert plain.poll() is None
    assert not state.exists()


def test_who_does_not_end_is_killed(start, mark):
    ours, _ = start(STUBBORN, mark)
    assert script(launch_scripts.END, mark, "1", "lab", RAY_TMPDIR="/nonexistent") == ["ended 1"]
    assert ours.wait(60) == -9


def test_where_nothing_is_marked_nothing_is_ended(mark):
    assert script(launch_scripts.END, mark, "1", "lab", RAY_TMPDIR="/nonexistent") == ["ended 0"]


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True
