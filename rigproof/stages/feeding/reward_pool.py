"""Computes rewards of completions in a child process, which leads a pool of further processes."""

import queue
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from rigproof.host.child import Child, Message

MODULE = "rigproof.stages.feeding.reward_process"
STOP_S = 2.0
STDERR_CHARACTERS = 500  # quoted from the process's stderr

Completions = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Job:
    """Completions to compute rewards for, all for the game of one seed."""

    completions: Completions
    seed: int
    parallel: bool


@dataclass(frozen=True, slots=True)
class Rewards:
    """A job's rewards, in the order of its completions, how each ended, and the seconds for all of them.

    A reward that could not be computed is 0; `ends` has the reason.
    """

    job: Job
    rewards: tuple[float, ...]
    ends: tuple[str, ...]
    seconds: float

    def count(self, end: str) -> int:
        """How many ended that way."""
        return self.ends.count(end)


class RewardPool:
    """Computes rewards until `close`, in `processes` processes and one that leads them.

    Jobs are done in order. The leading process ends with this one, however it ends.
    """

    def __init__(self, processes: int, strategy_s: float, strategy_memory_mib: float) -> None:
        self._jobs: deque[Job] = deque()
        self._answers: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        arguments = map(str, (processes, strategy_s, strategy_memory_mib))
        self._child = Child(
            MODULE,
            *arguments,
            hear=self._answers.put,
            ended=lambda _: self._answers.put(None),
            keep_stderr=True,
        )

    def __len__(self) -> int:
        """The number of unanswered jobs."""
        return len(self._jobs)

    @property
    def pid(self) -> int:
        """The leading process's id."""
        return self._child.pid

    def submit(self, job: Job) -> None:
        """Submit a job without waiting for it. Raises RuntimeError if the process has ended."""
        if not self._child.tell(completions=job.completions, seed=job.seed, parallel=job.parallel):
            raise self._gone()
        self._jobs.append(job)

    def take(self, timeout_s: float = 0.0) -> Rewards | None:
        """The oldest job's rewards; None if they are not ready within the time.

        Raises RuntimeError if the process has ended.
        """
        try:
            answer = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if answer is None:
            raise self._gone()
        return Rewards(
            self._jobs.popleft(), tuple(answer["rewards"]), tuple(answer["ends"]), answer["seconds"]
        )

    def close(self) -> None:
        """End all its processes at once, whatever they do. A second call does nothing."""
        self._child.stop(STOP_S)

    def _gone(self) -> RuntimeError:
        self._answers.put(None)  # for later calls
        status = self._child.wait(STOP_S)
        ended = "unknown" if status is None else status
        stderr = self._child.complaint()[-STDERR_CHARACTERS:]
        return RuntimeError(
            f"the reward pool ended by itself, exit status {ended}: {stderr or 'nothing on its stderr'}"
        )
