"""An RTX 3070: 7.67 GiB, the plan that ran out of them, and the one that does not.

Where there is a GPU, another process holds the rest of it, so that any card has 7.67 GiB. Else the CPU is the
device, at a fortieth of the size, and its workers are capped as what four CUDA contexts leave of the card;
the two plans are then devices of one run.
"""

import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.two_devices import needs_gpus

CARD_GIB = 7.67
ON_GPU = any(Path("/proc/driver/nvidia/gpus").glob("*"))
# Workers, GiB each. On the CPU, without contexts, more workers only take longer to start: two hold as much.
OLD, SAFE = ((4, 1.7), (3, 1.5)) if ON_GPU else ((2, 3.4), (2, 2.25))
# On a GPU the process that makes the card small is a stranger: it is named, and the plan is not blamed.
RAN_OUT, STATUS = ("not_measured", 6) if ON_GPU else ("fail", 1)
# The CPU's cap on all workers together: 0.8 of the card as for four, 0.75 as for three; a fortieth of it.
CAP_SHARE = {OLD: 0.02, SAFE: 0.01875}

HOG = """
import sys, torch
print("ready", flush=True)
sys.stdin.readline()
total = torch.cuda.mem_get_info()[1]
own_context = 0.5
held = int(total - (float(sys.argv[1]) + own_context) * 2**30)
keep = torch.empty(held, dtype=torch.uint8, device="cuda")
print("held", flush=True)
sys.stdin.read()
"""


def device(plan):
    """The profile's table of one such card, with this plan."""
    workers, vram_gib = plan
    card, scale, size = "", 1, 4096
    if not ON_GPU:
        card, scale, size = f'device = "cpu"\nmemory_gib = {CARD_GIB}\ncpus_per_worker = 0.25', 40, 512
        card += f"\nmemory = {{ fraction_share = {CAP_SHARE[plan]} }}"
    return f"""
[[nodes.gpus]]
sku = "unknown"
{card}
workers = {workers}
gemm_size = {size}
vram_gib_per_worker = {vram_gib / scale}
"""


def profile(folder, *plans, enabled=True):
    """A rig of such cards, with these plans."""
    path = folder / "small-card.toml"
    path.write_text(
        f"""
name = "small-card"
[cpu]
enabled = false # this is about memory
[timeouts]
start_s = 240 # a busy machine takes long to start a worker
[memory]
enabled = {str(enabled).lower()}
[stages.gemm]
settle_s.quick = {8 if ON_GPU else 0.3} # long enough for the other process to take its part
measure_s.quick = {1 if ON_GPU else 0.2}
[stages.sustained]
settle_s.quick = {8 if ON_GPU else 0.3}
length_s.quick = {8 if ON_GPU else 4}
[stages.pattern]
length_s.quick = 0
[stages.transfer]
length_s.quick = 0
[stages.collective] # another process for each device, which loads torch; nothing here is about it
length_s.quick = 0
[levels]
round_s.quick = 0.05
[[nodes]]
name = "here"
"""
        + "".join(map(device, plans))
    )
    return f"--hwprofile={path}"


@pytest.fixture(scope="module")
def run_to_end(start_shared_run, tmp_path_factory):
    """Runs plans on small cards to their end, and returns the status and the run."""

    def run_to_end(*plans, **options):
        run = start_shared_run(profile(tmp_path_factory.mktemp("rig"), *plans, **options))
        if not ON_GPU:
            return run.finish(), run
        run.wait_for(lambda run: run.records("worker"))
        with hog_of(run.records("worker")[0]["uuid"]) as hog:
            run.wait_for(lambda run: run.in_stage("gemm"))
            hog.stdin.write(b"go\n")
            hog.stdin.flush()
            assert hog.stdout.readline() == b"held\n"
            assert not run.in_stage("sustained"), "the card was made small too late"
            return run.finish(), run

    return run_to_end


@pytest.fixture(scope="module")
def on_small_card(run_to_end):
    """The status, the run and the device of a plan that has run; on the CPU both are in one run."""
    together = () if ON_GPU else run_to_end(OLD, SAFE)

    def of(plan):
        if ON_GPU:
            return *run_to_end(plan), "here/gpu0"
        return *together, f"here/cpu{(OLD, SAFE).index(plan)}"

    return of


@contextmanager
def hog_of(uuid):
    """The process that makes the card small: the next run has a card of its own."""
    with subprocess.Popen(
        [sys.executable, "-c", HOG, str(CARD_GIB)],
        env={"CUDA_VISIBLE_DEVICES": uuid, "PATH": "/usr/bin:/bin"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as hog:
        try:
            assert hog.stdout.readline() == b"ready\n"
            yield hog
        finally:
            hog.kill()


def events(run, kind, subject):
    return [event for event in run.events(kind) if event["subject"] == subject]


def decided(run, technique, subject):
    policies = [one["data"] for one in events(run, "memory_policy", subject)]
    return [one for one in policies if one["technique"] == technique]


def test_the_old_plan_runs_out_of_memory_is_recovered_and_rejected(on_small_card):
    status, run, subject = on_small_card(OLD)

    outcomes = run.outcomes()
    ooms = events(run, "oom", subject)
    assert status == STATUS, run.text()
    assert outcomes["memory.no_oom", subject] == RAN_OUT
    assert outcomes["memory.success_rate", subject] == RAN_OUT
    assert ooms
    assert all(event["data"]["recovered"] for event in ooms)
    assert decided(run, "target", subject)  # what was done about it
    assert not run.events("worker_failed")
    assert not run.events("worker_died")
    worked = {one["worker"] for one in run.in_stage("sustained") if one["subject"] == subject}
    assert worked == {f"{subject}#{n}" for n in range(OLD[0])}


def test_the_conservative_plan_has_no_want_of_memory(on_small_card):
    _, run, subject = on_small_card(SAFE)

    verdicts = {one["criterion"]: one for one in run.verdict()["criteria"] if one["subject"] == subject}
    assert not events(run, "oom", subject)
    for criterion in ("memory.no_oom", "memory.success_rate", "memory.headroom"):
        assert verdicts[criterion]["outcome"] == "pass", run.text()
    assert verdicts["memory.success_rate"]["measured"] == 100
    assert len(events(run, "allocation", subject)) == SAFE[0]
    assert len(decided(run, "progressive_allocation", subject)) == SAFE[0] * 5


@needs_gpus(1)
def test_the_old_plan_without_a_policy_loses_workers(run_to_end):
    """On the CPU tests/unit/stages/sustained/test_workload.py shows what such a worker does."""
    status, run = run_to_end(OLD, enabled=False)

    assert status == STATUS, run.text()
    assert run.outcomes()["memory.no_oom", "here/gpu0"] == RAN_OUT
    assert run.events("worker_failed")
    assert {event["data"]["recovered"] for event in run.events("oom")} == {False}
    assert {one["after"] for one in decided(run, "policy", "here/gpu0")} == {"off"}


GREEDY = """
import json, sys, time
from rigproof.profiles.planning.operands import operands_mib
from rigproof.profiles.planning.plan import MemoryPlan
from rigproof.records.measurements import Event, Round
from rigproof.devices.opening import open_device
from rigproof.devices.reporting import run_workload
from rigproof.stages.sustained.stage import SustainedSpec

class Context:
    worker, subject, records = "w", "here/gpu0", []
    now_s = staticmethod(time.monotonic)
    stopped = staticmethod(lambda: False)
    emit = records.append

kind, size, cap_mib = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
plan = MemoryPlan(enabled=True, cap_mib=cap_mib, mixed_precision=False, last_resort_mib=cap_mib / 80)
spec = SustainedSpec("sustained", size, operands_mib(size), 1.0, 0.1, 0.05, plan)
run_workload(spec, open_device(kind, 1), Context)
rounds = [one for one in Context.records if isinstance(one, Round)]
ooms = [one for one in Context.records if isinstance(one, Event) and one.kind == "oom"]
print(json.dumps({
    "messages": [one.message for one in ooms],
    "recovered": [one.data["recovered"] for one in ooms],
    "verified": [one.verified for one in rounds],
    "sizes": [one.label("size") for one in rounds],
}))
"""


def test_one_allocation_larger_than_the_card_is_reported_in_the_allocator_s_own_words():
    """torch says "CUDA out of memory. Tried to allocate 8.84 GiB", and so does the event."""
    if ON_GPU:
        arguments, message = ("cuda", 48712, CARD_GIB * 1024), "Tried to allocate 8.84 GiB"
    else:  # a four-hundredth
        arguments, message = (
            ("cpu", 2436, CARD_GIB * 1024 / 400),
            f"you tried to allocate {2436 * 2436 * 4} bytes",
        )

    done = subprocess.run(
        [sys.executable, "-c", GREEDY, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert message in result["messages"][0]
    assert all(result["recovered"])
    assert all(result["verified"])
    assert 0 < max(result["sizes"]) < arguments[1]
