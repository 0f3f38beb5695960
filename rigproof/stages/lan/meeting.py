"""Where the two ends meet: connections over the way that is measured, and what thread and card count.

Every wait ends: if nothing comes for a while (`SilentError`), or as soon as the crew ends (`EndedError`).
"""

import json
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from rigproof.devices.specs import WorkerContext
from rigproof.host.addresses import host_port
from rigproof.host.interfaces import Counters, Interface, counters, interfaces, link_mbps
from rigproof.host.proc import waited_s

MEET_S = 20.0  # for the other one's process to start and to be reached
SILENT_S = 5.0  # without a byte, of a way on which bytes are due: TCP itself tries again after 0.2 to 3 s
LOOK_S = 0.1  # between two looks at whether the crew has ended
LONGEST_LINE = 4096
OK = b"ok\n"
# struct tcp_info (linux/tcp.h): tcpi_total_retrans, and tcpi_data_segs_out of Linux 4.6 and later
TOTAL_RESENT, DATA_SEGMENTS_OUT = (100, "=I"), (156, "=I")

Made = TypeVar("Made")


class SilentError(RuntimeError):
    """Nothing came through."""


class EndedError(RuntimeError):
    """The crew has ended."""


class Meeting:
    """One of two ends. The first listens at the rendezvous, the second connects to it. A context manager.

    `other`: the other node's name, as soon as it has said it; `address`: this end's own.
    """

    def __init__(self, context: WorkerContext, node: str) -> None:
        assert context.crew.rendezvous is not None, "two members have a place to meet"
        self.context = context
        self.node = node
        self.other = "the other node"
        self.address = ""
        self.first = context.crew.rank == 0
        self._place = context.crew.rendezvous
        self._server: socket.socket | None = None

    def __enter__(self) -> "Meeting":
        if self.first:
            family = socket.AF_INET6 if ":" in self._place[0] else socket.AF_INET
            self._server = socket.create_server(self._place, family=family)
            self._server.settimeout(LOOK_S)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._server is not None:
            self._server.close()

    def line(self, purpose: str, limit_s: float | None = None) -> socket.socket:
        """A connection for this purpose, which both ends ask for. Whoever else calls is sent away."""
        connect = self._accepted if self.first else self._connected
        last = ""

        def tried() -> socket.socket | None:
            nonlocal last
            try:
                return connect(purpose)
            except OSError as error:
                last = f": {error.strerror or error}"
                if not isinstance(error, TimeoutError):
                    time.sleep(LOOK_S)
                return None

        def why() -> str:
            where = host_port(*self._place)
            return f"nobody came to {where}" if self.first else f"{where} could not be reached{last}"

        line = self.patiently(tried, why, limit_s or MEET_S)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.address = line.getsockname()[0]
        return line

    def patiently(self, what: Callable[[], Made | None], why: Callable[[], str], limit_s: float) -> Made:
        """What it gives, however often it has to be tried. Raises SilentError, EndedError."""
        end_s = time.monotonic() + limit_s
        while not self.context.stopped():
            self.context.alive()
            with suppress(TimeoutError):
                if (made := what()) is not None:
                    return made
            if time.monotonic() > end_s:
                raise SilentError(f"{why()} for {limit_s:g} s")
        raise EndedError

    def some(self, line: socket.socket, room: memoryview) -> int:
        """Receive some bytes; how many, 0 at the end of the line."""
        return self.patiently(
            lambda: line.recv_into(room), lambda: f"nothing came from {self.other}", SILENT_S
        )

    def told(self, line: socket.socket, **own: Any) -> dict[str, Any]:
        """Tell the other end this, and get what it tells. SilentError if the line ends instead."""
        line.sendall(json.dumps(own).encode() + b"\n")
        answer: dict[str, Any] = json.loads(self._text(line))
        return answer

    def _nothing(self) -> str:
        return f"nothing came from {self.other}"

    def _accepted(self, purpose: str) -> socket.socket | None:
        assert self._server is not None
        line, _ = self._server.accept()
        try:
            line.settimeout(LOOK_S)
            wanted, node = json.loads(self._text(line, 1.0))
            if wanted == self._name(purpose):
                self.other = str(node)
                line.sendall(json.dumps(self.node).encode() + b"\n")
                return line
        except (ValueError, SilentError, OSError):
            pass  # a scanner of ports, or what is left of an earlier try
        line.close()
        return None

    def _connected(self, purpose: str) -> socket.socket | None:
        line = socket.create_connection(self._place, 1.0)
        try:
            line.settimeout(LOOK_S)
            line.sendall(json.dumps([self._name(purpose), self.node]).encode() + b"\n")
            self.other = str(json.loads(self._text(line)))
        except (ValueError, SilentError, OSError):
            line.close()
            return None
        return line

    def _name(self, purpose: str) -> str:
        return f"rigproof {self.context.crew.subject} {purpose}"

    def _text(self, line: socket.socket, limit_s: float = SILENT_S) -> bytes:
        """A line of text."""
        found, letter = b"", bytearray(1)
        while not found.endswith(b"\n"):
            if not self.patiently(lambda: line.recv_into(letter), self._nothing, limit_s):
                raise SilentError(f"{self.other} ended the connection")
            found += letter
            if len(found) > LONGEST_LINE:
                raise ValueError("too long a line")
        return found


@dataclass(frozen=True, slots=True)
class End:
    """This end's interface, with the speed of its card."""

    interface: Interface | None
    link_mbps: float | None

    @classmethod
    def at(cls, address: str, other: str) -> "End":
        """The interface that has this address. If the other end has it, too, nothing leaves the host."""
        known = interfaces()
        if address == other:
            known = tuple(one for one in known if one.kind == "loopback")
            return cls(known[0] if known else None, None)
        for one in known:
            if any(str(own.ip) == address for own in one.parsed()):
                return cls(one, link_mbps(one.name))
        return cls(None, None)

    def count(self) -> Counters | None:
        """What its interface has counted so far."""
        return None if self.interface is None else counters().get(self.interface.name)


@dataclass(frozen=True, slots=True)
class Moment:
    """What has been counted so far; the difference of two moments is what happened between."""

    t_s: float
    cpu_s: float
    waiting_s: float | None
    card: Counters | None

    @classmethod
    def now(cls, end: End, *, whole_process: bool = False) -> "Moment":
        """This thread's, or all the process' threads' CPU time, and the card's counters."""
        cpu_s = time.process_time() if whole_process else time.thread_time()
        return cls(time.monotonic(), cpu_s, waited_s(whole_process=whole_process), end.count())

    def since(self, before: "Moment") -> "Spent":
        """What was spent between two moments."""
        seconds = max(self.t_s - before.t_s, 1e-9)
        waited = None
        if self.waiting_s is not None and before.waiting_s is not None:
            waited = max(0.0, self.waiting_s - before.waiting_s) / seconds
        spent = Spent(seconds, (self.cpu_s - before.cpu_s) / seconds, waited)
        if self.card is None or before.card is None:
            return spent
        return replace(
            spent,
            sent_mb=(self.card.sent_bytes - before.card.sent_bytes) / 1e6,
            received_mb=(self.card.received_bytes - before.card.received_bytes) / 1e6,
            errors=self.card.errors - before.card.errors,
            drops=self.card.drops - before.card.drops,
        )


@dataclass(frozen=True, slots=True)
class Spent:
    """Between two moments: shares of the time, and what the interface counted; None if that is not known."""

    seconds: float
    cpu_share: float
    waiting_share: float | None
    sent_mb: float | None = None
    received_mb: float | None = None
    errors: int | None = None
    drops: int | None = None


def segments(line: socket.socket) -> tuple[int, int] | tuple[None, None]:
    """How many segments with data a connection has sent, and sent again; None if the kernel does not say."""
    told = line.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 512)
    sent_at, sent_form = DATA_SEGMENTS_OUT
    if len(told) < sent_at + struct.calcsize(sent_form):
        return None, None
    (sent,) = struct.unpack_from(sent_form, told, sent_at)
    (resent,) = struct.unpack_from(TOTAL_RESENT[1], told, TOTAL_RESENT[0])
    return sent, resent
