"""What a host leaves to a run, in made-up trees; the loopback interface in a real namespace."""

import os
import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rigproof.host.room import ThreadRoom, free_mib, localhost_elsewhere, loopback_problem, thread_room

GROUPS = {
    "cgroup.controllers": "cpu memory pids\n",
    "slice/pids.max": "500\n",
    "slice/pids.current": "460\n",
    "slice/leaf/pids.max": "100\n",
    "slice/leaf/pids.current": "10\n",
}
OTHER = os.getuid() + 1


def trees(tmp_path: Path, own: str, groups: dict[str, str], threads: dict[int, int]) -> tuple[Path, Path]:
    """A proc tree with processes of so many threads, by pid, and a cgroup tree."""
    proc, cgroup = tmp_path / "proc", tmp_path / "cgroup"
    for root, files in ((proc, {"self/cgroup": own, "uptime": "1"}), (cgroup, groups)):
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
    cgroup.mkdir(exist_ok=True)
    for pid, number in threads.items():
        for thread in range(number):
            (proc / str(pid) / "task" / str(pid + thread)).mkdir(parents=True)
    return proc, cgroup


def test_the_group_that_leaves_the_fewest_threads_counts_whichever_limit_is_lower(tmp_path):
    room = thread_room(*trees(tmp_path, "0::/slice/leaf\n", GROUPS, {}))
    assert room is not None
    assert (room.limit, room.used, room.free) == (500, 460, 40)
    assert room.where.endswith("slice/pids.max")
    assert "--pids-limit" in room.remedy


def test_version_1_has_a_tree_for_it(tmp_path):
    groups = {"pids/job/pids.max": "60\n", "pids/job/pids.current": "2\n"}
    room = thread_room(*trees(tmp_path, "8:pids:/job\n4:memory:/elsewhere\n", groups, {}))
    assert room is not None
    assert (room.limit, room.free) == (60, 58)


def test_a_group_without_a_limit_leaves_any_number(tmp_path):
    groups = {"cgroup.controllers": "pids\n", "a/pids.max": "max\n", "a/pids.current": "7\n"}
    assert thread_room(*trees(tmp_path, "0::/a\n", groups, {})) is None


def test_the_limit_of_the_user_counts_the_threads_of_all_its_processes(tmp_path):
    proc, cgroup = trees(tmp_path, "0::/\n", {}, {11: 3, 12: 1, 13: 4})
    if os.getuid() == 0:
        os.chown(proc / "13", OTHER, -1)
    counted = 4 if os.getuid() == 0 else 8
    room = thread_room(proc, cgroup, user_limit=6)
    assert room is not None
    assert (room.limit, room.used, room.free) == (6, counted, max(0, 6 - counted))
    assert room.where == f"RLIMIT_NPROC of user {os.getuid()}"
    assert "ulimit -u" in room.remedy


@pytest.mark.parametrize(
    ("limit", "user", "status", "expected"),
    [
        (100, 1000, "CapEff:\t0000000000000000\n", 100),
        (100, 1000, "CapEff:\t0000000001000000\n", None),  # CAP_SYS_RESOURCE
        (100, 1000, "CapEff:\t0000000000200000\n", None),  # CAP_SYS_ADMIN
        (100, 1000, "", 100),
        (100, 1, "CapEff:\t0000000000000000\n", 100),
        (100, 0, "CapEff:\t0000000000000000\n", None),
        (resource.RLIM_INFINITY, 1000, "CapEff:\t0000000000000000\n", None),
    ],
)
def test_the_limit_of_a_user_holds_but_for_root_and_some_capabilities(
    tmp_path, monkeypatch, limit, user, status, expected
):
    proc, cgroup = trees(tmp_path, "0::/\n", {}, {})
    (proc / "self" / "status").write_text(status)
    monkeypatch.setattr("resource.getrlimit", lambda _: (limit, resource.RLIM_INFINITY))
    monkeypatch.setattr("os.getuid", lambda: user)
    room = thread_room(proc, cgroup)
    assert (None if room is None else room.limit) == expected


def test_more_threads_than_allowed_leave_none():
    assert ThreadRoom(10, 12, "", "").free == 0


def test_a_folder_that_is_not_there_has_no_room(tmp_path):
    assert free_mib(tmp_path) > 0
    assert free_mib(tmp_path / "nothing") == 0


def test_this_host_can_reach_itself():
    assert loopback_problem() == ""


@pytest.mark.skipif(os.getuid() != 0, reason="a namespace of the network is root's to make")
def test_a_loopback_interface_that_is_down_is_noticed():
    code = "from rigproof.host.room import loopback_problem; print(loopback_problem())"
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "Network is unreachable\n"


@pytest.mark.parametrize(
    ("addresses", "foreign"),
    [
        (["::1", "127.0.0.1"], ""),
        (["127.0.1.1"], ""),
        (["203.0.113.9"], "203.0.113.9"),
        (["127.0.0.1", "fe80::1%eth0"], "fe80::1%eth0"),
    ],
)
def test_localhost_is_a_loopback_address(monkeypatch, addresses, foreign):
    answer = [(None, None, 6, "", (one, 0)) for one in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: answer)
    assert localhost_elsewhere() == foreign


def test_a_host_without_the_name_has_no_foreign_one(monkeypatch):
    def unknown(*_: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert localhost_elsewhere() == ""
