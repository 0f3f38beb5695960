"""Processes that share a device: real ones on the CPU, and canned ones for what goes wrong."""

import itertools
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from rigproof.devices.golden import GoldenData
from rigproof.devices.pool import Pool
from rigproof.devices.reporting import run_workload
from rigproof.host import child
from rigproof.records.measurements import MemoryReading, Round
from rigproof.stages.sharing import child as sharing_child
from rigproof.stages.sharing import workload as sharing
from rigproof.stages.sharing.stage import SharingSpec
from rigproof.stages.sharing.workload import run_sharing
from support.devices import RecordingContext

# One thread each: two that wait for each other would crawl on a machine where others work too.
SPEC = SharingSpec("sharing", 128, vram_mib=4.0, duration_s=4.0, round_s=0.02, workers=(1, 2), cpus=1.0)


class RealTimeContext(RecordingContext):
    """Run time is real here: several processes are to agree about it."""

    def __init__(self, stop_when: Callable[[RecordingContext], bool] = lambda context: False) -> None:
        super().__init__(stop_when)
        self.signs_of_life = 0
        self.precision = ""
        self._origin_s = time.monotonic()

    def now_s(self) -> float:
        return time.monotonic() - self._origin_s

    def alive(self) -> None:
        self.signs_of_life += 1


def process_of(one: Round) -> tuple[object, object]:
    """How many processes shared the device, and which of them did it."""
    return one.label("processes"), one.label("process")


def children() -> set[int]:
    """Of this process, but those that only wait to be collected."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid() and fields[0] != "Z":
            found.add(int(stat.parent.name))
    return found


@pytest.fixture(scope="module")
def done(cpu):
    """A whole run by one process, then by two, in the precision that this CPU would not choose.

    A run of 4 s works for 1.2 s with each number, in which a busy host may let none of them run: then longer.
    """
    for duration_s in (4.0, 16.0, 64.0):
        context = RealTimeContext()
        before = children()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cpu, "half", "fp32" if cpu.half == "bf16" else "bf16")
            context.precision = cpu.half
            run_workload(replace(SPEC, duration_s=duration_s), cpu, context)
        assert children() == before
        measured = Counter(process_of(one) for one in context.rounds if one.phase == "measure")
        if len(measured) == 3 and min(measured.values()) > 3:
            break
    return context


def test_each_process_reports_its_rounds_and_every_result_is_verified(done):
    measured = {process_of(one) for one in done.rounds if one.phase == "measure"}
    assert measured == {(1, 0), (2, 0), (2, 1)}
    assert all(one.verified for one in done.rounds)
    assert {(one.stage, one.worker, one.subject) for one in done.rounds} == {
        ("sharing", "host/cpu0#0", "host/cpu0")
    }
    assert all(one.seconds > 0 and one.work > 0 and one.label("size") == 128 for one in done.rounds)


def test_the_processes_work_at_the_same_time_and_in_run_time(done):
    spans = {}
    for one in done.rounds:
        if one.phase == "measure":
            first, _ = spans.get(process_of(one), (one.t_s, 0))
            spans[process_of(one)] = first, one.t_s
    (one_from, one_to), (a_from, a_to), (b_from, b_to) = (spans[process] for process in sorted(spans))
    assert 0 < one_from < one_to < a_from < a_to < done.now_s()
    assert max(a_from, b_from) < min(a_to, b_to)


def test_a_round_that_ends_after_the_common_end_is_not_measured(cpu, monkeypatch):
    """Another process may have ended by then, and so the last one have the card to itself."""
    told, clock = [], itertools.count(0.0, 0.05)
    monkeypatch.setattr(sharing_child, "tell", lambda **more: told.append(more))
    orders = SimpleNamespace(closed=threading.Event())
    settings = {"precision": "fp32", "size": 64, "round_s": 0.001}
    pool = sharing_child.SharedPool(cpu, settings, orders)
    pool.fill(1.0)
    told.clear()
    monkeypatch.setattr(sharing_child.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(orders.closed, "wait", lambda _seconds: False)
    pool.work(start_s=0.0, settled_s=0.5, end_s=2.0)
    pool.release()
    phases = [(one["t_s"], one["phase"]) for one in told if one["what"] == "round"]
    assert {phase for t_s, phase in phases if t_s > 2.0} == {"warmup"}
    assert {phase for t_s, phase in phases if 1.0 < t_s <= 2.0} == {"measure"}


def test_they_divide_the_memory(done):
    events = done.events("allocation")
    assert [event.data["workers"] for event in events] == [1, 2]
    assert all(event.data["target_mib"] == 4.0 for event in events)
    # Whole matrices, and each process has a result beside its operands.
    assert all(event.data["allocated_mib"] == pytest.approx(4.0, abs=0.2) for event in events)


def test_its_products_references_are_reported_once_and_every_process_has_the_same(done):
    (event,) = done.events("reference")
    assert event.data["size"] == 128
    assert {"1·0", "0·1", "1·2"} <= set(event.data["checksums"])


def test_all_processes_work_in_the_worker_s_precision_not_in_what_each_would_choose(cpu, done):
    assert {one.label("precision") for one in done.rounds} == {done.precision} != {cpu.half}
    (event,) = done.events("reference")
    pool = Pool(cpu, SPEC.size, done.precision, GoldenData(cpu, SPEC.size, done.precision))
    pool.grow()
    pool.grow()
    assert event.data["precision"] == done.precision
    assert pool.checksums.items() <= event.data["checksums"].items()
    pool.release()


def test_nothing_is_left_and_the_last_record_is_the_memory(cpu, done):
    assert isinstance(done.records[-1], MemoryReading)
    assert cpu.memory().allocated_mib == 0


# A process that says what it is told to, in place of one that loads torch.
CANNED = """
import json, os, signal, sys, time
plan = {plan!r}
def say(what, **more):
    print(json.dumps(dict(what=what, **more)), flush=True)
def a_round(phase, verified=True):
    done = dict(t_s=time.monotonic(), seconds=0.01, products=3, host_paced=True)
    say("round", phase=phase, verified=verified, **done)
for step in plan:
    if step == "opened": say("opened", uuid={uuid!r})
    elif step == "elsewhere": say("opened", uuid="GPU-other")
    elif step == "ready":
        fill = json.loads(sys.stdin.readline())
        a_round("warmup"); say("ready", mib=fill["mib"], checksums=dict(pair="0"))
    elif step == "work":
        json.loads(sys.stdin.readline()); a_round("measure"); say("done")
    elif step == "wrong":
        say("wrong", message="fp32 result changed", data=dict(pair=1)); a_round("measure", False)
    elif step == "full": say("out_of_memory", message="no room"); say("error", message="no room"); sys.exit(1)
    elif step == "broken": say("error", message="CUDA error 719"); sys.exit(1)
    elif step == "die": os.kill(os.getpid(), 9)
    elif step == "unloaded": import no_such_module
    elif step == "noise": print("a library's word"); print("[1]"); print(chr(123), flush=True)
    elif step == "hang": time.sleep(600)
while sys.stdin.readline(): pass
"""
WELL = ["opened", "ready", "work"]


@pytest.fixture
def canned(cpu, monkeypatch):
    """Let the processes follow a plan; short deadlines."""

    def follow(*plan: str) -> None:
        text = CANNED.replace("{plan!r}", repr(plan)).replace("{uuid!r}", repr(cpu.uuid))
        monkeypatch.setattr(child, "BOOT", text)

    monkeypatch.setattr(sharing, "END_S", 0.3)
    return follow


def test_canned_processes_work_well_whatever_else_is_printed(cpu, canned):
    canned("noise", *WELL)
    context = RealTimeContext()
    run_sharing(SPEC, cpu, context)
    measured = sorted(process_of(one) for one in context.rounds if one.phase == "measure")
    assert measured == [(1, 0), (2, 0), (2, 1)]
    assert {one.host_paced for one in context.rounds} == {True}


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (["die"], r"process 1 of 1 that share host/cpu0 \(pid \d+\): ended with status -9"),
        (["opened", "die"], "ended with status -9"),
        (["unloaded"], "ended with status 1: ModuleNotFoundError: No module named 'no_such_module'"),
        (["opened", "ready", "die"], "ended with status -9"),
        (["opened", "ready", "broken"], "CUDA error 719"),
        (["elsewhere"], "uses GPU-other, not CPU-"),
    ],
)
def test_a_process_that_fails_ends_the_task_and_says_which_and_why(cpu, canned, plan, expected):
    canned(*plan)
    with pytest.raises(RuntimeError, match=expected):
        run_sharing(SPEC, cpu, RealTimeContext())


@pytest.mark.parametrize(
    ("limit", "plan", "state"),
    [
        ("START_S", ["hang"], "opened"),
        ("STALL_S", ["opened", "hang"], "ready"),
        ("STALL_S", ["opened", "ready", "hang"], "done"),
    ],
)
def test_a_process_that_hangs_is_killed_after_its_limit(cpu, canned, monkeypatch, limit, plan, state):
    monkeypatch.setattr(sharing, limit, 1.5)
    canned(*plan)
    before = children()
    with pytest.raises(RuntimeError, match=rf"was silent for \d+ s before it was {state}"):
        run_sharing(SPEC, cpu, RealTimeContext())
    assert children() == before


def test_one_that_has_worked_but_does_not_end_is_killed(cpu, canned):
    canned(*WELL, "hang")
    before = children()
    run_sharing(SPEC, cpu, RealTimeContext())
    assert children() == before


def test_want_of_memory_is_an_oom_and_fails(cpu, canned):
    canned("opened", "full")
    context = RealTimeContext()
    with pytest.raises(MemoryError, match="no room"):
        run_sharing(SPEC, cpu, context)
    (event,) = context.events("oom")
    assert event.data == {"requested_mib": 4.0, "recovered": False}


def test_a_wrong_result_is_an_event_and_its_round_does_not_count(cpu, canned):
    canned("opened", "ready", "wrong", "work")
    context = RealTimeContext()
    run_sharing(SPEC, cpu, context)
    assert context.events("wrong_result")[0].message == "fp32 result changed"
    assert [one.verified for one in context.rounds if process_of(one) == (1, 0)] == [True, False, True]


@pytest.mark.parametrize(
    ("plan", "stop"),
    [
        (["hang"], lambda context: context.signs_of_life >= 2),  # nothing else shows that the worker lives
        (["opened", "hang"], lambda context: context.now_s() > 0.7),
        (["opened", "ready", "hang"], lambda context: context.now_s() > 0.7),
    ],
)
def test_stop_is_heard_in_every_state_and_no_process_is_left(cpu, canned, plan, stop):
    canned(*plan)
    before = children()
    run_sharing(SPEC, cpu, RealTimeContext(stop))
    assert children() == before


def test_memory_that_others_hold_is_not_asked_for(cpu, canned, monkeypatch):
    free_mib = 2 * sharing.LEFT_MIB + 3.0
    full = replace(cpu.memory(), device_free_mib=free_mib)
    monkeypatch.setattr(cpu, "memory", lambda: full)
    canned(*WELL)
    context = RealTimeContext()
    run_sharing(SPEC, cpu, context)
    assert [event.data["allocated_mib"] for event in context.events("allocation")] == [4.0, 3.0]
