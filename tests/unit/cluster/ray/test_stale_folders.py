"""Ray's folders of runs that are gone are removed; those of runs that go on, and all else, stay."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from rigproof.cluster.ray.folder import FOLDER_PREFIX, held, make_folder, remove_stale_folders

ROOT = Path(__file__).resolve().parents[4]


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
    """As that of a run in another container, which shares this folder and not the processes."""
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
