"""A real acceptance run in a session of its own, a moment to hurt it at, and what must not be left of it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rigproof.cluster.ray.folder import FOLDER_PREFIX
from rigproof.host import processes
from rigproof.host.processes import ProcessId
from rigproof.records.disk.reading import PARQUET_FILE, RECORDING_FILE
from rigproof.records.disk.store import read_recording
from rigproof.records.disk.tables import part_files
from support import fault_times
from support.acceptance import PYTEST
from support.alone import UNYIELDING

CHECKOUT = Path(__file__).resolve().parents[2]
INSIDE = CHECKOUT / "tests" / "support" / "inside"  # what is done to its workers
SHARED_MEMORY = Path("/dev/shm")
PATIENCE_S = 240  # for a step of a run on a busy machine; never what a test is about
# After this it hangs: well over any deadline of the profiles here, on a machine several times slower too.
END_S = 240
LEFT_S = 30  # for killed processes to go
LOOK_S = 1.0  # between two looks at what processes it has: each reads all of /proc
# What a pytest around this one says to itself; xdist would also switch pytest-benchmark off.
NOT_INHERITED = ("PYTEST_", "COLUMNS", "LINES", "RAY_", "XDG_STATE_", "RIGPROOF_STATE_", "RIGPROOF_LOCK_")
MARK, LOCKS = "RIGPROOF_TEST_RUN", "RIGPROOF_LOCK_DIR"
# Every signal at every place; else some of them in turn, for they take a quarter of a minute each.
EVERY_SIGNAL = os.environ.get("RIGPROOF_EVERY_SIGNAL") == "1"


def own_environment(**more: str) -> dict[str, str]:
    """The environment as a user has it, without what the pytest around this one has put there."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(NOT_INHERITED)}
    path = [str(INSIDE), str(CHECKOUT), str(CHECKOUT / "tests"), os.environ.get("PYTHONPATH")]
    own = {"PYTHONPATH": os.pathsep.join(filter(None, path)), "PYTHONUNBUFFERED": "1"}
    return kept | own | UNYIELDING | more


@dataclass
class RealRun:
    """An acceptance run that goes on, or has ended."""

    process: subprocess.Popen[bytes]
    report_dir: Path
    output: Path
    mark: str
    folders_before: frozenset[Path] = frozenset()
    shared_before: frozenset[str] = frozenset()
    family: set[ProcessId] = field(default_factory=set)  # everything of it that was ever seen
    hurt_s: float | None = None  # when it was hurt, by time.monotonic()
    ended_s: float | None = None
    _read: list[dict[str, Any]] = field(default_factory=list)  # of its recording, so far
    _read_bytes: int = 0

    # What it has done so far

    @property
    def folder(self) -> Path | None:
        """Its folder; None as long as it has none."""
        made = set(self.report_dir.glob("runs/*")) - self.folders_before
        return min(made, default=None)

    def all_records(self) -> list[dict[str, Any]]:
        """All records that are on disk by now: whole lines only. What was read before is not read again."""
        if self.folder is not None:
            with contextlib.suppress(FileNotFoundError), (self.folder / RECORDING_FILE).open("rb") as file:
                file.seek(self._read_bytes)
                whole, newline, _ = file.read().rpartition(b"\n")
                self._read_bytes += len(whole) + len(newline)
                self._read += [json.loads(line) for line in whole.splitlines()]
        return list(self._read)

    def records(self, kind: str) -> list[dict[str, Any]]:
        """Those of one kind."""
        return [record for record in self.all_records() if record["type"] == kind]

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The events of one kind."""
        return [record for record in self.records("event") if record["kind"] == kind]

    def in_stage(self, stage: str) -> list[dict[str, Any]]:
        """The rounds of a stage; they reach the disk every few seconds."""
        if self.folder is None or not any(one["name"] == stage for one in self.records("stage")):
            return []  # reading the rounds takes much longer
        return [asdict(one) for one in read_recording(self.folder).rounds if one.stage == stage]

    def running(self, name: str) -> bool:
        """Whether a stage has begun and not ended."""
        stages = [record for record in self.records("stage") if record["name"] == name]
        return bool(stages) and stages[-1]["status"] == "running"

    def ended(self, name: str) -> bool:
        """Whether a stage has begun and ended."""
        told = [record for record in self.records("stage") if record["name"] == name]
        return bool(told) and told[-1]["status"] != "running"

    def worker(self, subject: str) -> ProcessId:
        """The newest worker process of a device."""
        return found([one["pid"] for one in self.records("worker") if one["subject"] == subject][-1])

    def agent(self) -> ProcessId:
        """The node's agent."""
        return found(self.records("node")[-1]["agent_pid"])

    def of_ray(self, name: str) -> ProcessId:
        """One of Ray's own processes, by the program's name."""
        return next(one for one in processes.descendants({self.process.pid}) if program(one.pid) == name)

    def text(self) -> str:
        """What it printed."""
        return self.output.read_text(errors="replace")

    # Going on, and its end

    def wait_for(self, what: Callable[["RealRun"], Any], step_s: float = 0.05) -> Any:
        """Wait until `what` is true of the run, and return it."""
        end_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < end_s:
            if result := what(self):
                self.look()
                return result
            assert self.process.poll() is None, f"the run ended first:\n{self.text()}"
            time.sleep(step_s)
        raise AssertionError(f"waited {PATIENCE_S} s in vain:\n{self.stacks()}")

    def wait_for_stage(self, name: str, inside_s: float = 1.0) -> None:
        """Wait until a stage has gone on for `inside_s`."""
        self.wait_for(lambda run: run.running(name))
        time.sleep(inside_s)

    def hurt(self, victim: ProcessId | None, number: signal.Signals) -> None:
        """Send a signal to one of its processes; None is the driver."""
        self.look()
        self.hurt_s = time.monotonic()
        os.kill(self.process.pid if victim is None else victim.pid, number)

    def hurt_now(self) -> None:
        """Something else has hurt it."""
        self.hurt_s = time.monotonic()

    def record(self, fault: str, where: str, *, deadline_s: float, outcome: str) -> None:
        """Keep how long this fault took to the run's end."""
        fault_times.record(fault, where, deadline_s=deadline_s, took_s=self.took_s, outcome=outcome)

    def finish(self) -> int:
        """Wait for its end; the exit status."""
        end_s = time.monotonic() + END_S
        while self.process.poll() is None:
            assert time.monotonic() < end_s, f"no end within {END_S} s:\n{self.stacks()}"
            self.look()
            self._wait(LOOK_S)
        self.ended_s = time.monotonic()
        return self.process.returncode

    def _wait(self, limit_s: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(limit_s)

    @property
    def took_s(self) -> float:
        """From the hurt to the end."""
        assert self.hurt_s is not None
        assert self.ended_s is not None
        return self.ended_s - self.hurt_s

    def look(self) -> None:
        """Remember every process that belongs to it by now."""
        self.family |= processes.descendants({self.process.pid}) | marked(self.mark, self.process.pid)

    def stacks(self) -> str:
        """What the driver does, and what the run printed; for a message. The driver goes on."""
        if self.process.poll() is None:
            for number in (signal.SIGCONT, signal.SIGUSR1):
                self.process.send_signal(number)
            time.sleep(1)
        left = [f"{one.pid} {program(one.pid)}" for one in self.family if processes.alive(one)]
        return f"{self.text()}\nstill there: {left}"

    def end(self) -> None:
        """Kill whatever is left of it, and remove what it left behind."""
        self.look()
        for process in (*self.family, processes.process_id(self.process.pid)):
            if process is not None:
                processes.kill(process)
        self.process.wait(LEFT_S)
        for folder in self.ray_folders():
            subprocess.run(["rm", "-rf", str(folder)], check=False)

    # Afterwards

    def verdict(self) -> dict[str, Any]:
        """verdict.json."""
        assert self.folder is not None
        return json.loads((self.folder / "verdict.json").read_text())

    def outcomes(self) -> dict[tuple[str, str], str]:
        """Outcome by criterion and subject."""
        return {(one["criterion"], one["subject"]): one["outcome"] for one in self.verdict()["criteria"]}

    def not_well(self) -> set[tuple[str, str]]:
        """Criterion and subject of what failed or warned, but for what a hypervisor took of this machine."""
        outcomes = self.outcomes().items()
        return {key for key, outcome in outcomes if outcome in ("fail", "warn") and key[0] != "host.steal"}

    def left_processes(self, limit_s: float = 0.0) -> list[str]:
        """What is left of it after `limit_s` at most."""
        self.look()
        left = processes.wait_gone(self.family, limit_s)
        return [f"{one.pid} {program(one.pid)}" for one in left]

    def ray_folders(self) -> list[Path]:
        """Ray's temporary folders of it."""
        roots = {Path(tempfile.gettempdir()), Path("/tmp")}
        return [found for root in roots for found in root.glob(f"{FOLDER_PREFIX}{self.process.pid}-*")]

    def left_shared_memory(self, limit_s: float = 0.0) -> set[str]:
        """Files in /dev/shm that came with it, are there after `limit_s` still, and that nobody has open."""
        end_s = time.monotonic() + limit_s
        while left := shared_memory() - self.shared_before - open_files(SHARED_MEMORY):
            if time.monotonic() >= end_s:
                return left
            time.sleep(0.2)
        return set()

    def check_nothing_is_left(self) -> None:
        """No process, no folder of Ray's, no shared memory, once the driver has ended."""
        assert self.left_processes(1.0) == []
        assert self.ray_folders() == []
        assert self.left_shared_memory(LEFT_S) == set()

    def check_recording(self, *, ended: bool = True) -> None:
        """All of it can be read; whole where the run `ended` by itself."""
        assert self.folder is not None
        content = (self.folder / RECORDING_FILE).read_bytes()
        if ended:
            assert content.endswith(b"\n")
            assert (self.folder / PARQUET_FILE).exists()
            assert not any(map(part_files, self.folder.iterdir())), "parts of a table are left"
        recording = read_recording(self.folder)
        assert recording.run.run_id == self.folder.name


def start(
    report_dir: Path,
    output: Path,
    *options: str,
    home: Path,
    variables: Mapping[str, str] | None = None,
    prefix: Iterable[str] = (),
) -> RealRun:
    """Start `pytest -m hardware` with these options, behind the command `prefix`."""
    mark = uuid.uuid4().hex
    before = frozenset(report_dir.glob("runs/*")), shared_memory()
    command = [*prefix, sys.executable, *PYTEST, "-p", "support.stacks"]
    with output.open("wb") as stdout:
        process = subprocess.Popen(
            [*command, "-m", "hardware", f"--hw-report-dir={report_dir}", *options],
            cwd=CHECKOUT,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=own_environment(**{"HOME": str(home), LOCKS: str(home), MARK: mark} | dict(variables or {})),
            start_new_session=True,
            preexec_fn=_heed_signals,  # noqa: PLW1509 - it takes no lock
        )
    return RealRun(process, report_dir, output, mark, *before)


def _heed_signals() -> None:
    """Of these tests' own start by `nohup`, or in a shell's background, a run must not inherit deaf ears."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def found(pid: int) -> ProcessId:
    """The process that has this id now."""
    process = processes.process_id(pid)
    assert process is not None, f"{pid} is gone"
    return process


def program(pid: int) -> str:
    """What a process calls itself."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def marked(mark: str, session: int) -> frozenset[ProcessId]:
    """Processes that were started with this mark in their environment, or are of that session (setsid(2)).

    A process that renames itself may lose its environment from sight.
    """
    wanted = f"{MARK}={mark}".encode()
    ours = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            own = os.getsid(int(entry.name)) == session or wanted in (entry / "environ").read_bytes()
        except OSError:
            continue
        process = processes.process_id(int(entry.name)) if own else None
        if process is not None and process.pid != session:
            ours.add(process)
    return frozenset(ours)


def shared_memory() -> frozenset[str]:
    """The names in /dev/shm."""
    return (
        frozenset(entry.name for entry in SHARED_MEMORY.iterdir()) if SHARED_MEMORY.is_dir() else frozenset()
    )


def open_files(folder: Path) -> set[str]:
    """Names in `folder` that a process of this machine has open or mapped."""
    names = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            mapped = {line.split(maxsplit=5)[-1] for line in (entry / "maps").read_text().splitlines()}
            opened = {str(link.readlink()) for link in (entry / "fd").iterdir()}
            names |= {Path(one).name for one in mapped | opened if one.startswith(f"{folder}/")}
    return names
