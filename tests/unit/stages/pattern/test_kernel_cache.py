"""Triton's compiled kernels: in a folder of our own, which goes away, also after a kill."""

import os
import tempfile
from pathlib import Path

import pytest

from rigproof.stages.pattern.choosing import LOCK, PREFIX, VARIABLE, own_kernel_cache, remove_left


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path


def test_it_is_there_meanwhile_and_removed_afterwards(folder):
    with own_kernel_cache():
        own = Path(os.environ[VARIABLE])
        assert own.parent == folder
        (own / "kernel.cubin").write_text("")
    assert not list(folder.iterdir())
    assert VARIABLE not in os.environ


def test_it_is_removed_after_an_error(folder):
    with pytest.raises(RuntimeError), own_kernel_cache():
        raise RuntimeError
    assert not list(folder.iterdir())
    assert VARIABLE not in os.environ


def test_the_users_own_choice_is_kept(folder, monkeypatch):
    monkeypatch.setenv(VARIABLE, "/somewhere")
    with own_kernel_cache():
        assert os.environ[VARIABLE] == "/somewhere"
    assert os.environ[VARIABLE] == "/somewhere"
    assert not list(folder.iterdir())


def test_what_a_killed_process_left_is_removed_and_what_is_in_use_is_not(folder):
    left, foreign = folder / f"{PREFIX}left", folder / f"{PREFIX}unlocked"
    left.mkdir()
    (left / LOCK).write_text("")
    foreign.mkdir()  # without a lock: somebody has just made it
    with own_kernel_cache():
        own = Path(os.environ[VARIABLE])
        remove_left()
        assert own.exists()
        assert not left.exists()
        assert foreign.exists()
