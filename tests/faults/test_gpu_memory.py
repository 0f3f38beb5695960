"""Memory of real cards: who holds it before the run is named, and after any end of a run it is free again."""

import signal
import subprocess
import sys
import time

import pytest

from rigproof.records.disk.store import read_recording
from support.real_runs import LEFT_S
from support.two_devices import needs_gpus, two_devices

pytestmark = needs_gpus(2)

HOLDER = """
import torch
total = torch.cuda.mem_get_info()[1]
keep = torch.zeros(total - 48 * 2**30, dtype=torch.uint8, device="cuda") # the plan wants 64 GiB
torch.cuda.synchronize()
print("held", flush=True)
input()
"""
FREED_MIB = 64  # the driver's own share comes and goes


@pytest.fixture
def holder():
    """A process that holds memory of the first GPU."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        env={"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "PATH": "/usr/bin:/bin"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.communicate()


def used_mib():
    """What each card has in use."""
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return [int(line) for line in subprocess.check_output(query, text=True).split()]


def wait_freed(before):
    """No card has more in use than before."""
    end_s = time.monotonic() + LEFT_S
    while any(now > was + FREED_MIB for now, was in zip(used_mib(), before, strict=True)):
        assert time.monotonic() < end_s, f"in use: {used_mib()} MiB, before: {before} MiB"
        time.sleep(0.5)


def test_a_held_card_is_left_alone_and_its_holder_is_named(start_run, tmp_path, holder):
    profile, (held, free) = two_devices(tmp_path)
    run = start_run(profile)

    assert run.finish() == 6, run.text()

    outcomes = run.outcomes()
    assert outcomes["inventory.foreign_memory", held] == "not_measured", run.text()
    assert outcomes["inventory.foreign_memory", free] == "pass"
    assert outcomes["activity.gpu_active", free] == "pass"
    assert not read_recording(run.folder).rounds.of(held)
    assert f"pid {holder.pid}" in run.text()
    assert holder.poll() is None  # nobody touched it
    run.check_recording()
    run.check_nothing_is_left()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=lambda number: number.name)
def test_a_hurt_worker_s_card_is_free_again(start_run, tmp_path, number):
    before = used_mib()
    profile, (first, second) = two_devices(tmp_path, later_s=5)
    run = start_run(profile)
    run.wait_for_stage("sustained")
    run.hurt(run.worker(first), number)

    assert run.finish() == 1, run.text()

    outcomes = run.outcomes()
    assert outcomes["activity.gpu_active", first] == "fail", run.text()
    assert outcomes["activity.gpu_active", second] == "pass", run.text()
    assert {one["subject"] for one in run.in_stage("training") if one["verified"]} == {first, second}
    run.check_recording()
    run.check_nothing_is_left()
    wait_freed(before)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=lambda number: number.name)
def test_a_hurt_driver_s_cards_are_free_again(start_run, tmp_path, number):
    before = used_mib()
    run = start_run(two_devices(tmp_path)[0])
    run.wait_for_stage("sustained")
    assert any(now > was + 2**10 for now, was in zip(used_mib(), before, strict=True))
    run.hurt(None, number)

    assert run.finish() == (-9 if number is signal.SIGKILL else 2), run.text()

    assert run.left_processes(LEFT_S) == []
    run.check_nothing_is_left()
    wait_freed(before)
