"""The test over free memory: how much it takes, when it backs off, and what it says of a wrong word."""

import itertools

import numpy as np
import pytest

from rigproof.host.proc import Memory
from rigproof.stages.ram import passes
from rigproof.stages.ram.copying import Copies
from rigproof.stages.ram.passes import MemoryTest
from rigproof.stages.ram.patterns import Pattern
from rigproof.stages.ram.room import Block, Room
from rigproof.stages.ram.threads import PinnedThreads
from support.devices import NodeContext

LENGTH_S = 0.6


class Host:
    """A host's memory: what is free falls by what the test holds, and by what others take."""

    def __init__(self, total_mib, free_mib):
        self.total_mib, self.free_mib = total_mib, free_mib
        self.blocks = []
        self.others_mib = itertools.repeat(0.0)

    def usable(self):
        held_mib = sum(block.mib for block in self.blocks) + next(self.others_mib)
        return Memory(self.total_mib, 0.0, self.free_mib - held_mib, 0.0)


@pytest.fixture
def host(monkeypatch):
    made = Host(1000.0, 300.0)

    def block(mib):
        taken = Block(mib)
        made.blocks.append(taken)
        return taken

    monkeypatch.setattr(passes, "Block", block)
    return made


@pytest.fixture
def threads():
    made = PinnedThreads(2)
    yield made
    made.close()


def report_of(host, threads, reserve_mib=200.0, reserve_share=0.1, on_pass=lambda done: None):
    room = Room(reserve_mib, reserve_share, host.usable)
    test = MemoryTest(threads, room, 1.0, 64.0, on_pass, context=NodeContext())
    report = test.run(LENGTH_S)
    assert all(not len(block.words) for block in host.blocks), "all memory is returned"
    return report


def test_it_takes_what_is_free_beside_the_reserve_and_no_more(host, threads):
    done = []
    report = report_of(host, threads, on_pass=done.append)
    assert 80 <= report.tested_mib <= 100
    assert (report.wrong, report.cut_short) == (0, "")
    assert [(one.operation, one.content) for one in done[:6]] == [
        (operation, pattern)
        for pattern in ("address", "random", "complement")
        for operation in ("fill", "verify")
    ]
    assert report.passes >= 3
    assert all(one.verified and one.gb == pytest.approx(report.tested_mib * 2**20 / 1e9) for one in done)


def test_the_larger_reserve_counts(host, threads):
    assert report_of(host, threads, 50.0, 0.25).tested_mib <= 50


def test_nothing_is_tested_where_nothing_is_free(host, threads):
    """As in a container whose limit is nearly reached while the host has plenty."""
    report = report_of(host, threads, 299.0)
    assert (report.tested_mib, report.passes) == (0.0, 0)


def test_memory_that_the_kernel_refuses_ends_the_taking(host, threads, monkeypatch):
    def refused(mib):
        raise MemoryError

    monkeypatch.setattr(passes, "Block", refused)
    report = report_of(host, threads)
    assert (report.tested_mib, report.cut_short) == (0.0, "the kernel refused more memory")


def test_it_gives_the_last_step_back_if_others_take_memory_meanwhile(host, threads):
    """Of the readings the first two are for the room and the first step."""
    host.others_mib = itertools.chain([0.0, 0.0], itertools.repeat(150.0))
    report = report_of(host, threads)
    assert report.cut_short == "another program took memory meanwhile"
    assert report.tested_mib == 0.0


def wrong_report(host, threads, monkeypatch, again):
    """One word is changed after the first pattern was written; `again`: also when it is read once more."""
    fill = Pattern.fill
    flipped = []

    def fill_wrong(pattern, words, place):
        fill(pattern, words, place)
        if pattern.name == "random" and not flipped:
            flipped.append((words, int(words[100])))
            words[100] ^= np.uint64(2**17)

    def displace(test):
        words, right = flipped[0]
        if not again:
            words[100] = right

    monkeypatch.setattr(Pattern, "fill", fill_wrong)
    monkeypatch.setattr(MemoryTest, "_displace", displace)
    return report_of(host, threads)


@pytest.mark.parametrize("again", [True, False])
def test_a_wrong_word_is_located_and_read_once_more(host, threads, monkeypatch, again):
    report = wrong_report(host, threads, monkeypatch, again)
    assert report.wrong == 1
    [located] = report.located
    assert (located.content, located.hard, located.wrong.bits) == ("random", again, (17,))
    assert located.wrong.offset % 8 == 0


def test_copies_are_counted_twice_and_compared(threads):
    copies = Copies(threads, 8.0, NodeContext())
    first, second = copies.round(0.02), copies.round(0.02)
    assert first.verified
    assert second.verified
    assert first.gb == pytest.approx(2 * copies.mib * 2**20 / 1e9)
    copies.round(1000 * first.seconds)  # which is so short that hundreds of copies are due next time
    assert copies._repeats > 3
    assert copies.compare() == (0, [])
    copies._latest[1].words[7] ^= np.uint64(1)
    number, [wrong] = copies.compare()
    assert (number, wrong.place, wrong.bits) == (1, 7, (0,))
    copies.release()


def test_a_copy_that_did_not_happen_is_not_verified(threads, monkeypatch):
    copies = Copies(threads, 8.0, NodeContext())
    copies.round(0.01)
    monkeypatch.setattr(np, "copyto", lambda target, source: None)
    assert not copies.round(0.01).verified
    copies.release()


@pytest.mark.parametrize("wrong_copy", [1, 2, 3])
def test_a_copy_that_arrived_wrong_shows_in_all_that_follow(threads, monkeypatch, wrong_copy):
    """Each copy is made of the one before, so that none overwrites what another got wrong."""
    copies, done = Copies(threads, 8.0, NodeContext()), itertools.count(1)
    copies._repeats = 3
    copyto = np.copyto

    def wrong_once(target, source):
        copyto(target, source)
        if next(done) == wrong_copy:
            target[7] ^= np.uint64(2)

    monkeypatch.setattr(np, "copyto", wrong_once)
    copies.round(1e-9)
    copies.round(1e-9)
    number, [wrong] = copies.compare()
    assert (number, wrong.place, wrong.bits) == (1, 7, (1,))
    copies.release()


def test_however_slow_memory_is_as_much_is_tested_as_counts(host, threads, monkeypatch):
    monkeypatch.setattr(passes, "BLOCK_MIB", 8.0)
    monkeypatch.setattr(passes, "TAKING_SHARE", 0.0)
    assert report_of(host, threads).tested_mib == 64.0
