"""Workers that are hurt while they work, on the real device: each is caught, and the rig goes on.

As many as there are devices are hurt in one run, each in its own way, so that all have to be named. Without
GPUs the memory of one is limited from outside; on a GPU another process takes it, in test_strangers.py.
"""

import contextlib
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.real_runs import RealRun
from support.two_devices import LATER, gpus_here, needs_gpus, two_devices

ON_GPUS = gpus_here() >= 2
# The ways that share a run. Of two GPUs the second one is healthy where there is one way.
ON_TWO = (("nap", "flip"), ("endless",), ("bounds",), ("fill",))
ON_CPU = ("nap", "flip", "endless", "limit")
TOGETHER = ON_TWO if ON_GPUS else (ON_CPU,)
SLACK_MIB = 64  # of 256 that a worker is to allocate


@dataclass
class Hurt:
    """A run that has ended, which device was hurt in it, and one that may have been hurt in another way."""

    run: RealRun
    subject: str
    other: str

    def events(self, kind: str) -> list[dict[str, object]]:
        return [one for one in self.run.events(kind) if one["subject"] == self.subject]

    def worked_afterwards(self) -> bool:
        """Whether both did verified work in the stage after the one in which they were hurt."""
        worked = {one["subject"] for one in self.run.in_stage(LATER) if one["verified"]}
        return {self.subject, self.other} <= worked


@pytest.fixture(scope="module")
def hurt(
    start_shared_run: Callable[..., RealRun], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Hurt]:
    """The run in which a worker was hurt in this way."""
    folder = tmp_path_factory.mktemp("profile")
    profile, subjects = two_devices(
        folder, sustained_s=8, later_s=4, stall_s=12, gpu_gib=4, cpus=len(ON_CPU), cpu_gib=0.25
    )
    runs: dict[tuple[str, ...], RealRun] = {}

    def run_of(ways: tuple[str, ...]) -> RealRun:
        if ways not in runs:
            hurts = ";".join(f"{subject}#0={how}" for subject, how in zip(subjects, ways, strict=False))
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("RIGPROOF_HURT", hurts)
                runs[ways] = start_shared_run(profile)
            if "limit" in ways:
                limit_memory(runs[ways], subjects[ways.index("limit")])
            assert runs[ways].finish() == 1, runs[ways].text()
        return runs[ways]

    def of(how: str) -> Hurt:
        ways = next(ways for ways in TOGETHER if how in ways)
        place = ways.index(how)
        return Hurt(run_of(ways), subjects[place], subjects[1 if place == 0 else 0])

    return of


def limit_memory(run: RealRun, subject: str) -> None:
    """Let the worker map only a little more than it has, from the gemm stage on until memory runs out."""
    run.wait_for(lambda run: subject in {one["subject"] for one in run.events("reference")})
    pid = run.worker(subject).pid
    status = Path(f"/proc/{pid}/status").read_text()
    used_kib = int(next(line for line in status.splitlines() if line.startswith("VmSize")).split()[1])
    hard = resource.prlimit(pid, resource.RLIMIT_AS)[1]
    resource.prlimit(pid, resource.RLIMIT_AS, (used_kib * 1024 + SLACK_MIB * 2**20, hard))
    run.hurt_now()
    run.wait_for(lambda run: run.events("oom"))
    with contextlib.suppress(ProcessLookupError):  # Ray's own threads must have something to answer with
        resource.prlimit(pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, hard))


def test_naps_are_named(hurt):
    found = hurt("nap")
    assert found.run.outcomes()["activity.gpu_active", found.subject] == "fail", found.run.text()
    assert not found.events("wrong_result")
    assert found.worked_afterwards()


def test_who_asks_for_the_last_verdict_is_told_of_the_rejection(hurt):
    run = hurt("nap").run
    command = [sys.executable, "-m", "rigproof", "verdict", "--max-age=1h", f"--report-dir={run.report_dir}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    expected = 1, "REJECTED two-devices quick "
    if gpus_here() == 1:  # CPUs were tested beside it
        expected = 6, "none that holds: there are GPUs here"
    assert (done.returncode, done.stdout[: len(expected[1])]) == expected, done.stdout + done.stderr


def test_flipped_bits_are_named(hurt):
    found = hurt("flip")
    assert found.run.outcomes()["activity.gpu_active", found.subject] == "fail", found.run.text()
    assert found.events("wrong_result")
    assert found.worked_afterwards()


def test_work_that_never_ends_is_killed_and_its_device_is_used_again(hurt):
    found = hurt("endless")
    outcomes = found.run.outcomes()
    assert outcomes["cluster.no_timeouts", "rig"] == "fail", found.run.text()
    assert outcomes["memory.success_rate", found.subject] == "fail"
    assert outcomes["memory.success_rate", found.other] == "pass"
    assert found.events("worker_hung")
    assert found.events("worker_replaced")
    assert found.worked_afterwards()


@needs_gpus(2)
def test_a_kernel_out_of_bounds_ends_its_worker_and_the_gpu_is_used_again(hurt):
    found = hurt("bounds")
    outcomes = found.run.outcomes()
    assert outcomes["cluster.no_timeouts", "rig"] == "fail", found.run.text()
    assert outcomes["memory.success_rate", found.other] == "pass"
    assert found.events("worker_failed") or found.events("worker_died")
    assert found.worked_afterwards()


@needs_gpus(2)
def test_an_over_allocation_is_counted_and_the_gpu_is_used_again(hurt):
    found = hurt("fill")
    outcomes = found.run.outcomes()
    assert outcomes["memory.no_oom", found.subject] == "fail", found.run.text()
    assert outcomes["memory.no_oom", found.other] == "pass"
    assert found.worked_afterwards()


if not ON_GPUS:

    def test_memory_that_runs_out_fails_its_device_alone(hurt):
        found = hurt("limit")
        outcomes = found.run.outcomes()
        assert outcomes["memory.no_oom", found.subject] == "fail", found.run.text()
        assert outcomes["memory.no_oom", found.other] == "pass"
        assert f"{found.subject} memory.no_oom" in found.run.text()
        found.run.check_recording()
        found.run.check_nothing_is_left()
