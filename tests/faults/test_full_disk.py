"""A disk that fills up while a run goes on, and one that takes nothing: reported, and never green."""

import pytest

from support.small_rigs import small_rig

LOAD_S = 3


def test_full_disk_is_reported_and_never_green(start_run, tmp_path, mounted):
    disk = mounted(64)
    run = start_run(small_rig(tmp_path, sustained_s=LOAD_S), report_dir=disk)
    run.wait_for_stage("sustained", inside_s=0.3)
    before = len(run.all_records())
    with pytest.raises(OSError, match="No space"):
        fill(disk / "hog")
    run.hurt_now()

    status = run.finish()

    assert status == 6, run.text()
    assert "No space left on device" in run.text()
    assert "INCOMPLETE:" in run.text()
    assert "Traceback" not in run.text()
    assert len(run.all_records()) >= before  # what was on the disk still is
    run.check_nothing_is_left()
    run.record("disk is full", "sustained stage", deadline_s=LOAD_S, outcome="INCOMPLETE, exit 6, named")


def fill(path):
    with path.open("wb", buffering=0) as hog:
        while True:
            hog.write(b"\0" * 2**16)


def test_a_folder_that_takes_no_reports_is_refused_before_any_load(start_run, tmp_path, mounted):
    disk = mounted(64, "ro")
    run = start_run(small_rig(tmp_path), report_dir=disk)
    run.hurt_now()
    assert run.finish() == 4, run.text()
    assert f"--hw-report-dir {disk}: not writable (Read-only file system)" in run.text()
    run.check_nothing_is_left()
    run.record("report folder is read-only", "start", deadline_s=0, outcome="refused, exit 4; it is named")
