"""The members of a crew meet: JSON lines over TCP, all with rank 0, and connections for data beside them.

Every wait ends: at its deadline (`SilentError`), or as soon as the crew ends (`EndedError`).
"""

import json
import queue
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self, TypeVar

from rigproof.devices.specs import WorkerContext
from rigproof.host.addresses import host_port
from rigproof.host.connections import Outcome, connect, listen

MEET_S = 10.0  # for all to come: workers begin within a second of each other
HELLO_S = 3.0  # for who connects to say who it is
LOOK_S = 0.1  # between two looks at whether the crew has ended
LINE_BYTES = 2**24
PINGS = 8

wall_clock = time.time  # s
Made = TypeVar("Made")
Message = dict[str, Any]


class SilentError(RuntimeError):
    """Nothing came through."""


class EndedError(RuntimeError):
    """The crew has ended."""


class Line:
    """One end of a connection: an object of JSON a line, as `send` writes it, or data by its `sock`."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.sock.settimeout(LOOK_S)
        self.own_address = str(sock.getsockname()[0]).partition("%")[0]
        self._lock = threading.Lock()

    def send(self, message: Any) -> bool:
        """Send a message; False if nobody is there any more, or takes nothing for a while."""
        with self._lock, suppress(OSError):
            self.sock.settimeout(MEET_S)
            try:
                self.sock.sendall(json.dumps(message).encode() + b"\n")
            finally:
                self.sock.settimeout(LOOK_S)
            return True
        return False

    def receive(self, go_on: Callable[[], bool]) -> Message | None:
        """The next message; None if there is no more, or `go_on` says that it takes too long.

        It takes nothing of what comes behind the message.
        """
        found = b""
        while not found.endswith(b"\n"):
            if not go_on() or len(found) > LINE_BYTES:
                return None
            try:
                seen = self.sock.recv(2**16, socket.MSG_PEEK)
                found += self.sock.recv(seen.find(b"\n") + 1 or len(seen))
            except TimeoutError:
                continue
            except OSError:
                return None
            if not seen:
                return None
        with suppress(ValueError, RecursionError):
            message = json.loads(found)
            return message if isinstance(message, dict) else None
        return None

    def close(self) -> None:
        """Close it."""
        self.sock.close()


class Meeting:
    """All members of the crew, met at rank 0's rendezvous. A context manager.

    `present`: ranks that came. `trouble`: what kept this member from rank 0. `ahead_s`: of rank 0's wall
    clock, ± `ahead_error_s`. Nobody has more than one such connection: 128 nodes are 127 of them.
    `careful`: in packets that any network carries, so that it tells that large ones get lost. `meet_s`: for
    all to come.
    """

    def __init__(self, context: WorkerContext, *, careful: bool = False, meet_s: float | None = None) -> None:
        assert context.crew.rendezvous is not None, "a crew of several has a place to meet"
        self._context = context
        self._place = context.crew.rendezvous
        self._rank, self._size = context.crew.rank, context.crew.size
        self._careful = careful
        self._meet_s = MEET_S if meet_s is None else meet_s
        self._lines: dict[int, Line] = {}
        self._inbox: queue.SimpleQueue[tuple[int, Message]] = queue.SimpleQueue()
        self._early: list[tuple[int, Message]] = []
        self._asked: dict[str, Line] = {}  # connections for data, by purpose
        self._server: socket.socket | None = None
        self._complete = False  # nobody is waited for any more
        self.present: set[int] = {self._rank}
        self.trouble: Outcome | None = None
        self.ahead_s: float | None = None
        self.ahead_error_s: float | None = None

    def __enter__(self) -> Self:
        try:
            if self._rank == 0:
                self._open()
            else:
                self._join()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave it: the others see that at once."""
        if self._server is not None:
            with suppress(OSError):  # else the thread that waits for it would keep it open
                self._server.shutdown(socket.SHUT_RDWR)
            self._server.close()
        for line in (*self._lines.values(), *self._asked.values()):
            line.close()

    @property
    def own_address(self) -> str:
        """This host's address at which it meets the others; empty if it does not."""
        if self._rank == 0:
            return self._place[0]
        return self._lines[0].own_address if 0 in self._lines else ""

    def require_all(self) -> None:
        """SilentError unless rank 0 has met all, or this other one has met rank 0."""
        where, long = host_port(*self._place), f"for {self._meet_s:g} s"
        if self.trouble is not None:
            raise SilentError(f"{where} could not be reached {long}: {self.trouble}")
        if self._rank == 0 and len(self.present) < self._size:
            raise SilentError(f"nobody came to {where} {long}")

    def exchange(self, topic: str, own: Any, wait_s: float) -> dict[int, Any]:
        """What each member says on a topic, by rank.

        All that came must take part; one that comes more than `wait_s` after rank 0 is left out from then on.
        Raises EndedError if the crew ended, SilentError if rank 0 did not answer.
        """
        if self._rank == 0:
            return self._collect(topic, own, wait_s)
        line = self._lines[0]
        line.send({"topic": topic, "says": own})
        end_s = time.monotonic() + wait_s + MEET_S
        while (answer := line.receive(lambda: self._goes_on(end_s))) is not None:
            if answer.get("topic") == topic:
                return {int(rank): says for rank, says in answer["all"].items()}
        raise SilentError(f"rank 0 does not answer about {topic}")

    def line(self, purpose: str) -> Line:
        """A connection between the two of a pair, for data, which both ask for. SilentError, EndedError."""
        if self._rank == 0:
            return self.patiently(
                lambda: self._welcomed(purpose), lambda: f"nobody asked for {purpose}", self._meet_s
            )
        outcome, sock = connect(self._place, self._meet_s)
        if sock is None:
            raise SilentError(f"{host_port(*self._place)} could not be reached any more: {outcome}")
        line = Line(sock)
        end_s = time.monotonic() + self._meet_s
        line.send({"rank": self._rank, "crew": self._context.crew.subject, "for": purpose})
        if line.receive(lambda: self._goes_on(end_s)) is None:
            line.close()
            raise SilentError(f"rank 0 did not take a connection for {purpose}")
        return _at_once(line)

    def patiently(self, what: Callable[[], Made | None], why: Callable[[], str], limit_s: float) -> Made:
        """What it gives, however often it has to be tried. SilentError (with `why`), EndedError."""
        end_s = time.monotonic() + limit_s
        while self._goes_on(end_s):
            with suppress(TimeoutError):
                if (made := what()) is not None:
                    return made
        raise SilentError(f"{why()} for {limit_s:g} s")

    def _goes_on(self, end_s: float) -> bool:
        self._context.alive()
        if self._context.stopped():
            raise EndedError
        return time.monotonic() < end_s

    # Rank 0.

    def _collect(self, topic: str, own: Any, wait_s: float) -> dict[int, Any]:
        said = {0: own}
        end_s = time.monotonic() + wait_s
        kept, self._early = self._early, []
        while len(said) < len(self.present) and self._goes_on(end_s):
            try:
                rank, message = kept.pop(0) if kept else self._inbox.get(timeout=LOOK_S)
            except queue.Empty:
                continue
            if message.get("topic") == topic:
                said[rank] = message.get("says")
            elif message.get("gone"):
                self.present.discard(rank)
            else:
                self._early.append((rank, message))
        self._early += kept
        for rank in self.present - said.keys():
            self._lines[rank].close()
        self.present = set(said)
        for rank in said.keys() - {0}:
            self._lines[rank].send({"topic": topic, "all": said})
        return said

    def _open(self) -> None:
        self._server = listen(self._place, self._size, careful=self._careful)
        self._server.settimeout(LOOK_S)
        self.ahead_s = self.ahead_error_s = 0.0
        threading.Thread(target=self._take, args=(self._server,), daemon=True).start()
        end_s = time.monotonic() + self._meet_s
        while len(self.present) < self._size and self._goes_on(end_s):
            with suppress(queue.Empty):
                rank, message = self._inbox.get(timeout=LOOK_S)
                if message.get("here"):
                    self.present.add(rank)
                else:
                    self._early.append((rank, message))
        self._complete = True

    def _take(self, server: socket.socket) -> None:
        while True:
            try:
                sock, _ = server.accept()
            except TimeoutError:
                continue
            except OSError:
                return  # it is closed
            threading.Thread(target=self._hear, args=(Line(sock),), daemon=True).start()

    def _hear(self, line: Line) -> None:
        """Find out who it is, tell the time as often as asked, and pass on what it says."""
        end_s = time.monotonic() + HELLO_S
        first = line.receive(lambda: time.monotonic() < end_s) or {}
        rank, purpose = first.get("rank"), first.get("for")
        ours = first.get("crew") == self._context.crew.subject
        if not (ours and isinstance(rank, int) and 0 < rank < self._size):
            line.close()
        elif isinstance(purpose, str):
            self._asked[purpose] = line
        elif rank in self._lines or self._complete:
            line.close()
        else:
            self._lines[rank] = line
            while message := line.receive(lambda: not self._context.stopped()):
                if "ping" in message:
                    line.send({"pong": wall_clock()})
                else:
                    self._inbox.put((rank, message))
            self._inbox.put((rank, {"gone": True}))

    def _welcomed(self, purpose: str) -> Line | None:
        line = self._asked.pop(purpose, None)
        if line is None:
            time.sleep(LOOK_S / 10)
            return None
        line.send({"welcome": purpose})
        return _at_once(line)

    # The others.

    def _join(self) -> None:
        end_s = time.monotonic() + self._meet_s
        while self._goes_on(end_s):
            left_s = end_s - time.monotonic()
            self.trouble, sock = connect(self._place, left_s, careful=self._careful)
            if sock is None:
                time.sleep(LOOK_S if self.trouble == "refused" else 0.0)  # it does not listen yet
                continue
            self._lines[0] = line = Line(sock)
            line.send({"rank": self._rank, "crew": self._context.crew.subject})
            if self._read_clock(line, end_s):
                line.send({"here": True})
                self.trouble = None
                self.present.add(0)
            else:
                self.trouble = "stalled"
            return

    def _read_clock(self, line: Line, end_s: float) -> bool:
        """Of several questions the one that was answered soonest tells the difference best (RFC 5905, 8)."""
        best: tuple[float, float] | None = None
        for _ in range(PINGS):
            asked_s, begun_s = wall_clock(), time.monotonic()
            line.send({"ping": True})
            answer = line.receive(lambda: self._goes_on(end_s))
            if answer is None or "pong" not in answer:
                return False
            error_s = (time.monotonic() - begun_s) / 2
            found = error_s, asked_s + error_s - answer["pong"]
            best = found if best is None else min(best, found)
        assert best is not None
        self.ahead_error_s, self.ahead_s = best
        return True


def _at_once(line: Line) -> Line:
    """What is sent leaves at once, however little it is."""
    line.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return line
