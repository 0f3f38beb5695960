"""Rewards of completions, computed in a process of its own with a pool of processes below it."""

import contextlib
import json
import queue
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rigproof.host.package import ROOT

MODULE = "rigproof.stages.feeding.reward_process"
BOOT = f"import sys, runpy; sys.path.append(sys.argv[4]); runpy.run_module({MODULE!r}, run_name='__main__')"
STOP_S = 2.0
TOLD_CHARACTERS = 500

Completions = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Job:
    """Completions whose rewards are wanted, all for the game of one seed."""

    completions: Completions
    seed: int
    parallel: bool


@dataclass(frozen=True, slots=True)
class Rewards:
    """A job's rewards, in the order of its completions, how each ended, and the seconds that all took.

    A reward that could not be computed is 0; `ends` says why.
    """

    job: Job
    rewards: tuple[float, ...]
    ends: tuple[str, ...]
    seconds: float

    def count(self, end: str) -> int:
        """How many ended so."""
        return self.ends.count(end)

    @property
    def run(self) -> int:
        """How many were strategies, and so were played."""
        return len(self.ends) - self.count("invalid")


class RewardPool:
    """Computes rewards from its making to `stop`: `processes` processes, and one that leads them.

    Jobs are done in the order in which they came. Their process ends with this one, however that dies.
    """

    def __init__(self, processes: int, strategy_s: float, strategy_memory_mib: float) -> None:
        self._told = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop
        arguments = (processes, strategy_s, strategy_memory_mib, ROOT)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", BOOT, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._told,
        )
        self._jobs: deque[Job] = deque()
        self._answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._collect, name="rigproof-rewards", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __len__(self) -> int:
        """Jobs that are not yet answered."""
        return len(self._jobs)

    @property
    def pid(self) -> int:
        """The leading process's id."""
        return self._process.pid

    def submit(self, job: Job) -> None:
        """Hand a job over; does not wait for it. RuntimeError where the process is gone."""
        assert self._process.stdin is not None
        line = {"completions": job.completions, "seed": job.seed, "parallel": job.parallel}
        try:
            self._process.stdin.write(json.dumps(line).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._gone() from None
        self._jobs.append(job)

    def take(self, timeout_s: float = 0.0) -> Rewards | None:
        """The oldest job's rewards; None where they are not there within the time.

        RuntimeError where the process is gone.
        """
        try:
            line = self._answers.get(timeout=timeout_s) if timeout_s > 0 else self._answers.get_nowait()
        except queue.Empty:
            return None
        if line is None:
            raise self._gone()
        answer = json.loads(line)
        return Rewards(
            self._jobs.popleft(), tuple(answer["rewards"]), tuple(answer["ends"]), answer["seconds"]
        )

    def stop(self) -> None:
        """End all its processes at once, whatever they do. Does nothing the second time."""
        assert self._process.stdin is not None
        if self._process.stdin.closed:
            return
        with contextlib.suppress(BrokenPipeError):  # it is gone
            self._process.stdin.close()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_S)
        self._thread.join(STOP_S)
        if self._process.stdout is not None and not self._thread.is_alive():
            self._process.stdout.close()
        self._told.close()

    def _collect(self) -> None:
        for line in self._process.stdout or ():
            if line.endswith(b"\n"):  # else cut off by its death
                self._answers.put(line)
        self._answers.put(None)

    def _gone(self) -> RuntimeError:
        self._answers.put(None)  # for whoever asks again
        try:
            status: object = self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            status = "unknown"
        self._told.seek(0)
        told = self._told.read().decode(errors="replace").strip()[-TOLD_CHARACTERS:]
        return RuntimeError(
            f"the reward pool ended by itself, exit status {status}: {told or 'it said nothing'}"
        )
