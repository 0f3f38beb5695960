"""Ray's folders of runs that are gone are removed; those of runs that go on, and all else, stay.

Behind a driver that was killed, its Ray's writers are ended and its folder is removed.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rigproof.cluster.ray import folder as folders
from rigproof.cluster.ray.folder import (
    FOLDER_PREFIX,
    Warden,
    clear,
    held,
    make_folder,
    remove_stale_folders,
)
from rigproof.host import processes
from rigproof.host.processes import writers

ROOT = Path(__file__).resolve().parents[4]
HOLD = "import sys; file = open(sys.argv[1], sys.argv[2]); print('open', flush=True); sys.stdin.read()"
DRIVER = """
import os, sys
from pathlib import Path
from rigproof.cluster.ray.folder import Warden
warden = Warden(Path(sys.argv[1]))
print(warden.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def test_only_the_folders_of_dead_drivers_go(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    names = {
        "stale": f"{FOLDER_PREFIX}{gone.pid}-abc",
        "own": f"{FOLDER_PREFIX}{os.getpid()}-abc",
        "no number": f"{FOLDER_PREFIX}x-abc",
        "other": f"other-{gone.pid}-abc",
    }
    for name in names.values():
        (tmp_path / name).mkdir()
    (tmp_path / f"{FOLDER_PREFIX}{gone.pid}-link").symlink_to(tmp_path / names["other"])
    remove_stale_folders(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == set(names.values()) - {names["stale"]} | {f"{FOLDER_PREFIX}{gone.pid}-link"}


def test_a_folder_that_is_held_stays_though_its_driver_is_out_of_sight(tmp_path):
    """Its run may be in another container, which shares this folder and not the processes."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    folder = tmp_path / f"{FOLDER_PREFIX}{gone.pid}-abc"
    folder.mkdir()
    with held(folder):
        remove_stale_folders(tmp_path)
        assert folder.exists()
    remove_stale_folders(tmp_path)
    assert not folder.exists()


def test_the_kernel_lets_go_of_a_folder_whose_driver_was_killed(tmp_path):
    folder = tmp_path / f"{FOLDER_PREFIX}999999999-abc"
    folder.mkdir()
    code = f"""
import os, pathlib, signal
from rigproof.cluster.ray.folder import held
with held(pathlib.Path({str(folder)!r})):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=240, check=False)
    assert done.returncode == -signal.SIGKILL
    remove_stale_folders(tmp_path)
    assert not folder.exists()


def test_a_new_folder_is_named_after_its_driver():
    folder = make_folder()
    try:
        assert folder.name.startswith(f"{FOLDER_PREFIX}{os.getpid()}-")
        assert folder.stat().st_mode & 0o777 == 0o700
    finally:
        folder.rmdir()


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
    monkeypatch.setattr(folders, "GRACE_S", 0.2)
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
