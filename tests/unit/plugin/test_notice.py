"""The command at the end of a run: what it is given, and that it can neither hang the run nor change it."""

import os
from pathlib import Path

import pytest

from rigproof.plugin import notice
from rigproof.plugin.notice import notify, unreadable


def test_it_reads_the_text_and_the_variables_and_says_nothing(tmp_path):
    command = f'printf "%s " "$RIGPROOF_VERDICT" > {tmp_path}/a; cat >> {tmp_path}/a'
    assert notify(command, "lab ACCEPTED: gut – ü\n", {"RIGPROOF_VERDICT": "ACCEPTED"}) == ""
    assert (tmp_path / "a").read_text() == "ACCEPTED lab ACCEPTED: gut – ü\n"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("exit 3", "notify: `exit 3` ended with exit status 3"),
        ("echo one; echo two >&2; false", "ended with exit status 1: two"),
        ("nosuchprogram 2>/dev/null", "ended with exit status 127"),
        ("kill -9 $$", "ended with exit status -9"),
        ("printf 'a\\033[2Jb'; false", r": a\x1b[2Jb"),
    ],
)
def test_a_failure_is_a_line_with_the_command_and_what_it_said_last(command, said):
    line = notify(command, "", {})
    assert line.endswith(said)
    assert line.isprintable()


def test_one_that_does_not_end_is_killed_with_what_it_started(monkeypatch, tmp_path):
    monkeypatch.setattr(notice, "LIMIT_S", 1.0)
    line = notify(f"sleep 1000 & echo $! > {tmp_path}/pid; wait", "", {})
    assert line.endswith(" did not end within 1 s, and was killed")
    child = int((tmp_path / "pid").read_text())
    while lives(child):  # a killed process is gone once somebody has reaped it
        os.sched_yield()


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_it_has_none_of_this_process_s_files(tmp_path):
    """Such as the lock of the host, which would be held as long as it lives."""
    with (tmp_path / "held").open("w") as held:
        os.set_inheritable(held.fileno(), True)
        notify(f"ls -l /proc/self/fd > {tmp_path}/files", "", {})
    assert str(tmp_path / "held") not in (tmp_path / "files").read_text()


def test_what_cannot_be_started_is_a_line_too(monkeypatch):
    monkeypatch.setattr(notice, "SHELL", ("/nonexistent", "-c"))
    assert notify("true", "", {}) == "notify: `true` could not be started: No such file or directory"


@pytest.mark.parametrize(
    "command",
    [
        "true",
        "true && b | c; d",
        "x=$(cat); echo $x",
        "if true; then echo; fi",
        "$HOME/hook.sh",
        '"/a b/c" x',
        "/bin/sh -c true",
        "X=1 nosuchprogram",
    ],
)
def test_what_a_shell_can_read_is_accepted_and_not_run(command):
    assert unreadable(command) == ""


@pytest.mark.parametrize("command", ['echo "', "if true", "a | | b", "$("])
def test_what_it_cannot_read_is_refused(command):
    assert unreadable(command)


@pytest.mark.parametrize(
    ("command", "first"),
    [("nosuchprogram -s x", "nosuchprogram"), ("/nonexistent/hook.sh", "/nonexistent/hook.sh")],
)
def test_a_program_that_is_not_there_is_noticed_before_the_night(command, first):
    assert unreadable(command) == f"there is no program {first} here"
