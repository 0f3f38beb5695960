import json
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from rigproof.workloads.specs import SustainedSpec
from rigproof.workloads.sustained import run_sustained

SPEC = SustainedSpec("sustained", size=128, vram_mib=1.0, duration_s=0.6, settle_s=10, round_s=0.02)


def test_the_memory_that_was_asked_for_is_filled_and_said_so(cpu, context):
    run_sustained(SPEC, cpu, context)
    (event,) = context.events("allocation")
    each_mib = 128 * 128 * (4 if cpu.half == "fp32" else 2) / 2**20
    assert event.data["matrices"] == round(1 / each_mib) - 1
    assert event.data["allocated_mib"] == pytest.approx(1.0)
    assert event.data["target_mib"] == 1.0


def test_rounds_settle_for_a_third_at_most_and_every_result_is_verified(cpu, context):
    run_sustained(SPEC, cpu, context)
    measured = [round_ for round_ in context.rounds if round_.phase == "measure"]
    assert measured
    assert {round_.precision for round_ in context.rounds} == {cpu.half}
    assert all(round_.verified for round_ in context.rounds)
    assert all(round_.phase == "warmup" for round_ in context.rounds if round_.t_s < 0.2)


def test_memory_is_read_while_it_works_and_nothing_is_left(cpu, context):
    run_sustained(SPEC, cpu, context)
    assert max(reading.allocated_mib for reading in context.memory) > 0
    assert cpu.memory().allocated_mib == 0


def test_a_bit_flipped_in_any_product_of_a_round_is_caught(faulty_cpu, context):
    device = faulty_cpu(lambda call, out: out.view(torch.int16)[3, 2].bitwise_xor_(4) if call == 45 else None)
    run_sustained(SPEC, device, context)
    wrong = [round_ for round_ in context.rounds if not round_.verified]
    assert len(wrong) == 1
    (event,) = context.events("wrong_result")
    assert event.data["expected"] != event.data["got"]


def test_a_wrong_reference_verifies_nothing_that_uses_it(faulty_cpu, context):
    device = faulty_cpu(lambda call, out: out.mul_(1.5))
    run_sustained(SPEC, device, context)
    assert context.rounds
    assert not any(round_.verified for round_ in context.rounds)
    assert context.events("wrong_result")[0].data["error"] > 0.3


def test_stop_is_heard_while_filling_and_while_working(cpu, stopping_context):
    for wanted in (1, 40):
        context = stopping_context(lambda context, wanted=wanted: len(context.rounds) >= wanted)
        run_sustained(replace(SPEC, vram_mib=8, duration_s=600, round_s=0.001), cpu, context)
        assert wanted <= len(context.rounds) <= wanted + cpu.queue_depth
        assert cpu.memory().allocated_mib == 0


def test_too_little_memory_for_a_pair_is_refused(cpu, context):
    with pytest.raises(ValueError, match="give at least"):
        run_sustained(replace(SPEC, vram_mib=0.01), cpu, context)


def out_of_memory():
    raise RuntimeError(
        "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 byte"
    )


def test_want_of_memory_inside_a_round_shrinks_the_pool_and_goes_on(faulty_cpu, context):
    device = faulty_cpu(lambda call, out: out_of_memory() if call in (40, 50) else None)
    run_sustained(SPEC, device, context)
    events = context.events("oom")
    assert [event.data["recovered"] for event in events] == [True, True]
    assert events[0].data["requested_mib"] > events[1].data["requested_mib"]
    assert context.rounds[-1].t_s > events[-1].t_s
    assert all(round_.verified for round_ in context.rounds)
    assert device.memory().allocated_mib == 0


def test_a_device_without_any_room_gives_up(faulty_cpu, context):
    device = faulty_cpu(lambda call, out: out_of_memory())
    with pytest.raises(MemoryError, match="no room for operands of size 128"):
        run_sustained(SPEC, device, context)
    recovered = [event.data["recovered"] for event in context.events("oom")]
    assert recovered == [True] * 8 + [False]
    assert device.memory().allocated_mib == 0


CHILD = """
import json, resource, sys, time
from pathlib import Path
from rigproof.records.measurements import Event, Round
from rigproof.workloads.device import open_device
from rigproof.workloads.run import run_workload
from rigproof.workloads.specs import SustainedSpec

class Context:
    worker, subject, records = "w", "host/cpu0", []
    now_s = staticmethod(time.monotonic)
    stopped = staticmethod(lambda: False)
    emit = records.append

device = open_device("cpu", 1)
warm = SustainedSpec("sustained", 512, 2.0 * 4, 0.1, 0.1, 0.02)
run_workload(warm, device, Context)
Context.records.clear()
pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + int(sys.argv[1]) * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
error = None
try:
    run_workload(SustainedSpec("sustained", 512, 160.0, 0.6, 0.1, 0.02), device, Context)
except MemoryError as raised:
    error = str(raised)
records = Context.records
print(json.dumps({
    "error": error,
    "events": [[event.kind, event.data] for event in records if isinstance(event, Event)],
    "verified": [round_.verified for round_ in records if isinstance(round_, Round)],
    "left_mib": records[-1].allocated_mib,
}))
"""


def in_little_memory(allowed_mib: int) -> dict:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(allowed_mib)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_real_want_of_memory_is_reported_and_worked_around():
    result = in_little_memory(allowed_mib=120)
    kinds = [kind for kind, _ in result["events"]]
    assert result["error"] is None
    assert kinds.count("oom") in range(1, 9)
    assert all(data["recovered"] for kind, data in result["events"] if kind == "oom")
    (allocation,) = [data for kind, data in result["events"] if kind == "allocation"]
    assert 0 < allocation["allocated_mib"] < allocation["target_mib"] == 160
    assert result["verified"]
    assert all(result["verified"])
    assert result["left_mib"] == 0


def test_a_real_want_of_nearly_all_memory_gives_up_after_eight_tries():
    result = in_little_memory(allowed_mib=30)
    assert "no room for operands" in result["error"]
    assert [data["recovered"] for _, data in result["events"]] == [True] * 8 + [False]
    assert result["left_mib"] == 0
