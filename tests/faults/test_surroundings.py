"""What surrounds a run changes under it: others take the CPU, a quota is cut."""

import contextlib
import os
import re
import subprocess
import uuid
from pathlib import Path

import pytest

from support.hog import HOG
from support.small_rigs import small_rig

CGROUPS = Path("/sys/fs/cgroup")
PERIOD_US = 100_000
LOAD_S = 5


def test_processes_that_take_the_cpu_are_named_and_fail_nobody(start_run, tmp_path):
    run = start_run(small_rig(tmp_path, sustained_s=LOAD_S, band=True))
    run.wait_for_stage("sustained", inside_s=0.3)
    with subprocess.Popen(HOG) as hog:
        try:
            run.hurt_now()
            run.wait_for(lambda run: run.ended("sustained"))
        finally:
            hog.kill()

    assert run.finish() == 6, run.text()

    assert run.outcomes()["host.cpu_band", "here"] == "not_measured"
    named = re.search(
        r"other programs took \d+ % of the CPU \(pid (.*?)\)(?: \(and \d+ more\))?\. End", run.text()
    )
    assert named, run.text()
    programs = re.findall(r"(\d+) \(python\S*, user \S+\) \d+ %", named[1])
    assert hog.pid in map(int, programs), named[0]
    assert "End these programs" in run.text()
    run.check_recording()
    run.check_nothing_is_left()
    run.record(
        "CPU hogs, two for each core",
        "sustained stage",
        deadline_s=LOAD_S,
        outcome="INCOMPLETE: they are named",
    )


@pytest.fixture
def group():
    """A control group of our own that may use all CPUs, and what sets how many it may use."""
    name = f"rigproof-{uuid.uuid4().hex[:8]}"
    second = (CGROUPS / "cgroup.controllers").exists()
    folders = [CGROUPS / name] if second else [CGROUPS / "cpu" / name, CGROUPS / "cpuacct" / name]
    limit = folders[0] / ("cpu.max" if second else "cpu.cfs_quota_us")

    def allow(cpus):
        quota = int(cpus * PERIOD_US)
        limit.write_text(f"{quota} {PERIOD_US}" if second else str(quota))

    try:
        for folder in folders:
            folder.mkdir()
        if not limit.exists():
            raise OSError(f"no {limit}")
        allow(len(os.sched_getaffinity(0)))
    except OSError as error:
        remove(folders)
        pytest.skip(f"no CPU quota can be set here: {error}")
    yield folders, allow
    remove(folders)


def remove(folders):
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


def test_a_quota_that_is_cut_is_named_and_fails_nobody(start_run, tmp_path, group):
    """So are other programs, where they keep the group from what is left of its quota."""
    folders, allow = group
    enter = "".join(f"echo $$ > {folder}/cgroup.procs && " for folder in folders)
    run = start_run(
        small_rig(tmp_path, sustained_s=LOAD_S, band=True), prefix=("sh", "-c", f'{enter}exec "$@"', "enter")
    )
    run.wait_for_stage("sustained", inside_s=0.3)
    allow(0.25 * len(os.sched_getaffinity(0)))
    run.hurt_now()
    run.wait_for(lambda run: run.ended("sustained"))
    allow(len(os.sched_getaffinity(0)))

    assert run.finish() == 6, run.text()

    assert run.outcomes()["host.cpu_band", "here"] == "not_measured"
    assert re.search(r"while (a CPU quota withheld|other programs took) \d+ % of the CPU", run.text())
    run.check_recording()
    run.check_nothing_is_left()
    run.record(
        "CPU quota is cut to a quarter",
        "sustained stage",
        deadline_s=LOAD_S,
        outcome="INCOMPLETE: the quota is named",
    )
