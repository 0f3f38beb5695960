"""Actor calls whose answers may never come: nothing here waits longer than its limit."""

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, OutOfMemoryError, RayError

from rigproof.host.bounded import Background

FETCH_S = 2.0  # for an answer that is there, to be read

Key = TypeVar("Key")

# What Ray raises when it, or its head, refuses to create something; anything else is a bug of ours.
REFUSALS = (RayError, ValueError, RuntimeError, OSError)

ENDING = re.compile(r"Worker exit type: (?P<kind>\w+) Worker exit detail: (?P<how>[^.]+)")
# What Ray's memory monitor says of the node, and of its largest processes: pid, GB, command.
FILLED = re.compile(r"was (\S+) used / (\S+) limit")
HOLDER = re.compile(r"^(\d+)\t([\d.]+)\t(.+)$", re.MULTILINE)
HOLDERS_NAMED = 3
FREE_RAM = (
    "end what holds that node's memory, or start its Ray with RAY_memory_monitor_refresh_ms=0, and run again"
)


@dataclass(frozen=True, slots=True)
class Gone:
    """The fact that an actor will not answer again, and why.

    `remedy`: what to do about it, if it was ended by something that is not the rig; else empty.
    """

    reason: str
    remedy: str = ""


def created(create: Callable[[], Any], limit_s: float) -> Any | Gone:
    """The object that `create` makes with Ray, such as a placement group; Gone if Ray refuses or hangs."""
    order = Background(create, "create")
    if not order.done(limit_s):
        return Gone(f"Ray did not answer for {limit_s:.3g} s")
    if order.error is None:
        (made,) = order.results()
        return made
    if isinstance(order.error, REFUSALS):
        return _refused(order.error)
    raise order.error


@dataclass(frozen=True, eq=False)
class LocalCall:
    """A call to an actor in this process, which needs no Ray. One that is `pending` never returns."""

    answer: Any = None
    pending: bool = False


class LocalActorDied(RayError):  # type: ignore[misc]  # noqa: N818 - as Ray names its own
    """An actor in this process that is gone; the message says how it ended."""


class Maker:
    """Requests actors one after the other, each in a thread of its own: Ray may never answer a request."""

    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()

    def make(self, order: Callable[[], Any]) -> Background[Any]:
        """The actor that `order` returns, possibly later."""

        def in_turn() -> Any:
            with self._one_at_a_time:
                return order()

        return Background(in_turn, "make")


class Poller:
    """Calls one actor's `poll` for the driver, with at most one call on its way.

    `actor` may still be starting: a head that does not answer delays its creation for ever. Until the actor
    is there, nothing is sent.
    """

    def __init__(
        self, actor: Any | Background[Any], now_s: float, kill: Callable[[Any], None] = ray.kill
    ) -> None:
        self._actor = actor
        self._kill = kill
        self.gone: Gone | None = None
        self.heard = False  # whether it ever answered
        self._silent_since_s = now_s
        self._call: Any = None

    @property
    def actor(self) -> Any | None:
        """The actor; None if it is not there (yet)."""
        return self._actor.result(None) if isinstance(self._actor, Background) else self._actor

    def wait(self, timeout_s: float | None) -> Any | None:
        """The actor, waited for at most `timeout_s` (None: for ever); None if it is not there."""
        if isinstance(self._actor, Background):
            self._actor.done(timeout_s)
        return self.actor

    def kill(self) -> None:
        """Kill the actor, once it is there. May take for ever, so call it in the background."""
        if (actor := self.wait(None)) is not None:
            self._kill(actor)

    def refused(self) -> Gone | None:
        """The reason why Ray did not create the actor, once; None if it did, or may. Raises other errors."""
        error = self._actor.error if isinstance(self._actor, Background) else None
        if error is None or self.gone is not None:
            return None
        if not isinstance(error, REFUSALS):
            raise error
        self.gone = _refused(error)
        return self.gone

    def begin_anew(self, now_s: float) -> None:
        """Forget the silence until now, since the driver itself was not polling."""
        self._silent_since_s = now_s

    def silent_s(self, now_s: float) -> float:
        """How long an answer of the actor has been outstanding."""
        if self._call is None and self.heard:
            return 0.0
        return now_s - self._silent_since_s

    def send(self, now_s: float) -> Any:
        """Send a call unless one is already on its way. Returns the call that is on its way."""
        if self._call is None:
            if self.heard:
                self._silent_since_s = max(self._silent_since_s, now_s)
            assert self.actor is not None
            self._call = self.actor.poll.remote()
        return self._call

    def take(self, answer: Any | RayError, now_s: float) -> Any | Gone | None:
        """Take the answer of the call, or the error. Returns the answer; Gone if the actor is gone.

        None if the actor cannot be reached for the moment.
        """
        self._call = None
        if isinstance(answer, ActorUnavailableError):
            self.heard = False  # the silence counts from the last answer
            return None
        if isinstance(answer, RayError):
            self.gone = _gone(answer)
            return self.gone
        self.heard = True
        self._silent_since_s = now_s
        return answer


def collect(pollers: Mapping[Key, Poller], timeout_s: float, now_s: float) -> dict[Key, Any]:
    """Poll all actors that are not gone, wait at most `timeout_s` for all. Returns their answers, by key."""
    taken = {key: poller.refused() for key, poller in pollers.items()}
    calls = {
        poller.send(now_s): key
        for key, poller in pollers.items()
        if poller.gone is None and poller.actor is not None
    }
    for call, answer in _fetch(list(calls), timeout_s):
        taken[calls[call]] = pollers[calls[call]].take(answer, now_s)
    return {key: answer for key, answer in taken.items() if answer is not None}


def ask(calls: dict[Key, Any], timeout_s: float) -> dict[Key, Any | Gone]:
    """The answers that come within `timeout_s`, by the key of their call; Gone for a call that failed."""
    keys = {call: key for key, call in calls.items()}
    return {
        keys[call]: _gone(answer) if isinstance(answer, RayError) else answer
        for call, answer in _fetch(list(keys), timeout_s)
    }


def _fetch(calls: list[Any], timeout_s: float) -> list[tuple[Any, Any | RayError]]:
    """The calls done within `timeout_s` whose answers, or errors, are here at the latest `FETCH_S` after it.

    In a thread of its own: if an answer is in the object store (above 100 KiB) and the store does not
    answer, neither `ray.wait` nor `ray.get` keeps its time-out, and Python receives no signal.
    """
    found: list[tuple[Any, Any | RayError]] = []
    end_s = time.monotonic() + timeout_s

    def fetch() -> None:
        ready, _ = ray.wait(calls, num_returns=len(calls), timeout=timeout_s)
        for call in ready:
            try:
                found.append((call, ray.get(call, timeout=max(FETCH_S, end_s - time.monotonic()))))
            except GetTimeoutError:
                continue  # done, but slow to cross the network: the next poll fetches it
            except RayError as error:
                found.append((call, error))

    local = [call for call in calls if isinstance(call, LocalCall)]
    if local:
        return [(call, call.answer) for call in local if not call.pending]
    if not calls:
        return []
    fetching = Background(fetch, "fetch")
    fetching.done(timeout_s + FETCH_S)
    if fetching.error is not None:
        raise fetching.error
    return list(found)


def _gone(error: RayError) -> Gone:
    if not isinstance(error, OutOfMemoryError):
        return Gone(reason_of(error))
    text = str(error)
    filled = FILLED.search(text)
    how_full = f", with {filled[1]} of {filled[2]} in use" if filled else ""
    holders = [f"pid {pid} ({name.strip()[:40]}, {size} GB)" for pid, size, name in HOLDER.findall(text)]
    most = f"; most of it by {', '.join(holders[:HOLDERS_NAMED])}" if holders else ""
    return Gone(f"Ray's memory monitor killed it{how_full}{most}", FREE_RAM)


def _refused(error: BaseException) -> Gone:
    return Gone(f"Ray refused it: {reason_of(error)}")


def reason_of(error: BaseException) -> str:
    """An error of Ray in one line; for a process that died, only how it ended."""
    ended = ENDING.search(" ".join(str(error).split()))
    if ended:
        return f"{ended['how']} ({ended['kind']})"
    wanted = ("cause", "error", "reason", "exit", "died", "killed", "node", "modulenotfound")
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    informative = [line for line in lines[1:] if any(word in line.lower() for word in wanted)]
    return " ".join([*lines[:1], *informative[:2]])[:600] or type(error).__name__
