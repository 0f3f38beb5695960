"""Whose CPU time it is: on a made-up /proc, and a busy process of this very host."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rigproof.host.cpu_users import CpuUsers
from rigproof.host.proc import TICKS_PER_S
from support.hog import orphaned_hog

ANOTHER_CHANCE_S = 3  # for a process to be among the three hungriest: other tests beside it may be as busy
OWN, RAYLET = os.getpid(), os.getppid()
WORKER, FEEDER, SIBLING, HOG, KWORKER = 900_001, 900_002, 900_003, 900_004, 900_005


class Processes:
    """A /proc of processes whose CPU time a test moves; 10 CPUs, a second between two readings."""

    def __init__(self, proc: Path) -> None:
        self.proc = proc
        self.now_s = 100.0
        self.reading_s = 0.0  # of the clock
        self.cost_s = 0.0  # of the CPU
        self.spent_s = 0.0
        self.used_s: dict[int, float] = {}
        self.parents = {OWN: RAYLET, WORKER: RAYLET, FEEDER: WORKER, SIBLING: RAYLET, HOG: 1, KWORKER: 2}
        self.starts = dict.fromkeys(self.parents, 7)
        self.users = CpuUsers(lambda: {WORKER}, lambda: 10.0, proc, self.clock, self.spent)

    def clock(self) -> float:
        self.now_s += self.reading_s
        return self.now_s

    def spent(self) -> float:
        self.spent_s += self.cost_s
        return self.spent_s

    def spend(self, **percent: float) -> None:
        """In one second these percent of the ten CPUs; then read."""
        self.pass_a_second(**percent)
        self.users.read()

    def waits(self, *told: tuple[int, int, int]) -> None:
        """Process, thread, and how long that one has waited for a CPU so far, ms."""
        for pid, thread, ms in told:
            folder = self.proc / str(pid) / "task" / str(thread)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "schedstat").write_text(f"123 {ms * 10**6} 45\n")

    def pass_a_second(self, **percent: float) -> None:
        """In one second these percent of the ten CPUs."""
        for name, share in percent.items():
            pid = globals()[name]
            self.used_s[pid] = self.used_s.get(pid, 0.0) + share / 10
        for pid, parent in self.parents.items():
            folder = self.proc / str(pid)
            folder.mkdir(exist_ok=True)
            (folder / "comm").write_text("stress-ng\n")
            ticks = round(self.used_s.get(pid, 0.0) * TICKS_PER_S)
            fields = [*["0"] * 9, str(ticks // 3), str(ticks - ticks // 3), *["0"] * 6, str(self.starts[pid])]
            (folder / "stat").write_text(f"{pid} (a) S (b) S {parent} {' '.join(fields)} 0 0\n")
        self.now_s += 1.0


@pytest.fixture
def processes(tmp_path: Path) -> Processes:
    made = Processes(tmp_path)
    made.spend()
    return made


def test_workers_with_their_children_this_process_and_the_raylet_are_its_own(processes: Processes) -> None:
    assert processes.users.own_percent is None
    processes.spend(OWN=1, RAYLET=0, WORKER=20, FEEDER=5, SIBLING=30, HOG=9, KWORKER=3)
    assert processes.users.own_percent == pytest.approx(26.0)


def test_how_long_a_process_of_its_workers_waited_for_a_cpu_is_the_longest(processes: Processes) -> None:
    """By all its threads together; of the kernel's three figures of each it is the second."""
    assert processes.users.own_waited_percent is None
    processes.waits((WORKER, 1, 100), (WORKER, 2, 0), (FEEDER, 3, 50), (HOG, 4, 0), (OWN, 5, 0))
    processes.spend()
    processes.waits((WORKER, 1, 250), (WORKER, 2, 150), (FEEDER, 3, 300), (HOG, 4, 999), (OWN, 5, 999))
    processes.spend()
    assert processes.users.own_waited_percent == pytest.approx(30.0)
    processes.waits(
        (WORKER, 1, 200), (FEEDER, 3, 340), (FEEDER, 6, 900)
    )  # a new thread, and one of another's id
    processes.spend()
    assert processes.users.own_waited_percent == pytest.approx(4.0)
    (processes.proc / str(WORKER) / "task/2/schedstat").write_text("0 0 0\n")
    processes.spend()
    assert processes.users.own_waited_percent == 0.0


def test_what_started_the_agent_is_its_own_too_but_not_its_other_children(processes: Processes) -> None:
    processes.parents[RAYLET] = 1
    processes.starts[RAYLET] = 7
    processes.spend()
    processes.spend(RAYLET=4, SIBLING=30)
    assert processes.users.own_percent == pytest.approx(4.0)


def test_the_hungriest_foreign_processes_are_named_with_their_mean(processes: Processes) -> None:
    processes.spend(HOG=50, WORKER=20)
    processes.spend(HOG=10, SIBLING=40, KWORKER=5)
    first, second = processes.users.hungriest()
    assert (first.pid, first.name, round(first.percent)) == (HOG, "stress-ng", 30)
    assert first.user == (processes.proc / str(HOG)).owner()
    assert (second.pid, round(second.percent)) == (SIBLING, 20)


def test_who_never_used_more_than_a_percent_is_not_named_and_three_at_most_are(processes: Processes) -> None:
    processes.spend(HOG=0.9)
    assert processes.users.hungriest() == []
    for pid in range(910_000, 910_005):
        processes.parents[pid], processes.starts[pid] = 1, 7
        processes.used_s[pid] = 0.0
    processes.spend()
    for pid in range(910_000, 910_005):
        processes.used_s[pid] = 0.5 + (pid - 910_000) / 10
    processes.spend()
    assert [one.pid for one in processes.users.hungriest()] == [910_004, 910_003, 910_002]


def test_counting_starts_over(processes: Processes) -> None:
    processes.spend(HOG=50)
    processes.users.restart()
    assert processes.users.hungriest() == []
    processes.spend(SIBLING=20)
    (only,) = processes.users.hungriest()
    assert (only.pid, round(only.percent)) == (SIBLING, 20)


def test_a_pid_that_another_process_has_now_starts_from_nothing(processes: Processes) -> None:
    processes.spend(HOG=50)
    processes.starts[HOG], processes.used_s[HOG] = 9, 0.0
    processes.users.restart()
    processes.spend(HOG=20)
    (only,) = processes.users.hungriest()
    assert round(only.percent) == 20


def test_a_process_that_ends_while_it_is_read_is_left_out(processes: Processes) -> None:
    (processes.proc / "920000").mkdir()
    processes.spend(WORKER=10)
    assert processes.users.own_percent == pytest.approx(10.0)


def test_readings_that_take_much_cpu_time_are_rare(processes: Processes) -> None:
    """A fifth of a second for one: the next one is due ten seconds later."""
    processes.cost_s = 0.2
    processes.spend(WORKER=10)
    processes.cost_s = 0.0
    own_percent = processes.users.own_percent
    processes.spend(WORKER=90)
    assert processes.users.own_percent == own_percent
    processes.now_s += 10.0
    processes.spend(WORKER=90)
    assert processes.users.own_percent != own_percent


def test_a_reading_that_waits_for_the_cpu_delays_no_other(processes: Processes) -> None:
    processes.reading_s = 1.2
    for share in (10, 80, 30):
        before_s = processes.now_s
        processes.spend(WORKER=share)
        passed_s = processes.now_s - before_s
        assert processes.users.own_percent == pytest.approx(share / passed_s)


def test_who_asks_for_now_gets_a_reading_of_the_last_two_seconds(processes: Processes) -> None:
    assert processes.users.own_now() is None
    processes.spend(WORKER=10)
    processes.pass_a_second(WORKER=50)
    assert processes.users.own_now() == pytest.approx(10.0)
    processes.pass_a_second(WORKER=50)
    processes.now_s += 0.5
    assert processes.users.own_now() == pytest.approx(100 / 2.5)


@pytest.mark.parametrize("cost_s", [0.0, 0.2])
def test_who_came_since_the_last_reading_is_counted_when_the_load_ends(
    processes: Processes, cost_s: float
) -> None:
    """With readings of a fifth of a second, none of the four seconds of this load would be read."""
    processes.cost_s = cost_s
    processes.spend()
    processes.cost_s = 0.0
    processes.users.restart()
    for share in (0, 0, 40, 80):
        processes.spend(HOG=share)
    (only,) = processes.users.hungriest()
    assert (only.pid, only.name, round(only.percent)) == (HOG, "stress-ng", 30)
    processes.pass_a_second(HOG=30)
    (only,) = processes.users.hungriest()
    assert round(only.percent) == 30, "what was counted is not counted again"


def test_what_was_used_between_the_last_reading_and_the_load_is_not_counted(processes: Processes) -> None:
    processes.pass_a_second(HOG=80)
    processes.users.restart()
    processes.spend(SIBLING=20)
    assert [one.pid for one in processes.users.hungriest()] == [SIBLING]


def test_a_look_at_the_hungriest_moves_neither_the_own_share_nor_names_who_had_a_tick(
    processes: Processes,
) -> None:
    processes.spend(WORKER=50)
    processes.users.hungriest()
    processes.used_s[HOG] = 0.01
    processes.pass_a_second(WORKER=90)
    processes.now_s -= 0.99
    assert processes.users.hungriest() == []
    assert processes.users.own_percent == pytest.approx(50.0)
    processes.now_s += 0.99
    processes.spend(WORKER=70)
    assert processes.users.own_percent == pytest.approx(80.0)


def test_a_busy_process_of_this_host_is_told_from_a_worker_and_its_own_children() -> None:
    """Three busy processes: a worker, another child of this process, and one whose parent has gone."""
    loop = (sys.executable, "-c", "while True: pass")
    own = [subprocess.Popen(loop, start_new_session=True) for _ in range(2)]
    foreign = orphaned_hog()
    try:
        users = CpuUsers(lambda: {own[0].pid}, lambda: float(os.cpu_count() or 1))
        end_s = time.monotonic() + 60
        named: set[int] = set()
        while not (foreign in named and users.own_percent is not None) and time.monotonic() < end_s:
            users.read()
            time.sleep(0.2)
            named = {one.pid for one in users.hungriest()}
            if foreign not in named and users._counted_s > ANOTHER_CHANCE_S:
                users.restart()
        assert foreign in named
        assert named.isdisjoint(one.pid for one in own)
        assert users.own_percent is not None
        assert users.own_percent > 0
    finally:
        os.kill(foreign, signal.SIGKILL)
        for one in own:
            one.kill()
            one.wait()
