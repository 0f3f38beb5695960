"""An agent's black box: on the disk when it says so, locked while it is written, and bounded."""

import stat
import threading

import pytest

from rigproof.cluster.actors import black_box
from rigproof.cluster.actors.black_box import BlackBox
from rigproof.cluster.actors.state_folder import make_folder, runs_of, this_host
from rigproof.records.black_box import FINISHED, Moment, read_box
from support.last_words import head_of

PATIENCE_S = 60.0


@pytest.fixture
def open_box(tmp_path):
    """Opens boxes of a run; they are closed at the test's end."""
    folder = tmp_path / this_host().name
    make_folder(folder)
    boxes = []

    def opened(line=lambda: Moment(1.0, 2.0)):
        boxes.append(BlackBox(folder, head_of("run-1"), line))
        boxes[-1].open()
        return boxes[-1], folder

    yield opened
    for box in boxes:
        box.close(FINISHED, PATIENCE_S)


def only(folder):
    (path,) = folder.glob("*.jsonl")
    return path


def test_it_holds_a_line_from_the_start_and_is_for_this_user_alone(open_box):
    _, folder = open_box()
    assert read_box(only(folder).read_bytes()).last == Moment(1.0, 2.0)
    assert stat.S_IMODE(only(folder).stat().st_mode) == 0o600


def test_a_marker_is_on_the_disk_when_it_returns(open_box):
    now = [Moment(1.0, 2.0)]
    box, folder = open_box(lambda: now[0])
    now[0] = Moment(5.0, 6.0, "sustained", 5.0)
    assert box.mark(PATIENCE_S)
    assert read_box(only(folder).read_bytes()).last == now[0]


def test_it_writes_by_itself(open_box, monkeypatch):
    monkeypatch.setattr(black_box, "EVERY_S", 0.01)
    asked = threading.Semaphore(0)

    def line():
        asked.release()
        return Moment(1.0, 2.0)

    open_box(line)
    assert all(asked.acquire(timeout=PATIENCE_S) for _ in range(5))


def test_it_is_held_until_it_is_closed_and_says_how_then(open_box, tmp_path):
    box, folder = open_box()
    assert runs_of(this_host(), folder)[0].going_on
    assert box.close(FINISHED, PATIENCE_S)
    box._thread.join(PATIENCE_S)
    (run,) = runs_of(this_host(), folder)
    assert (run.going_on, run.box.end) == (False, FINISHED)
    assert not box.mark(PATIENCE_S)  # at once: nobody writes any more


def test_it_is_begun_anew_before_it_grows_too_large_and_stays_held(open_box, monkeypatch):
    monkeypatch.setattr(black_box, "BOX_BYTES", 2000)
    monkeypatch.setattr(black_box, "LINES_KEPT", 3)
    count = iter(range(1000))
    box, folder = open_box(lambda: Moment(float(next(count)), 2.0))
    for _ in range(200):
        assert box.mark(PATIENCE_S)
        assert only(folder).stat().st_size <= 2000
    found = read_box(only(folder).read_bytes())
    assert found.head == head_of("run-1")
    assert found.last.t_s >= 200
    assert runs_of(this_host(), folder)[0].going_on
    assert not list(folder.glob("*.part"))


def test_a_disk_that_fails_is_an_error_and_no_exception(open_box, monkeypatch):
    box, _ = open_box()

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(black_box.os, "fsync", full)
    assert not box.mark(PATIENCE_S)
    assert "No space left" in box.error
    assert not box.mark(PATIENCE_S)


def test_a_disk_that_stands_still_costs_a_marker_its_time_and_nothing_else(open_box, monkeypatch):
    box, _ = open_box()
    released = threading.Event()
    monkeypatch.setattr(black_box.os, "fsync", lambda _descriptor: released.wait(PATIENCE_S))
    assert not box.mark(0.05)
    assert box.error is None
    released.set()
    assert box.mark(PATIENCE_S)


def test_a_folder_that_takes_no_file_is_reported_at_once(tmp_path):
    with pytest.raises(OSError, match="absent"):
        BlackBox(tmp_path / "absent", head_of("run-1"), lambda: Moment(1.0, 2.0)).open()
