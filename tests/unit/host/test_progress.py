"""How far a process came in its step is known to its worker at any time, also once it is dead."""

import pytest

from rigproof.host.progress import FILE, Progress, ProgressFile


@pytest.fixture
def both(monkeypatch):
    """A process, and what its worker reads."""
    with ProgressFile() as read:
        monkeypatch.setenv(FILE, read.path)
        yield Progress(), read


def test_a_process_inside_an_operation_has_an_odd_number(both):
    progress, read = both
    seen = [read.halves()]
    for _ in range(2):
        with progress.operation():
            seen.append(read.halves())
        seen.append(read.halves())
    assert seen == [0, 1, 2, 3, 4]
    progress.begin_step()
    assert read.halves() == 0


def test_what_was_counted_stays_when_the_process_is_gone(both):
    progress, read = both
    for _ in range(700):
        with progress.operation():
            pass
    del progress
    assert read.halves() == 1400


@pytest.mark.parametrize("path", ["", "/nowhere/at/all"])
def test_without_a_worker_it_counts_for_nobody(monkeypatch, path):
    monkeypatch.setenv(FILE, path)
    with Progress().operation():
        pass
