import getpass
import os
import signal
import subprocess
import sys

import pytest

from rigproof.host import processes
from rigproof.host.processes import ProcessId, Who, user_name, who_is


def sleeper(*more, **options):
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", *more], **options)


def stat(folder, pid, name, parent, ticks, state="S"):
    fields = [state, str(parent), *["0"] * 17, str(ticks), "0"]
    (folder / str(pid)).mkdir()
    (folder / str(pid) / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")


def test_a_frozen_process_is_alive_and_can_be_killed():
    child = sleeper()
    found = processes.process_id(child.pid)
    child.send_signal(signal.SIGSTOP)
    assert processes.alive(found)
    assert processes.kill(found)
    child.wait(30)
    assert processes.wait_gone([found], 30) == ()


def test_a_process_of_the_same_id_but_another_start_is_never_killed():
    child = sleeper()
    found = processes.process_id(child.pid)
    assert not processes.kill(ProcessId(child.pid, found.start_ticks - 1))
    assert child.poll() is None
    child.kill()
    child.wait(30)


@pytest.mark.parametrize("error", [ProcessLookupError, PermissionError])
def test_a_process_that_cannot_be_killed_was_not(monkeypatch, error):
    def kill(pid, number):
        raise error

    monkeypatch.setattr(os, "kill", kill)
    assert not processes.kill(processes.own_process())


def test_one_that_waits_to_be_reaped_is_gone():
    child = sleeper()
    found = processes.process_id(child.pid)
    child.kill()
    assert processes.wait_gone([found], 30) == ()
    child.wait(30)


def test_what_does_not_end_is_named():
    assert processes.wait_gone([processes.own_process()], 0.0) == (processes.own_process(),)


def test_descendants_through_names_with_brackets(tmp_path):
    stat(tmp_path, 10, "raylet", 1, 100)
    stat(tmp_path, 11, "ray::A (x) y)", 10, 110)
    stat(tmp_path, 12, "sleeper", 11, 120)
    stat(tmp_path, 13, "other", 1, 130)
    (tmp_path / "self").mkdir()
    assert processes.descendants({10}, tmp_path) == {ProcessId(11, 110), ProcessId(12, 120)}
    assert processes.descendants(set(), tmp_path) == frozenset()


def test_a_zombie_is_no_process(tmp_path):
    stat(tmp_path, 10, "gone", 1, 100, state="Z")
    assert processes.process_id(10, tmp_path) is None
    assert processes.process_id(99, tmp_path) is None


def test_processes_found_by_what_their_command_names():
    child = sleeper("a-mark-that-nothing-else-has")
    try:
        while not (found := processes.naming("a-mark-that-nothing-else-has")):
            assert child.poll() is None  # between fork and exec it still has our command line
        assert found == {processes.process_id(child.pid)}
        assert os.getpid() not in {found.pid for found in processes.naming("python")}
    finally:
        child.kill()
        child.wait(30)


def test_a_command_of_another_session_is_somebody_elses():
    other = sleeper("another-mark", start_new_session=True)
    ours = sleeper("another-mark")
    try:
        while processes.process_id(ours.pid) not in (found := processes.naming("another-mark")):
            assert ours.poll() is None
        assert other.pid not in {process.pid for process in found}
    finally:
        for child in (other, ours):
            child.kill()
            child.wait(30)


def test_this_process_is_known_by_its_user_program_and_parents():
    found = who_is(os.getpid())
    assert found.user == getpass.getuser()
    assert found.name
    assert found.parents[0] == os.getppid()


def test_a_pid_that_is_not_there_keeps_nothing():
    assert who_is(2**22 + 5) == Who()


def test_a_name_cannot_pass_for_the_text_around_it(tmp_path):
    for pid, parent, name in ((7, 6, "x), user root (y"), (6, 0, "init")):
        stat(tmp_path, pid, name, parent, 1)
        (tmp_path / str(pid) / "comm").write_text(name + "\n")
    found = who_is(7, tmp_path)
    assert (found.name, found.parents) == ("x___user_root__y", (6,))


def test_a_user_without_a_name_is_a_number():
    assert user_name(2**31 - 7) == f"uid {2**31 - 7}"
