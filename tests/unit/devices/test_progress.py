"""How far a process came in its step is known to its worker at any time, also once it is dead."""

import pytest

from rigproof.devices.progress import FILE, Progress, ProgressFile


@pytest.fixture
def both(monkeypatch):
    """A process, and what its worker reads."""
    with ProgressFile() as read:
        monkeypatch.setenv(FILE, read.path)
        yield Progress(), read


def test_an_operation_that_blocks_its_host_is_odd_inside_and_one_that_is_queued_is_not(both):
    progress, read = both
    seen = [read.halves()]
    for blocks in (True, False, True):
        with progress.operation(blocks=blocks):
            seen.append(read.halves())
        seen.append(read.halves())
    assert seen == [0, 1, 2, 2, 4, 5, 6]
    progress.begin_step()
    assert read.halves() == 0


def test_what_was_counted_stays_when_the_process_is_gone(both):
    progress, read = both
    for _ in range(700):
        with progress.operation(blocks=False):
            pass
    del progress
    assert read.halves() == 1400


def test_without_a_worker_it_counts_for_nobody(monkeypatch):
    monkeypatch.delenv(FILE, raising=False)
    with Progress().operation(blocks=True):
        pass
