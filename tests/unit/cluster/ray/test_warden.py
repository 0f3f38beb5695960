"""Behind a driver that was killed, its Ray's writers are ended and its folder is removed."""

import os
import subprocess
import sys

import pytest

from rigproof.cluster.ray import warden
from rigproof.cluster.ray.warden import Warden, clear
from rigproof.host import processes
from rigproof.host.processes import writers

HOLD = "import sys; file = open(sys.argv[1], sys.argv[2]); print('open', flush=True); sys.stdin.read()"
DRIVER = """
import os, sys
from pathlib import Path
from rigproof.cluster.ray.warden import Warden
warden = Warden(Path(sys.argv[1]))
print(warden.pid, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def hold():
    """A process that has a file open in this mode."""
    started = []

    def start(path, mode):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(path), mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        started.append(process)
        assert process.stdout.readline() == b"open\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "rigproof-ray-1-x"
    folder.mkdir()
    (folder / "log").write_text("")
    (tmp_path / "log").write_text("")
    return folder


def test_only_who_writes_below_the_folder_is_found(folder, hold):
    writer = hold(folder / "log", "a")
    hold(folder / "log", "r")  # somebody looks at it
    hold(folder.parent / "log", "a")
    assert {process.pid for process in writers(folder, os.getsid(0))} == {writer.pid}
    assert writers(folder, -1) == frozenset()  # another session's; 0 is ours where its leader is out of sight


def test_writers_are_killed_after_a_while_and_the_folder_goes(folder, hold, monkeypatch):
    monkeypatch.setattr(warden, "GRACE_S", 0.2)
    writer, reader = hold(folder / "log", "a"), hold(folder / "log", "r")
    clear(folder, os.getsid(0))
    assert writer.wait(30) == -9
    assert reader.poll() is None
    assert not folder.exists()


def test_it_goes_without_a_trace_where_the_driver_has_cleared_up(folder):
    watching = Warden(folder)
    (folder / "log").unlink()
    folder.rmdir()
    watching.stop(60)
    assert watching.returncode == 0


def test_the_folder_of_a_killed_driver_is_removed(folder):
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(folder)], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == -9, done.stderr
    watching = processes.process_id(int(done.stdout))
    assert watching is None or processes.wait_gone([watching], 60) == ()
    assert not folder.exists()
