"""Actor calls whose answers may never come: nothing here waits longer than it is told."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayError

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

    def take(self, now_s: float) -> Any | Gone | None:
        """The answer of a call that is done. None where it or the actor cannot be reached for the moment."""
        call, self._call = self._call, None
        try:
            reply = ray.get(call, timeout=FETCH_S)
        except GetTimeoutError:  # slow to cross the network: asked for again, and nothing of it is lost
            self._call = call
            return None
        except ActorUnavailableError:
            self.heard = False  # the silence goes on from the last answer
            return None
        except RayError as error:
            self.gone = Gone(reason_of(error))
            return self.gone
        self.heard = True
        self._silent_since_s = now_s
        return reply


def collect(lines: Sequence[Line], timeout_s: float, now_s: float) -> list[tuple[Line, Any]]:
    """Ask all that are not gone, wait at most `timeout_s` for all answers, and return those that came."""
    calls = {line.send(now_s): line for line in lines if line.gone is None}
    if not calls:
        return []
    ready, _ = ray.wait(list(calls), num_returns=len(calls), timeout=timeout_s)
    answers = []
    for call in ready:
        answer = calls[call].take(now_s)
        if answer is not None:
            answers.append((calls[call], answer))
    return answers


def ask(calls: dict[str, Any], timeout_s: float) -> dict[str, Any | Gone]:
    """Answers by key, of those calls that are done and here within `timeout_s`; a failed one is Gone."""
    if not calls:
        return {}
    keys = {call: key for key, call in calls.items()}
    end_s = time.monotonic() + timeout_s
    ready, _ = ray.wait(list(keys), num_returns=len(keys), timeout=timeout_s)
    answers: dict[str, Any | Gone] = {}
    for call in ready:
        try:
            answers[keys[call]] = ray.get(call, timeout=max(FETCH_S, end_s - time.monotonic()))
        except GetTimeoutError:
            continue  # done, but not here yet
        except RayError as error:
            answers[keys[call]] = Gone(reason_of(error))
    return answers


def reason_of(error: BaseException) -> str:
    """What an error of Ray says, in one line; of a process that died, how it ended and nothing else."""
    ended = ENDING.search(" ".join(str(error).split()))
    if ended:
        return f"{ended['how']} ({ended['kind']})"
    wanted = ("cause", "error", "reason", "exit", "died", "killed", "node", "modulenotfound")
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines[1:] if any(word in line.lower() for word in wanted)]
    return " ".join([*lines[:1], *telling[:2]])[:600] or type(error).__name__
