"""One run at a time has a host, whoever else may have made or written the file of its lock."""

import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from rigproof.host import run_lock
from rigproof.host.run_lock import FILE, UNKNOWN, VARIABLE, Claim, HostLock, unusable

FIRST = Claim("run-a", "box", 4242, "ml", 1_764_000_000.0, "/srv/reports/runs/run-a")
SECOND = replace(FIRST, run_id="run-b", pid=4343)


@pytest.fixture
def lock(tmp_path):
    """Makes locks of one host."""
    made = []

    def make():
        made.append(HostLock({VARIABLE: str(tmp_path)}))
        return made[-1]

    yield make
    for one in made:
        one.release()


def test_the_second_run_is_told_who_has_the_host_and_gets_it_afterwards(lock):
    first, second = lock(), lock()
    assert first.take(FIRST) is None
    assert first.take(FIRST) is None
    assert second.take(SECOND) == FIRST
    first.release()
    assert second.take(SECOND) is None
    assert first.take(FIRST) == SECOND


def test_agents_of_one_run_on_one_host_do_not_exclude_each_other(lock):
    assert lock().take(FIRST) is None
    assert lock().take(FIRST) is None


def test_a_claim_names_its_process_user_host_time_and_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    claim = Claim.of("run-a", Path("reports/runs/run-a"))
    assert claim.pid == os.getpid()
    assert str(claim).startswith(f"pid {os.getpid()} of user ")
    assert str(claim).endswith(f"which writes to {tmp_path}/reports/runs/run-a")


def test_a_killed_holder_leaves_the_host_free(lock, tmp_path):
    code = """
        import sys
        from rigproof.host.run_lock import Claim, HostLock
        lock = HostLock()
        assert lock.take(Claim("run-k", "box", 1, "ml", 0.0, "/k")) is None
        print("has it", flush=True)
        sys.stdin.read()
    """
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, VARIABLE: str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout.readline() == "has it\n"
    held = lock().take(FIRST)
    holder.kill()
    holder.communicate()
    assert held.run_id == "run-k"
    assert lock().take(FIRST) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"pid": 1}',
        b"\xff" * 9000,
        b'{"run_id":"r","host":"h","pid":"x","user":"u","since_s":0,"folder":"f"}',
        b'{"run_id":"r","host":"h","pid":1,"user":"u","since_s":1e300,"folder":"f"}',
    ],
)
def test_a_holder_that_does_not_say_who_it_is_still_has_the_host(lock, tmp_path, content):
    assert lock().take(FIRST) is None
    (tmp_path / FILE).write_bytes(content)
    assert lock().take(SECOND) == UNKNOWN


def test_what_the_file_says_cannot_paint_the_terminal(lock, tmp_path):
    assert lock().take(replace(FIRST, folder="/a\x1b[2Jb\nc")) is None
    assert str(lock().take(SECOND)).endswith("which writes to /a\\x1b[2Jb\\nc")


def test_every_user_may_write_the_file_whatever_the_umask(lock, tmp_path):
    before = os.umask(0o077)
    try:
        assert lock().take(FIRST) is None
    finally:
        os.umask(before)
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o666


def test_a_file_that_may_only_be_read_is_locked_all_the_same(lock, tmp_path, monkeypatch):
    (tmp_path / FILE).write_text("")
    real = os.open

    def as_another_user(path, flags, *mode):
        if flags & os.O_RDWR:
            raise PermissionError(13, "not yours", str(path))
        return real(path, flags, *mode)

    monkeypatch.setattr(run_lock.os, "open", as_another_user)
    first = lock()
    assert first.take(FIRST) is None
    assert lock().take(SECOND) == UNKNOWN


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "nowhere"])
def test_where_it_cannot_be_locked_a_run_goes_on_without(lock, tmp_path, kind):
    """A link would have us write into another file; a pipe would hang."""
    path = tmp_path / FILE
    match kind:
        case "link":
            (tmp_path / "other").write_text("kept")
            path.symlink_to(tmp_path / "other")
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "nowhere":
            tmp_path.rmdir()
    assert lock().take(FIRST) is None
    assert lock().take(SECOND) is None
    assert kind != "link" or (tmp_path / "other").read_text() == "kept"


@pytest.mark.parametrize(("times", "held"), [(1, True), (2, True), (3, False)])
def test_a_file_that_is_removed_before_it_is_locked_is_made_anew(lock, monkeypatch, times, held):
    """The third time nobody waits any longer: something else is wrong with the folder."""
    first, real = lock(), run_lock._opened
    removed = []

    def opened(path):
        found = real(path)
        if len(removed) < times:
            removed.append(path)
            path.unlink()
        return found

    monkeypatch.setattr(run_lock, "_opened", opened)
    assert first.take(FIRST) is None
    assert lock().take(SECOND) == (FIRST if held else None)


def test_a_folder_that_was_named_and_cannot_be_used_is_known_before_a_run(tmp_path):
    (tmp_path / "no file" / FILE).mkdir(parents=True)
    assert unusable({}) == unusable({VARIABLE: ""}) == unusable({VARIABLE: str(tmp_path)}) == ""
    assert unusable({VARIABLE: str(tmp_path / "nowhere")}) == "No such file or directory"
    assert unusable({VARIABLE: str(tmp_path / "no file")}) == "Is a directory"


def test_the_folder_is_the_first_in_which_all_users_may_write(tmp_path, monkeypatch):
    closed, everybodys = tmp_path / "closed", tmp_path / "everybodys"
    closed.mkdir(mode=0o755)
    everybodys.mkdir()
    everybodys.chmod(0o1777)
    monkeypatch.setattr(run_lock, "FOLDERS", (tmp_path / "absent", closed, everybodys))
    lock = HostLock({})
    assert lock.take(FIRST) is None
    assert (everybodys / FILE).exists()
    lock.release()
