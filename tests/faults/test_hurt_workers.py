"""Workers that are hurt from inside while they work, on the real device: each is caught, and the rig goes on.

Two devices are hurt in one run, each in its own way, so that both have to be named.
"""

import os
from pathlib import Path

import pytest

from support.two_devices import gpus_here, two_devices

HURT = Path(__file__).resolve().parents[1] / "support" / "hurt"
needs_gpus = pytest.mark.skipif(gpus_here() < 2, reason="needs two NVIDIA GPUs")


@pytest.fixture
def hurt_run(start_run, tmp_path, monkeypatch):
    """Runs to its end with these workers hurt: the run, and its two subjects."""
    profile, subjects = two_devices(tmp_path, sustained_s=12, training_s=5, gpu_gib=4)

    def run_hurt(first: str, second: str = ""):
        wanted = [f"{subject}#0={how}" for subject, how in zip(subjects, (first, second), strict=True) if how]
        monkeypatch.setenv("RIGPROOF_HURT", ";".join(wanted))
        path = [str(HURT), os.environ.get("PYTHONPATH", "")]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))
        run = start_run(profile)
        assert run.finish() == 1, run.text()
        return run, *subjects

    return run_hurt


def events(run, kind, subject):
    return [one for one in run.records("event") if (one["kind"], one["subject"]) == (kind, subject)]


def worked_afterwards(run, subject):
    """Whether the device did verified work in the stage after the one in which it was hurt."""
    return [one for one in run.in_stage("training") if one["subject"] == subject and one["verified"]]


def test_naps_and_flipped_bits_are_both_named(hurt_run):
    run, napping, flipping = hurt_run("nap", "flip")

    outcomes = run.outcomes()
    assert outcomes["activity.gpu_active", napping] == "fail", run.text()
    assert outcomes["activity.gpu_active", flipping] == "fail", run.text()
    assert events(run, "wrong_result", flipping)
    assert not events(run, "wrong_result", napping)
    assert worked_afterwards(run, napping)
    assert worked_afterwards(run, flipping)


def test_work_that_never_ends_is_killed_and_its_device_is_used_again(hurt_run):
    run, hanging, healthy = hurt_run("endless")

    outcomes = run.outcomes()
    assert outcomes["cluster.no_timeouts", "rig"] == "fail", run.text()
    assert outcomes["memory.success_rate", hanging] == "fail"
    assert outcomes["memory.success_rate", healthy] == "pass"
    assert events(run, "worker_hung", hanging)
    assert events(run, "worker_replaced", hanging)
    assert worked_afterwards(run, hanging)
    assert worked_afterwards(run, healthy)


@needs_gpus
def test_a_kernel_out_of_bounds_ends_its_worker_and_the_gpu_is_used_again(hurt_run):
    run, outside, healthy = hurt_run("bounds")

    outcomes = run.outcomes()
    assert outcomes["cluster.no_timeouts", "rig"] == "fail", run.text()
    assert outcomes["memory.success_rate", healthy] == "pass"
    assert events(run, "worker_failed", outside) or events(run, "worker_died", outside)
    assert worked_afterwards(run, outside)


@needs_gpus
def test_an_over_allocation_is_counted_and_the_gpu_is_used_again(hurt_run):
    run, greedy, healthy = hurt_run("fill")

    outcomes = run.outcomes()
    assert outcomes["memory.no_oom", greedy] == "fail", run.text()
    assert outcomes["memory.no_oom", healthy] == "pass"
    assert worked_afterwards(run, greedy)
