"""Patterns in free memory: how much is taken, when it is returned, and what is said of a wrong word."""

import gc
import itertools
import time
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rigproof.devices.reporting import Reporter
from rigproof.host.proc import Memory
from rigproof.stages.ram import patterns, workload
from rigproof.stages.ram.patterns import (
    MIB,
    TILE_WORDS,
    Pattern,
    PatternTest,
    PinnedThreads,
    Room,
    Wrong,
    in_words,
    taken,
)
from rigproof.stages.ram.stage import PATTERNS, RamSpec, RamTest
from support.devices import NodeContext

WORDS = 3 * TILE_WORDS + 17


def filled(pattern, first=0):
    words = np.zeros(WORDS, np.uint64)
    pattern.fill(words, first)
    return words


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("first", [0, 5 * TILE_WORDS])
def test_what_was_written_is_right(name, first):
    pattern = Pattern(name, 3)
    assert pattern.verify(filled(pattern, first), first) == (0, [])


@settings(max_examples=30, deadline=None)
@given(name=st.sampled_from(PATTERNS), at=st.integers(0, WORDS - 1), bit=st.integers(0, 63))
def test_any_bit_that_differs_is_found_with_its_place(name, at, bit):
    pattern, first = Pattern(name, 1), 2 * TILE_WORDS
    words = filled(pattern, first)
    expected = int(words[at])
    words[at] ^= np.uint64(1 << bit)
    number, [wrong] = pattern.verify(words, first)
    assert number == 1
    assert wrong == Wrong(first + at, expected, expected ^ (1 << bit))
    assert wrong.entry(name, hard=True, physical=None) == {
        "offset": 8 * (first + at),
        "expected": f"{expected:016x}",
        "read": f"{expected ^ (1 << bit):016x}",
        "bits": [bit],
        "content": name,
        "hard": True,
        "physical": None,
    }


def test_all_wrong_words_are_counted_and_the_first_ones_named():
    pattern = Pattern("random", 1)
    words = filled(pattern)
    words[::1000] += np.uint64(1)
    number, found = pattern.verify(words, 0, 4)
    assert number == len(words[::1000])
    assert [one.place for one in found] == [0, 1000, 2000, 3000]


def test_every_bit_is_0_and_1_between_random_and_complement():
    random, complement = (filled(Pattern(name, 7)) for name in ("random", "complement"))
    assert (random == ~complement).all()
    tile = random[:TILE_WORDS]
    assert (np.bitwise_or.reduce(tile), np.bitwise_and.reduce(tile)) == (2**64 - 1, 0)


@pytest.mark.parametrize("name", PATTERNS)
def test_tiles_differ_and_so_do_random_words_by_their_seed(name):
    """Otherwise memory at the wrong address would look right."""
    first, second = (filled(Pattern(name, seed)) for seed in (1, 2))
    assert (first[:TILE_WORDS] != first[TILE_WORDS : 2 * TILE_WORDS]).all()
    assert (first != second).all() or name == "address"


def test_a_word_that_shows_another_ones_address_is_wrong():
    """As with an address line that is stuck."""
    words = filled(Pattern("address", 0))
    assert (words == np.arange(WORDS)).all()
    words[2**14] = words[0]
    assert Pattern("address", 0).verify(words, 0) == (1, [Wrong(2**14, 2**14, 0)])


class Host:
    """A host's memory: what is free falls by what the test holds, and by what others take."""

    def __init__(self, monkeypatch):
        self.free_mib = 300.0
        self.held = []
        self.asked = 0
        self.others_mib = itertools.repeat(0.0)
        self.context = NodeContext()
        monkeypatch.setattr(patterns, "taken", self.taken)

    def taken(self, mib):
        words = taken(mib)
        self.held.append(weakref.ref(words))
        return words

    @property
    def held_mib(self):
        return sum(words.nbytes for one in self.held if (words := one()) is not None) / MIB

    def usable(self):
        self.asked += 1
        return Memory(1000.0, 0.0, self.free_mib - self.held_mib - next(self.others_mib), 0.0)

    def test(self, reserve_mib=200.0, reserve_share=0.1):
        """Test for 0.6 s; all memory is returned."""
        room = Room(reserve_mib, reserve_share, self.usable)
        reporter = Reporter(self.context, "ram", "host")
        test = PatternTest(PinnedThreads(2), room, reporter, cache_mib=1.0, least_mib=64.0)
        test.run(0.6)
        gc.collect()
        assert not self.held_mib
        return test


@pytest.fixture
def host(monkeypatch):
    return Host(monkeypatch)


def test_it_takes_what_is_free_beside_the_reserve_and_no_more(host):
    test = host.test()
    assert 80 <= test.tested_mib <= 100
    assert (test.wrong, test.cut_short) == (0, "")
    assert test.passes >= 3
    done = [(one.label("operation"), one.label("content")) for one in host.context.rounds]
    assert done[:6] == [(operation, name) for name in PATTERNS for operation in ("fill", "verify")]
    gb = pytest.approx(test.tested_mib * MIB / 1e9)
    assert all((one.verified, one.work, one.label("threads")) == (True, gb, 2) for one in host.context.rounds)


@pytest.mark.parametrize(("mib", "got_mib"), [(0.5, 2), (3.9, 2), (4.0, 4)])
def test_memory_is_taken_in_huge_pages(mib, got_mib):
    assert taken(mib).nbytes == got_mib * MIB


def test_the_larger_reserve_counts(host):
    """And 25 MiB are left to each thread, which takes huge pages."""
    assert [host.test(*reserve).tested_mib for reserve in ((50.0, 0.25), (250.0, 0.1))] == [48, 48]


def test_after_copies_all_that_is_free_beside_the_reserve_is_tested(host, monkeypatch):
    monkeypatch.setattr(workload, "Room", lambda mib, share: Room(mib, share, host.usable))
    monkeypatch.setattr(workload, "taken", host.taken)
    monkeypatch.setattr(workload, "cache_mib", lambda: 1.0)
    spec = RamSpec("ram", 1, 1.0, 200.0, 0.1, 64.0, duration_s=0.5, round_s=0.01)
    workload.RamWork(spec, host.context).run()
    [test] = [one for one in host.context.records if isinstance(one, RamTest)]
    assert (test.threads, test.total_mib, test.available_mib, test.reserve_mib) == (1, 1000, 300, 200)
    assert (test.tested_mib, test.cache_mib, test.wrong, test.cut_short) == (100, 1, 0, "")
    assert test.passes >= 3
    operations = [one.label("operation") for one in host.context.rounds]
    assert operations[:5] == ["copy"] * 5
    assert operations.count("verify") == test.passes


def test_nothing_is_tested_where_nothing_is_free(host):
    """As in a container whose limit is nearly reached while the host has plenty."""
    test = host.test(299.0)
    assert (test.tested_mib, test.passes, host.context.rounds) == (0.0, 0, [])


def test_memory_that_the_kernel_refuses_ends_the_taking(host, monkeypatch):
    monkeypatch.setattr(patterns, "taken", lambda mib: taken(2**40))
    test = host.test()
    assert (test.tested_mib, test.cut_short) == (0.0, "the kernel refused more memory")


def test_it_gives_the_last_step_back_if_others_take_memory_meanwhile(host):
    """Of the readings the first two are for the room and the first step."""
    host.others_mib = itertools.chain([0.0, 0.0], itertools.repeat(60.0))
    test = host.test()
    assert (test.tested_mib, test.cut_short) == (0.0, "another program took memory meanwhile")


def test_it_ends_once_half_of_the_reserve_is_gone(host, monkeypatch):
    fill, asked = Pattern.fill, []

    def while_others_take(pattern, words, first):
        fill(pattern, words, first)
        if pattern.name == "random":
            host.others_mib = itertools.repeat(250.0)
            asked.append(host.asked)
            while host.asked == asked[0]:  # once it knows, it does not ask again
                time.sleep(0.01)

    monkeypatch.setattr(Pattern, "fill", while_others_take)
    test = host.test()
    assert (test.passes, test.cut_short) == (1, "another program took memory meanwhile")
    assert [one.label("content") for one in host.context.rounds] == ["address", "address"]


def test_however_slow_memory_is_as_much_is_tested_as_counts(host, monkeypatch):
    monkeypatch.setattr(patterns, "BLOCK_MIB", 8.0)
    monkeypatch.setattr(patterns, "TAKING_SHARE", 0.0)
    assert host.test().tested_mib == 64.0


@pytest.mark.parametrize("again", [True, False])
def test_a_wrong_word_is_located_and_read_once_more(host, monkeypatch, again):
    """It is right when it is read once more, if not `again`."""
    fill, flipped = Pattern.fill, []

    def fill_wrong(pattern, words, first):
        fill(pattern, words, first)
        if pattern.name == "random" and not flipped:
            flipped.append((words, int(words[100])))
            words[100] ^= np.uint64(2**17)

    def displace(test):
        words, right = flipped.pop()
        flipped.append(None)
        if not again:
            words[100] = right

    monkeypatch.setattr(Pattern, "fill", fill_wrong)
    monkeypatch.setattr(PatternTest, "_displace", displace)
    test = host.test()
    assert test.wrong == 1
    [word] = test.words
    assert (word["content"], word["hard"], word["bits"]) == ("random", again, [17])
    assert word["offset"] % TILE_WORDS == 800
    assert [one.label("content") for one in host.context.rounds if not one.verified] == ["random"]


WORD = Wrong(0x3E, 0xFF, 0xFE).entry("random", hard=False, physical=0x2A000)


def test_a_wrong_word_in_words():
    assert in_words(1, [WORD]) == (
        "1 word wrong, the first at offset 0x1f0 (physical address 0x2a000): 00000000000000fe in place of "
        "00000000000000ff, bit 0 (random; soft: right when read again)"
    )
    many = in_words(3, [WORD | {"bits": [1, 2, 3, 4, 5], "hard": True, "physical": None}])
    assert many.startswith("3 words wrong, the first at offset 0x1f0: ")
    assert many.endswith("bits 1, 2, 3, 4, … (random; hard)")
