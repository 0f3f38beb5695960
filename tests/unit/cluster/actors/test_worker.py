"""The worker's class in a process of its own; Ray only carries its calls."""

import json
import os
import subprocess
import sys
from functools import cache

import pytest

CHILD = """
import json, os, sys, time
from rigproof.cluster.actors import worker
from rigproof.cluster.actors.messages import WorkerSetup
from rigproof.profiles.planning.plan import MemoryPlan, WorkerPlan

worker._see_own_gpu_alone = lambda device: None  # Ray would say which
before = "torch" in sys.modules
device, early = sys.argv[1], sys.argv[3] == "early"
memory = MemoryPlan(**json.loads(sys.argv[2]))
plan = WorkerPlan("pc1/gpu0#0", "pc1/gpu0", "pc1", device, 1.0, 1.0, 64.0, 256, memory)
one = worker.RigproofWorker(device, memory if early else None)
if early:
    while "rigproof.devices." + device not in sys.modules:
        time.sleep(0.05)
state_before = one.poll().state
loaded_before = "rigproof.devices." + device in sys.modules
one.become(WorkerSetup(plan, 0.0, 0))
while (reply := one.poll()).state == "opening":
    time.sleep(0.05)
names = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
found = {name: os.environ[name] for name in names if name in os.environ}
one.alive()
one.alive()
reply = one.poll()
facts = {"progress": reply.progress, "records": len(reply.records), "found": found, "crew": one.crew.subject}
facts |= {"state_before": state_before, "loaded_before": loaded_before}
print(json.dumps({**facts, "torch_before": before, "torch_after": "torch" in sys.modules}), flush=True)
os._exit(0)  # its thread waits for tasks
"""
MEMORY = {"enabled": True, "expandable_segments": True, "max_split_size_mib": 64}


@cache
def opened(device, *changes, how="early", **environ):
    """A worker that has tried to open its device: its allocator's variables, and when torch came.

    `how`: "early" where its memory's settings are known before it is known which worker it is.
    """
    memory = MEMORY | dict(changes)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTORCH_")}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, device, json.dumps(memory), how],
        env=clean | environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("how", ["early", "late"])
def test_the_allocator_is_configured_before_torch_is_there(how):
    result = opened("cuda", how=how)
    assert (result["torch_before"], result["torch_after"]) == (False, True)
    assert list(result["found"].values()) == [
        "expandable_segments:True,large_segment_size_mb:64,max_split_size_mb:64"
    ]


def test_torch_is_loaded_before_it_is_known_which_worker_it_is_and_the_device_opened_after_that():
    result = opened("cpu")
    assert (result["state_before"], result["loaded_before"]) == ("opening", True)
    assert result["crew"] == "pc1/gpu0"


def test_where_the_allocators_settings_are_not_known_yet_torch_waits_for_them():
    assert opened("cuda", how="late")["loaded_before"] is False


@pytest.mark.parametrize("opening", [("cpu",), ("cuda", ("enabled", False))], ids=["cpu", "no-policy"])
def test_nothing_is_configured_that_nobody_uses_or_wants(opening):
    assert opened(*opening)["found"] == {}


def test_a_sign_of_life_is_counted_and_no_record():
    found = opened("cpu")
    assert (found["progress"], found["records"]) == (2, 0)


def test_what_the_user_has_configured_stays():
    found = opened("cuda", PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")["found"]
    assert found == {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}
