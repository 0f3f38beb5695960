"""The disk fills up while a run goes on: the verdict is still said, and not a green one."""

import os
import subprocess

import pytest


@pytest.fixture
def tiny_disk(tmp_path):
    """A file system of 64 MiB, where one can be mounted."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a tmpfs")
    place = tmp_path / "tiny"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(place)], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"a tmpfs cannot be mounted here: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_full_disk_is_told_and_never_green(start_run, two_devices, tiny_disk):
    profile, _ = two_devices
    run = start_run(profile, "--level=quick", f"--report-dir={tiny_disk}")
    run.report_dir = tiny_disk
    run.wait_for(lambda run: run.in_stage("sustained"))
    rounds = len(run.records("round"))
    with pytest.raises(OSError, match="No space"):
        fill(tiny_disk / "hog")

    status = run.finish()

    assert status == 6, run.text()
    assert "No space left on device" in run.text()
    assert "INCOMPLETE:" in run.text()
    assert "Traceback" not in run.text()
    assert len(run.records("round")) >= rounds  # what was on the disk still is


def fill(path):
    with path.open("wb", buffering=0) as hog:
        while True:
            hog.write(b"\0" * 2**16)
