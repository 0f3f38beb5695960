"""Whose a pid is, by /proc: this process by its real one, others by a made one."""

import getpass
import os
from pathlib import Path

from rigproof.host.processes import Who, user_name, who_is


def test_this_process_is_known_by_its_user_program_and_parents() -> None:
    found = who_is(os.getpid())
    assert found.user == getpass.getuser()
    assert found.name
    assert found.parents[0] == os.getppid()


def test_a_pid_that_is_not_there_keeps_nothing() -> None:
    assert who_is(2**22 + 5) == Who()


def test_a_name_cannot_pass_for_the_text_around_it(tmp_path: Path) -> None:
    for pid, parent, name in ((7, 6, "x), user root (y"), (6, 0, "init")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "comm").write_text(f"{name}\n")
        (tmp_path / str(pid) / "stat").write_text(f"{pid} ({name}) S {parent} 1 1 0")
    found = who_is(7, tmp_path)
    assert (found.name, found.parents) == ("x___user_root__y", (6,))


def test_a_user_without_a_name_is_a_number() -> None:
    assert user_name(2**31 - 7) == f"uid {2**31 - 7}"
