"""Ray's folders of runs that are gone are removed; those of runs that go on, and all else, stay."""

import os
import subprocess
import sys

from rigproof.cluster.ray_session import FOLDER_PREFIX, remove_stale_folders


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
