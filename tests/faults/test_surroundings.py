"""What surrounds a run changes under it: others take the CPU, a quota is cut, the clock jumps."""

import contextlib
import os
import shutil
import struct
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from support.small_rigs import small_rig

CGROUPS = Path("/sys/fs/cgroup")
WALL_CLOCK = Path(__file__).resolve().parents[1] / "support" / "wall_clock.c"
PERIOD_US = 100_000
JUMPS_S = (3600, -86400)
LOAD_S = 7


def ended(run):
    """Whether the sustained stage is over."""
    told = [record for record in run.records("stage") if record["name"] == "sustained"]
    return bool(told) and told[-1]["status"] != "running"


@pytest.fixture
def hogs():
    """Start as many busy loops as asked for; they are gone at the end."""
    started = []

    def start(count):
        started.extend(subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count))

    def stop():
        for hog in started:
            hog.kill()
            hog.wait()

    yield start, stop
    stop()


def test_processes_that_take_the_cpu_fail_its_band(start_run, tmp_path, hogs):
    start, stop = hogs
    run = start_run(small_rig(tmp_path, sustained_s=LOAD_S, band=True))
    run.wait_for_stage("sustained", inside_s=0.3)
    start(2 * len(os.sched_getaffinity(0)))
    run.hurt_now()
    run.wait_for(ended)
    stop()

    assert run.finish() == 1, run.text()

    assert run.outcomes()["host.cpu_band", "here"] == "fail"
    assert "here host.cpu_band: " in run.text()
    assert "end what else runs on this machine" in run.text()
    run.check_recording()
    run.check_nothing_is_left()
    run.record(
        "CPU hogs, two for each core",
        "sustained stage",
        deadline_s=LOAD_S,
        outcome="REJECTED: `host.cpu_band`",
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


def test_a_quota_that_is_cut_fails_the_band(start_run, tmp_path, group):
    folders, allow = group
    enter = "".join(f"echo $$ > {folder}/cgroup.procs && " for folder in folders)
    run = start_run(
        small_rig(tmp_path, sustained_s=LOAD_S, band=True), prefix=("sh", "-c", f'{enter}exec "$@"', "enter")
    )
    run.wait_for_stage("sustained", inside_s=0.3)
    allow(0.25 * len(os.sched_getaffinity(0)))
    run.hurt_now()
    run.wait_for(ended)
    allow(len(os.sched_getaffinity(0)))

    assert run.finish() == 1, run.text()

    assert run.outcomes()["host.cpu_band", "here"] == "fail"
    assert "here host.cpu_band: " in run.text()
    run.check_recording()
    run.check_nothing_is_left()
    run.record(
        "CPU quota is cut to a quarter",
        "sustained stage",
        deadline_s=LOAD_S,
        outcome="REJECTED: `host.cpu_band`",
    )


@pytest.fixture
def wall_clock(tmp_path):
    """The variables under which Python has a wall clock of its own, and what sets it off by seconds."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler to make the wall clock with (Debian: apt-get install gcc)")
    library, offset = tmp_path / "wall_clock.so", tmp_path / "offset"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, WALL_CLOCK, "-ldl"], check=True, timeout=240)
    offset.write_bytes(struct.pack("q", 0))

    def set_off(seconds):
        with offset.open("r+b") as file:  # in place: it is mapped
            file.write(struct.pack("q", seconds))

    return {"LD_PRELOAD": str(library), "WALL_CLOCK_OFFSET": str(offset)}, set_off


def wall_clock_off_s(variables):
    """How far off the wall clock of a Python is that starts now."""
    command = [sys.executable, "-c", "import time; time.sleep(0.01); print(time.time())"]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, check=True, timeout=240)
    return float(done.stdout) - time.time()


def test_a_clock_that_jumps_changes_no_rate_and_no_duration(start_run, tmp_path, wall_clock):
    variables, set_off = wall_clock
    run = start_run(small_rig(tmp_path, sustained_s=LOAD_S, gemm_s=1), variables=variables)
    run.wait_for_stage("sustained", inside_s=0.5)
    run.hurt_now()
    for seconds in JUMPS_S:
        set_off(seconds)
        assert abs(wall_clock_off_s(variables) - seconds) < 60
        time.sleep(1.5)

    assert run.finish() in (0, 6), run.text()  # a slow machine may not do enough products

    assert run.not_well() == set(), run.text()
    assert run.outcomes()["throughput.sustained", "here/cpu0"] == "no_limit"
    stage = run.records("stage")[-1]
    assert LOAD_S - 1 < stage["end_s"] - stage["start_s"] < 60
    rounds = run.in_stage("sustained")
    assert all(0 < one["seconds"] < LOAD_S for one in rounds)
    assert sum(one["seconds"] for one in rounds) < 60
    run.check_recording()
    run.check_nothing_is_left()
    run.record(
        "wall clock jumps by 1 h, then by -24 h", "sustained stage", deadline_s=LOAD_S, outcome="ACCEPTED"
    )
