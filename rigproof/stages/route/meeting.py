"""The nodes' talk with each other: JSON lines over TCP, all with rank 0, and no wait without a deadline.

It is what tells that large packets get lost, so it sends none.
"""

import json
import queue
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

from rigproof.devices.specs import WorkerContext
from rigproof.stages.route.probes import connect, in_small_packets
from rigproof.stages.route.stage import Outcome

MEET_S = 10.0  # for all to come: workers begin within a second of each other
LOOK_S = 0.1
LINE_BYTES = 2**24
PINGS = 8

wall_clock = time.time  # s


class Over(Exception):  # noqa: N818 - named for the event
    """The crew has ended, or the one that all meet at is gone."""


class Line:
    """One end of a connection. What it receives has been sent by `send`, or is ignored."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._sock.settimeout(LOOK_S)
        self._own_address = str(sock.getsockname()[0]).partition("%")[0]
        self._rest = b""
        self._lock = threading.Lock()

    def send(self, message: Any) -> bool:
        """Send a message; False if nobody is there any more, or takes nothing for a while."""
        with self._lock, suppress(OSError):
            self._sock.settimeout(MEET_S)
            try:
                self._sock.sendall(json.dumps(message).encode() + b"\n")
            finally:
                self._sock.settimeout(LOOK_S)
            return True
        return False

    def receive(self, go_on: Callable[[], bool]) -> Any:
        """The next message; None if there is no more, or `go_on` says that it takes too long."""
        while b"\n" not in self._rest:
            if not go_on() or len(self._rest) > LINE_BYTES:
                return None
            try:
                data = self._sock.recv(2**16)
            except TimeoutError:
                continue
            except OSError:
                return None
            if not data:
                return None
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            return json.loads(line)
        except ValueError:
            return None

    @property
    def own_address(self) -> str:
        """The address of this end; empty once it is closed."""
        return self._own_address

    def close(self) -> None:
        """Close it."""
        self._sock.close()


class Meeting:
    """All members of the crew, met at rank 0's rendezvous. A context manager.

    `present`: ranks that came. `trouble`: what kept this member from rank 0. `ahead_s`: of rank 0's wall
    clock, ± `ahead_error_s`. Nobody has more than one connection: 128 nodes are 127 of them.
    """

    def __init__(self, context: WorkerContext) -> None:
        assert context.crew.rendezvous is not None
        self._context = context
        self._rank, self._size = context.crew.rank, context.crew.size
        self._lines: dict[int, Line] = {}
        self._inbox: queue.SimpleQueue[tuple[int, dict[str, Any]]] = queue.SimpleQueue()
        self._early: list[tuple[int, dict[str, Any]]] = []
        self._server: socket.socket | None = None
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
        for line in self._lines.values():
            line.close()
        if self._server is not None:
            self._server.close()

    @property
    def own_address(self) -> str:
        """This host's address at which it meets the others."""
        if self._rank == 0:
            return self._context.crew.rendezvous[0] if self._context.crew.rendezvous else ""
        return self._lines[0].own_address if 0 in self._lines else ""

    def exchange(self, topic: str, own: Any, wait_s: float) -> dict[int, Any]:
        """What each member says on a topic, by rank.

        All that came must take part; one that comes more than `wait_s` after rank 0 is left out from then on.
        Raises Over if the crew ended, or rank 0 did not answer.
        """
        if self._rank == 0:
            return self._collect(topic, own, wait_s)
        line = self._lines[0]
        line.send({"topic": topic, "says": own})
        end_s = time.monotonic() + wait_s + MEET_S
        while (answer := line.receive(lambda: self._goes_on(end_s))) is not None:
            if answer.get("topic") == topic:
                return {int(rank): says for rank, says in answer["all"].items()}
        raise Over

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

    def _goes_on(self, end_s: float) -> bool:
        self._context.alive()
        if self._context.stopped():
            raise Over
        return time.monotonic() < end_s

    # Rank 0.

    def _open(self) -> None:
        host, port = self._context.crew.rendezvous or ("", 0)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._server = socket.create_server((host, port), family=family, backlog=self._size)
        in_small_packets(self._server)
        self._server.settimeout(LOOK_S)
        self.ahead_s = self.ahead_error_s = 0.0
        end_s = time.monotonic() + MEET_S
        while len(self.present) < self._size and self._goes_on(end_s):
            with suppress(TimeoutError):
                sock, _ = self._server.accept()
                threading.Thread(target=self._hear, args=(Line(sock),), daemon=True).start()
            while not self._inbox.empty():
                rank, message = self._inbox.get()
                if message.get("here"):
                    self.present.add(rank)
                else:
                    self._early.append((rank, message))

    def _hear(self, line: Line) -> None:
        """Say who is there, tell the time as often as asked, and pass on what it says."""
        end_s = time.monotonic() + MEET_S
        first = line.receive(lambda: time.monotonic() < end_s)
        rank = first.get("rank") if isinstance(first, dict) else None
        known = isinstance(rank, int) and 0 < rank < self._size and rank not in self._lines
        if not known or first.get("crew") != self._context.crew.subject:
            line.close()
            return
        assert isinstance(rank, int)
        self._lines[rank] = line
        while isinstance(message := line.receive(lambda: not self._context.stopped()), dict):
            if "ping" in message:
                line.send({"pong": wall_clock()})
            else:
                self._inbox.put((rank, message))
        self._inbox.put((rank, {"gone": True}))

    # The others.

    def _join(self) -> None:
        assert self._context.crew.rendezvous is not None
        end_s = time.monotonic() + MEET_S
        while self._goes_on(end_s):
            self.trouble, sock = connect(
                self._context.crew.rendezvous, end_s - time.monotonic(), careful=True
            )
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
            if not isinstance(answer, dict) or "pong" not in answer:
                return False
            error_s = (time.monotonic() - begun_s) / 2
            found = error_s, asked_s + error_s - answer["pong"]
            best = found if best is None else min(best, found)
        assert best is not None
        self.ahead_error_s, self.ahead_s = best
        return True
