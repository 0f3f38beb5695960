"""Shares of a work in several processes."""

import gc
import os
import signal

import numpy as np
import pytest

from rigproof.cli.shares import LARGE, PROCESSES_MAX, processes_for, side_by_side
from rigproof.host.garbage import without_collections


def test_each_share_comes_back_from_a_process_of_its_own_in_their_order():
    first, *others = side_by_side(
        [lambda place=place: (place, os.getpid(), "x" * 2**20) for place in range(4)]
    )
    assert first[:2] == (0, os.getpid())
    assert [place for place, _, _ in others] == [1, 2, 3]
    assert len({os.getpid(), *(process for _, process, _ in others)}) == 4
    assert all(text == "x" * 2**20 for _, _, text in others)


def test_one_share_is_done_here():
    assert side_by_side([os.getpid]) == [os.getpid()]


def test_the_share_of_a_child_that_died_is_done_here():
    parent = os.getpid()

    def dying():
        return 2 if os.getpid() == parent else os._exit(9)

    assert side_by_side([lambda: 1, dying, lambda: 3]) == [1, 2, 3]


def test_an_error_here_leaves_no_child_behind_whatever_signals_mean_here():
    def fail():
        raise KeyError("here")

    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        with pytest.raises(KeyError, match="here"):
            side_by_side([fail, *[lambda: os.read(os.pipe()[0], 1)] * 2])
    finally:
        signal.signal(signal.SIGTERM, before)


def test_little_is_done_by_one_and_much_by_as_many_as_pay(monkeypatch):
    cpus = set(range(4))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: cpus)
    assert processes_for(LARGE - 1) == 1
    assert processes_for(LARGE) == 2
    assert processes_for(3 * LARGE) == processes_for(100 * LARGE) == 4
    cpus.update(range(64))
    assert processes_for(100 * LARGE) == PROCESSES_MAX
    cpus.intersection_update({0})
    assert processes_for(100 * LARGE) == 1


def test_collections_go_on_afterwards():
    assert gc.isenabled()
    with without_collections():
        assert not gc.isenabled()
    assert gc.isenabled()


@pytest.mark.parametrize("memfd", [True, False])
def test_arrays_come_back_as_they_were_and_can_be_written_to(memfd, monkeypatch):
    if not memfd:  # as on macOS
        monkeypatch.delattr(os, "memfd_create")
    made = {
        "odd": np.arange(3, dtype=np.uint8),
        "numbers": np.linspace(0.0, 1.0, 2**18),
        "none": np.zeros(0),
        "objects": np.array([None, "text"], np.object_),
        "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    }
    here, there = side_by_side([lambda: made, lambda: made])
    assert here is made
    assert there.keys() == made.keys()
    for name, array in there.items():
        np.testing.assert_array_equal(array, made[name])
        assert array.flags.aligned
        array[...] = array[::-1]


def test_the_share_of_a_child_that_raised_an_error_is_done_here(capfd):
    parent = os.getpid()

    def fail():
        if os.getpid() != parent:
            raise KeyError("there")
        return 2

    assert side_by_side([lambda: 1, fail]) == [1, 2]
    assert capfd.readouterr() == ("", "")


def test_an_error_that_both_raise_reaches_the_caller():
    def fail():
        raise KeyError("both")

    with pytest.raises(KeyError, match="both"):
        side_by_side([lambda: 1, fail])
