"""Where a host's last words are: for one user, by host, bounded in number, apart from those still written."""

import fcntl
import os
import stat

import pytest

from rigproof.cluster.actors import state_folder
from rigproof.cluster.actors.state_folder import (
    FILES_KEPT,
    Host,
    file_name,
    host_folder,
    make_folder,
    mark_reported,
    runs_of,
    this_host,
    tidy,
)
from rigproof.records.black_box import FINISHED, End, Head, text_of
from support.last_words import LAST, OTHER_BOOT, head_of, leave

HOST = Host("box", "m")


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"RIGPROOF_STATE_HOME": "/s", "XDG_STATE_HOME": "/x"}, "/s/black-box/box"),
        ({"XDG_STATE_HOME": "/x"}, "/x/rigproof/black-box/box"),
        ({"XDG_STATE_HOME": "x"}, "/home/me/.local/state/rigproof/black-box/box"),
        ({}, "/home/me/.local/state/rigproof/black-box/box"),
    ],
)
def test_the_folder_is_the_stated_one_or_the_user_s(monkeypatch, environment, folder):
    monkeypatch.setenv("HOME", "/home/me")
    assert str(host_folder(HOST, environment)) == folder


def test_a_host_s_name_cannot_lead_elsewhere():
    for name in ("../../etc", "..", "/etc", ""):
        assert (
            host_folder(Host(name, None), {"RIGPROOF_STATE_HOME": "/s"}).parent.as_posix() == "/s/black-box"
        )


def test_the_folder_is_for_this_user_alone_also_where_it_was_not(tmp_path):
    folder = tmp_path / "state" / "black-box" / "box"
    make_folder(folder)
    for one in (folder, folder.parent, folder.parent.parent):
        assert stat.S_IMODE(one.stat().st_mode) == 0o700
    folder.chmod(0o755)
    make_folder(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_what_is_above_it_already_stays_as_it_is(tmp_path):
    """Somebody may name a folder that others use."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    make_folder(host_folder(HOST, {"RIGPROOF_STATE_HOME": str(shared)}))
    assert stat.S_IMODE(shared.stat().st_mode) == 0o1777


def test_a_link_in_its_place_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o755)
    (tmp_path / "box").symlink_to("elsewhere")
    with pytest.raises(OSError, match="box"):
        make_folder(tmp_path / "box")


def test_a_folder_of_somebody_else_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(state_folder.os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(PermissionError, match="another user's"):
        make_folder(tmp_path / "box")


def test_a_file_in_the_folder_s_place_is_an_error(tmp_path):
    (tmp_path / "state").write_text("")
    with pytest.raises(OSError, match="state"):
        make_folder(tmp_path / "state" / "box")


def folder_in(tmp_path):
    return host_folder(this_host(), {"RIGPROOF_STATE_HOME": str(tmp_path)})


def found(tmp_path):
    return runs_of(this_host(), folder_in(tmp_path))


def test_runs_are_found_with_the_words_of_all_their_agents(tmp_path):
    leave(tmp_path, head_of("run-1"))
    leave(tmp_path, head_of("run-1"), [End("SIGTERM")], pid=2)
    leave(tmp_path, head_of("run-2"), [LAST, End(FINISHED)])
    runs = {run.box.head.run_id: run for run in found(tmp_path)}
    assert set(runs) == {"run-1", "run-2"}
    assert len(runs["run-1"].files) == 2
    assert (runs["run-1"].box.last, runs["run-1"].box.end) == (LAST, None)
    assert runs["run-2"].box.end == FINISHED


def test_words_of_other_hosts_and_users_are_left_out(tmp_path, monkeypatch):
    """A home may be on every node of a cluster, and a cloned disk has its model's name or id."""
    own = this_host()
    for name, machine in (("elsewhere", own.machine), (own.name, "another")):
        leave(tmp_path, Head(f"run-{name}", "pc1", name, machine, OTHER_BOOT))
    assert found(tmp_path) == []
    leave(tmp_path, head_of("run-1"))
    assert len(found(tmp_path)) == 1
    monkeypatch.setattr(state_folder.os, "geteuid", lambda: os.getuid() + 1)
    assert found(tmp_path) == []


def test_a_run_that_somebody_still_writes_goes_on(tmp_path):
    path = leave(tmp_path, head_of("run-1"))
    with path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert found(tmp_path)[0].going_on
    assert not found(tmp_path)[0].going_on


def test_what_is_no_file_of_ours_is_passed_over(tmp_path):
    leave(tmp_path, head_of("run-1"))
    folder = folder_in(tmp_path)
    (folder / file_name("torn", "pc1", 1)).write_bytes(b'{"type":"he')
    (folder / file_name("folder", "pc1", 1)).mkdir()
    os.mkfifo(folder / file_name("pipe", "pc1", 1))
    (folder / file_name("nowhere", "pc1", 1)).symlink_to("nowhere")
    (folder / "other.jsonl").write_bytes(text_of(head_of("other")))
    assert [run.box.head.run_id for run in found(tmp_path)] == ["run-1"]
    assert runs_of(this_host(), tmp_path / "absent") == []


def test_a_run_is_reported_once_behind_a_torn_line_too(tmp_path):
    path = leave(tmp_path, head_of("run-1"))
    path.write_bytes(path.read_bytes() + b'{"type":"line","t_s":27')
    mark_reported(found(tmp_path)[0], "run-2")
    (run,) = found(tmp_path)
    assert run.box.reported
    assert run.box.last == LAST


def test_the_last_runs_are_kept_and_those_that_go_on(tmp_path):
    paths = [leave(tmp_path, head_of(f"run-{n}")) for n in range(FILES_KEPT + 4)]
    foreign = paths[0].with_name("notes.jsonl")
    foreign.write_text("")
    os.utime(foreign, (0, 0))
    for n, path in enumerate(paths):
        os.utime(path, (n, n))
    with paths[0].open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        tidy(paths[0].parent)
    assert [n for n, path in enumerate(paths) if path.exists()] == [0, *range(4, FILES_KEPT + 4)]
    assert foreign.exists()
