"""The process that tests memory, as its worker sees it, and its copies."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from rigproof.devices.reporting import Reporter
from rigproof.records.measurements import Round
from rigproof.stages.ram import workload
from rigproof.stages.ram.patterns import PinnedThreads, taken
from rigproof.stages.ram.stage import RamSpec, RamTest
from rigproof.stages.ram.workload import Copies, RamWork
from support.devices import NodeContext

SPEC = RamSpec(
    "ram",
    threads=1,
    buffer_mib=1.0,
    reserve_mib=10.0,
    reserve_share=0.9,
    least_mib=1.0,
    duration_s=0.5,
    round_s=0.01,
)


def test_a_host_is_measured_by_a_process_of_its_own():
    """On a busy machine, too: whatever is free, only its tenth beyond nine tenths is taken."""
    context = NodeContext()
    SPEC.run(None, context)
    assert {one.subject for one in context.records} == {"host"}
    [test] = [one for one in context.records if isinstance(one, RamTest)]
    assert test.reserve_mib == pytest.approx(0.9 * test.total_mib)
    assert test.wrong == 0
    rounds = [one for one in context.records if isinstance(one, Round)]
    assert all(one.verified and one.unit == "GB" for one in rounds)
    assert {one.label("operation") for one in rounds} <= {"copy", "fill", "verify"}


def test_a_process_that_is_silent_is_given_up(monkeypatch):
    monkeypatch.setattr(workload, "STALL_S", 0.2)
    monkeypatch.setattr(workload, "MODULE", "rigproof.telemetry.responsiveness")
    with pytest.raises(RuntimeError, match=r"the memory test was silent for 0.2 s"):
        SPEC.run(None, NodeContext())


@pytest.fixture
def copies():
    context = NodeContext()
    made = Copies(PinnedThreads(2), 8.0, Reporter(context, "ram", "host"))
    made.context = context
    return made


def test_copies_are_counted_twice_and_compared(copies):
    for _ in range(2):
        copies.round(0.02)
    first, second = copies.context.rounds
    assert (first.phase, first.verified, second.phase, second.verified) == ("warmup", True, "measure", True)
    assert first.work == pytest.approx(2 * 8.0 * 2**20 / 1e9)
    copies.round(50 * first.seconds)  # for which many copies are due next time, in an odd number
    copies.round(0.001)
    copied = copies.context.rounds[-1].work / first.work
    assert copied > 3
    assert copied % 2 == pytest.approx(1)
    copies.compare()
    assert not copies.context.events("ram_error")
    copies._parts[1][0][7] ^= np.uint64(1)
    copies.compare()
    [event] = copies.context.events("ram_error")
    assert event.data["count"] == 1
    assert [(one["offset"], one["bits"], one["content"]) for one in event.data["words"]] == [
        (56, [0], "copy")
    ]


def test_a_copy_that_did_not_happen_is_not_verified(copies, monkeypatch):
    copies.round(0.01)
    monkeypatch.setattr(np, "copyto", lambda target, source: None)
    copies.round(0.01)
    assert [one.verified for one in copies.context.rounds] == [True, False]


@pytest.mark.parametrize("wrong_copy", [1, 2, 3])
def test_a_copy_that_arrived_wrong_shows_in_all_that_follow(copies, monkeypatch, wrong_copy):
    """Each copy is made of the one before, so that none overwrites what another got wrong."""
    copies._repeats, done, copyto = 3, itertools.count(1), np.copyto

    def wrong_once(target, source):
        copyto(target, source)
        if next(done) == wrong_copy:
            target[7] ^= np.uint64(2)

    monkeypatch.setattr(np, "copyto", wrong_once)
    copies.round(1e-9)
    copies.round(1e-9)
    copies.compare()
    [event] = copies.context.events("ram_error")
    [word] = event.data["words"]
    assert (event.data["count"], word["offset"], word["bits"]) == (1, 56, [1])


@pytest.mark.parametrize(
    ("buffer_mib", "said"), [(2.0**40, "copies need 2 × "), (8.0, "the kernel refused 2 × ")]
)
def test_copies_for_which_there_is_no_memory_are_left_out(monkeypatch, buffer_mib, said):
    """Because others hold it, or because the kernel refuses it."""
    context = NodeContext()
    monkeypatch.setattr(workload, "cache_mib", lambda: 0.0)
    monkeypatch.setattr(workload, "taken", lambda mib: taken(2**40))
    RamWork(replace(SPEC, buffer_mib=buffer_mib, reserve_mib=1.0, reserve_share=0.01), context)._copy(0.0)
    [event] = context.events("ram_short")
    assert event.message.startswith(said)
    assert not context.rounds
