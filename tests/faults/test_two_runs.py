"""Two runs that write to one folder at once, and what is said of a recording that was cut off.

The wall clock of the first one jumps. The second one waits until its host is free, and gets a signal once it
has measured everything: both go on as if nothing were.
"""

import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from rigproof.host.run_lock import Claim, HostLock
from rigproof.records.disk.reading import PARQUET_FILE, RECORDING_FILE
from support.acceptance import rigproof
from support.real_runs import EVERY_SIGNAL, LOCKS, RealRun
from support.small_rigs import small_rig

WALL_CLOCK = Path(__file__).resolve().parents[1] / "support" / "wall_clock.c"
JUMPS_S = (3600, -86400)
LOAD_S = 5
EARLIER = Claim.of("earlier", Path("/srv/reports/runs/earlier"))
SIGNALS = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)


@dataclass
class Two:
    """Both runs, ended, and their folder. `jumped`: whether the first one's clock did.

    `holder`: who had the second one's host while it worked.
    """

    jumping: RealRun
    signalled: RealRun
    number: signal.Signals
    jumped: bool
    reports: Path
    lock: HostLock
    holder: Claim | None

    @property
    def both(self):
        return self.jumping, self.signalled


@pytest.fixture(
    scope="module", params=SIGNALS if EVERY_SIGNAL else SIGNALS[:1], ids=lambda number: number.name
)
def two(request, start_shared_run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    profile, reports = small_rig(folder, sustained_s=LOAD_S, gemm_s=1), folder / "reports"
    clock = wall_clock(folder)
    first = start_shared_run(profile, report_dir=reports, variables=clock)
    first.wait_for(lambda run: run.folder)
    apart = {LOCKS: str(folder)}  # as in two containers that share nothing else: both go on at once
    lock = HostLock(apart)
    assert lock.take(EARLIER) is None
    # Beside the first, whose folder is there by now.
    second = start_shared_run(profile, "--hw-wait", report_dir=reports, variables=apart)
    second.wait_for(lambda run: f"waiting: this host is under test by {EARLIER}" in run.text())
    assert "starting Ray" not in second.text()
    lock.release()
    with ThreadPoolExecutor(1) as pool:  # the two are where they are at times of their own
        holding = pool.submit(taken_at_work, second, lock)
        first.wait_for_stage("sustained", inside_s=0.3)
        first.hurt_now()
        for seconds in JUMPS_S if clock else ():
            jump(clock, seconds)
            time.sleep(1)
    holder = holding.result()
    second.wait_for(lambda run: run.ended("sustained"))
    second.wait_for(lambda run: (run.folder / PARQUET_FILE).exists(), step_s=0.02)
    second.hurt(None, request.param)
    for run in (first, second):
        run.finish()
    return Two(first, second, request.param, bool(clock), reports, lock, holder)


def taken_at_work(run, lock):
    """Who has the host of a run that works."""
    run.wait_for_stage("gemm", inside_s=0)
    return lock.take(EARLIER)


def wall_clock(folder):
    """The variables under which Python has a wall clock of its own; empty where none can be made."""
    compiler = shutil.which("cc")
    if compiler is None:
        return {}
    library, offset = folder / "wall_clock.so", folder / "offset"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, WALL_CLOCK, "-ldl"], check=True, timeout=240)
    offset.write_bytes(struct.pack("q", 0))
    return {"LD_PRELOAD": str(library), "WALL_CLOCK_OFFSET": str(offset)}


def jump(clock, seconds):
    """Set it off by so much, and see that Python believes it."""
    with Path(clock["WALL_CLOCK_OFFSET"]).open("r+b") as file:  # in place: it is mapped
        file.write(struct.pack("q", seconds))
    command = [sys.executable, "-c", "import time; time.sleep(0.01); print(time.time())"]
    done = subprocess.run(command, env=os.environ | clock, capture_output=True, check=True, timeout=240)
    assert abs(float(done.stdout) - time.time() - seconds) < 60


def test_both_end_well(two):
    for run in two.both:
        assert run.process.returncode in (0, 6), run.text()  # a slow machine may not do enough products
        assert run.not_well() == set(), run.text()
        assert run.outcomes()["throughput.sustained", "here/cpu0"] == "no_limit"
        run.check_recording()
        run.check_nothing_is_left()


def test_a_run_that_waited_for_its_host_holds_it_to_its_end(two):
    run = two.signalled
    assert (two.holder.pid, two.holder.folder) == (run.process.pid, str(run.folder))
    assert two.lock.take(EARLIER) is None
    two.lock.release()


def test_each_has_its_own_figures_in_the_history(two):
    """In a file of its own, which says that the run was a short one."""
    files = sorted((two.reports / "history" / "small").glob("*"))
    kept = [one for path in files for one in json.loads(path.read_text())["benchmarks"]]
    assert len(files) == 2
    assert {one["extra_info"]["run_id"] for one in kept} == {run.folder.name for run in two.both}
    assert all(one["extra_info"]["shortened"].endswith("not a quick run") for one in kept)
    assert (two.reports / "latest").resolve() in [run.folder for run in two.both]


def test_a_clock_that_jumps_changes_no_rate_and_no_duration(two):
    if not two.jumped:
        pytest.skip("there is no C compiler to make the wall clock with (Debian: apt-get install gcc)")
    run = two.jumping
    stage = run.records("stage")[-1]
    assert LOAD_S - 1 < stage["end_s"] - stage["start_s"] < 60
    rounds = run.in_stage("sustained")
    assert all(0 < one["seconds"] < LOAD_S for one in rounds)
    assert sum(one["seconds"] for one in rounds) < 60
    run.record(
        "wall clock jumps by 1 h, then by -24 h", "sustained stage", deadline_s=LOAD_S, outcome="ACCEPTED"
    )


def test_a_run_that_has_measured_everything_ends_as_it_would_have_whatever_signal_comes(two):
    run = two.signalled
    assert run.verdict()["exit_status"] == run.process.returncode
    assert run.verdict()["interrupted"] is False
    for name in ("report.html", "summary.md", "junit.xml", "metrics.prom", "benchmark.json"):
        assert (run.folder / name).stat().st_size, name
    fault = f"driver, {two.number.name}"
    run.record(fault, "files being written", deadline_s=0, outcome="the run's own verdict")


def test_an_unfinished_line_is_left_out_and_a_stage_without_its_end_does_not_pass(two, tmp_path):
    cut = tmp_path / "cut"
    shutil.copytree(two.jumping.folder, cut)
    path = cut / RECORDING_FILE
    lines = path.read_bytes().splitlines(keepends=True)
    end = max(number for number, line in enumerate(lines) if line.startswith(b'{"type":"stage"'))
    path.write_bytes(b"".join(lines[:end]) + lines[end][:40])
    done = rigproof("judge", cut)
    assert done.returncode == 6, done.stdout + done.stderr
    assert "INCOMPLETE" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_run_on_a_host_that_is_taken_names_who_has_it_and_is_refused(start_run, tmp_path):
    """Before any load, unless it is to wait."""
    here = {LOCKS: str(tmp_path)}
    lock = HostLock(here)
    assert lock.take(EARLIER) is None
    refused = start_run(small_rig(tmp_path), variables=here)
    assert refused.finish() == 4, refused.text()
    assert f"this host is under test by {EARLIER}" in refused.text()
    assert "--hw-wait" in refused.text()
    assert "starting Ray" not in refused.text()
    assert refused.folder is None  # nothing is written
    refused.check_nothing_is_left()
    lock.release()
