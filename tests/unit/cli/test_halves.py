"""Two halves of a work in two processes."""

import gc
import os
import signal

import pytest

from rigproof.cli.halves import LARGE, side_by_side, two_are_better, without_collections


def test_both_halves_come_back_from_two_processes():
    here, there = side_by_side(os.getpid, lambda: (os.getpid(), "x" * 2**20))
    assert here == os.getpid()
    assert there[0] != here
    assert there[1] == "x" * 2**20


def test_the_half_of_a_child_that_died_is_done_here():
    parent = os.getpid()
    assert side_by_side(lambda: 1, lambda: 2 if os.getpid() == parent else os._exit(9)) == (1, 2)


def test_an_error_here_leaves_no_child_behind_whatever_signals_mean_here():
    def fail():
        raise KeyError("here")

    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        with pytest.raises(KeyError, match="here"):
            side_by_side(fail, lambda: os.read(os.pipe()[0], 1))
    finally:
        signal.signal(signal.SIGTERM, before)


def test_little_is_done_by_one(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    assert two_are_better(LARGE)
    assert not two_are_better(LARGE - 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0})
    assert not two_are_better(LARGE)


def test_collections_go_on_afterwards():
    assert gc.isenabled()
    with without_collections():
        assert not gc.isenabled()
    assert gc.isenabled()
