"""Memory runs out for real, from outside the worker: counted, named, and never recovered into a pass."""

import contextlib
import resource
import subprocess
import sys
from pathlib import Path

from support.two_devices import two_devices

LOAD_S = 3
HOG = """
import sys, torch
keep = torch.empty(int(torch.cuda.mem_get_info()[0] - 6 * 2**30), dtype=torch.uint8, device="cuda")
print("held", flush=True)
sys.stdin.read()
"""


def test_out_of_memory_fails_its_device_alone(start_run, tmp_path):
    profile, (first, second) = two_devices(tmp_path, sustained_s=LOAD_S, transfer_s=0.45)
    run = start_run(profile)
    run.wait_for(lambda run: first in {one["subject"] for one in run.events("reference")})
    worker = next(record for record in run.records("worker") if record["subject"] == first)
    hog = None
    if worker["device"] == "cuda":
        hog = subprocess.Popen(
            [sys.executable, "-c", HOG],
            env={"CUDA_VISIBLE_DEVICES": worker["uuid"], "PATH": "/usr/bin:/bin"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert hog.stdout.readline() == b"held\n"
    else:
        limit_address_space(worker["pid"], slack_mib=64)
    run.hurt_now()
    run.wait_for(lambda run: run.events("oom"))
    if hog is None:  # Ray's own threads must have something to answer with
        lift_limit(worker["pid"])

    status = run.finish()
    if hog:
        hog.kill()
        hog.wait()

    outcomes = run.outcomes()
    # What another process took is not the card's fault; that the CPU's own process may have no more is.
    assert status == (6 if hog else 1), run.text()
    assert outcomes["memory.no_oom", first] == ("not_measured" if hog else "fail")
    assert outcomes["memory.no_oom", second] == "pass"
    assert f"{first} memory.no_oom" in run.text()
    run.check_recording()
    run.check_nothing_is_left()
    run.record("memory runs out", "gemm stage", deadline_s=LOAD_S + 4, outcome="REJECTED: `memory.no_oom`")


def limit_address_space(pid, slack_mib):
    """Let the process map only a little more than it has."""
    status = Path(f"/proc/{pid}/status").read_text()
    used_kib = int(next(line for line in status.splitlines() if line.startswith("VmSize")).split()[1])
    limit = used_kib * 1024 + slack_mib * 2**20
    resource.prlimit(pid, resource.RLIMIT_AS, (limit, resource.prlimit(pid, resource.RLIMIT_AS)[1]))


def lift_limit(pid):
    """Let it map as much as before, if it is still there."""
    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
