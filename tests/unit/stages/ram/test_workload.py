"""The process that tests memory, as its worker sees it: for real, and ended in the middle."""

import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rigproof.records.measurements import Round
from rigproof.stages.ram import workload
from rigproof.stages.ram.stage import RamSpec, RamTest
from rigproof.stages.ram.workload import in_words
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
    assert test.tested_mib <= max(0.0, test.available_mib - test.reserve_mib)
    rounds = [one for one in context.records if isinstance(one, Round)]
    assert all(one.verified and one.unit == "GB" for one in rounds)
    assert {one.label("operation") for one in rounds} <= {"copy", "fill", "verify"}


def children():
    found = set()
    for file in Path("/proc/self/task").glob("*/children"):
        found |= {int(one) for one in file.read_text().split()}
    return found


def test_a_process_that_is_killed_says_so_and_returns_its_memory():
    """The kernel ends it first where memory runs out."""
    before, failed = children(), []

    def run():
        try:
            replace(SPEC, duration_s=60.0).run(None, NodeContext())
        except RuntimeError as error:
            failed.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    own = set()
    while not own and thread.is_alive():
        own = {pid for pid in children() - before if is_the_test(pid)}
        time.sleep(0.05)
    for pid in own:
        os.kill(pid, signal.SIGKILL)
    thread.join(30)
    assert failed == [
        "the memory test ended with status -9; the kernel killed it since memory ran out, or somebody did"
    ]


def is_the_test(pid):
    try:
        return b"stages.ram.workload" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_a_worker_that_is_stopped_leaves_no_process():
    before = children()
    SPEC.run(None, NodeContext(lambda context: True))
    assert not {pid for pid in children() - before if is_the_test(pid)}


def test_a_process_that_is_silent_is_given_up(monkeypatch):
    monkeypatch.setattr(workload, "STALL_S", 0.2)
    monkeypatch.setattr(workload, "MODULE", "rigproof.telemetry.sleeper")
    with pytest.raises(RuntimeError, match=r"the memory test was silent for 0.2 s"):
        SPEC.run(None, NodeContext())


WORD = {
    "offset": 0x1F0,
    "expected": "00000000000000ff",
    "read": "00000000000000fe",
    "bits": [0],
    "content": "random",
    "hard": False,
    "physical": 0x2A000,
}


def test_a_wrong_word_in_words():
    assert in_words(1, [WORD]) == (
        "1 word wrong, the first at offset 0x1f0 (physical address 0x2a000): 00000000000000fe in place of "
        "00000000000000ff, bit 0 (random; soft: right when read again)"
    )
    many = in_words(3, [WORD | {"bits": [1, 2, 3, 4, 5], "hard": True, "physical": None}])
    assert many.startswith("3 words wrong, the first at offset 0x1f0: ")
    assert many.endswith("bits 1, 2, 3, 4, … (random; hard)")
