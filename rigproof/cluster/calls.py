"""Actor calls whose answers may never come: nothing here waits longer than it is told."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayError

from rigproof.cluster.bounded import Background

FETCH_S = 2.0  # for an answer that is there, to be read

ENDING = re.compile(r"Worker exit type: (?P<kind>\w+) Worker exit detail: (?P<how>[^.]+)")


@dataclass(frozen=True, slots=True)
class Gone:
    """The actor will not answer any more, and why."""

    reason: str


class Line:
    """One actor's `poll`, with at most one call on its way. `subject` is for messages."""

    def __init__(self, actor: Any, now_s: float) -> None:
        self.actor = actor
        self.gone: Gone | None = None
        self.heard = False  # whether it ever answered
        self._silent_since_s = now_s
        self._call: Any = None

    def silent_s(self, now_s: float) -> float:
        """How long the actor has owed an answer."""
        if self._call is None and self.heard:
            return 0.0
        return now_s - self._silent_since_s

    def send(self, now_s: float) -> Any:
        """Ask, unless a call is on its way already; the call."""
        if self._call is None:
            if self.heard:
                self._silent_since_s = max(self._silent_since_s, now_s)
            self._call = self.actor.poll.remote()
        return self._call

    def take(self, answer: Any | RayError, now_s: float) -> Any | Gone | None:
        """The answer of the call. None where it or the actor cannot be reached for the moment."""
        self._call = None
        if isinstance(answer, ActorUnavailableError):
            self.heard = False  # the silence goes on from the last answer
            return None
        if isinstance(answer, RayError):
            self.gone = Gone(reason_of(answer))
            return self.gone
        self.heard = True
        self._silent_since_s = now_s
        return answer


def collect(lines: Sequence[Line], timeout_s: float, now_s: float) -> list[tuple[Line, Any]]:
    """Ask all that are not gone, wait at most `timeout_s` for all answers, and return those that came."""
    calls = {line.send(now_s): line for line in lines if line.gone is None}
    taken = [
        (calls[call], calls[call].take(answer, now_s)) for call, answer in _fetch(list(calls), timeout_s)
    ]
    return [(line, answer) for line, answer in taken if answer is not None]


def ask(calls: dict[str, Any], timeout_s: float) -> dict[str, Any | Gone]:
    """Answers by key, of those calls that are done and here within `timeout_s`; a failed one is Gone."""
    keys = {call: key for key, call in calls.items()}
    return {
        keys[call]: Gone(reason_of(answer)) if isinstance(answer, RayError) else answer
        for call, answer in _fetch(list(keys), timeout_s)
    }


def _fetch(calls: list[Any], timeout_s: float) -> list[tuple[Any, Any | RayError]]:
    """The calls done within `timeout_s` whose answers, or errors, are here at the latest `FETCH_S` after it.

    In a thread of its own: where an answer is in the object store (above 100 KiB) and the store does not
    answer, neither `ray.wait` nor `ray.get` keeps its own time-out, and no signal gets through to Python.
    """
    found: list[tuple[Any, Any | RayError]] = []
    end_s = time.monotonic() + timeout_s

    def fetch() -> None:
        ready, _ = ray.wait(calls, num_returns=len(calls), timeout=timeout_s)
        for call in ready:
            try:
                found.append((call, ray.get(call, timeout=max(FETCH_S, end_s - time.monotonic()))))
            except GetTimeoutError:
                continue  # done, but slow to cross the network: nothing of it is lost
            except RayError as error:
                found.append((call, error))

    if not calls:
        return []
    fetching = Background(fetch, "fetch")
    fetching.done(timeout_s + FETCH_S)
    if fetching.error is not None:
        raise fetching.error
    return list(found)


def reason_of(error: BaseException) -> str:
    """What an error of Ray says, in one line; of a process that died, how it ended and nothing else."""
    ended = ENDING.search(" ".join(str(error).split()))
    if ended:
        return f"{ended['how']} ({ended['kind']})"
    wanted = ("cause", "error", "reason", "exit", "died", "killed", "node", "modulenotfound")
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines[1:] if any(word in line.lower() for word in wanted)]
    return " ".join([*lines[:1], *telling[:2]])[:600] or type(error).__name__
