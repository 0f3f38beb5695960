"""What an end of a way counts: its thread's time, its card's bytes and errors, its connection's segments."""

import socket
import struct
import time
from dataclasses import dataclass, replace

from rigproof.host.interfaces import Counters, Interface, counters, interfaces
from rigproof.host.proc import TICKS_PER_S, waited_s
from rigproof.host.processes import stat_of

# struct tcp_info (linux/tcp.h): tcpi_total_retrans, and tcpi_data_segs_out of Linux 4.6 and later
TOTAL_RESENT, DATA_SEGMENTS_OUT = (100, "=I"), (156, "=I")


@dataclass(frozen=True, slots=True)
class End:
    """This end's interface; None if it was not found."""

    interface: Interface | None

    @classmethod
    def at(cls, address: str, other: str) -> "End":
        """The interface that has this address. If the other end has it, too, nothing leaves the host."""
        known = interfaces()
        if address == other:
            known = tuple(one for one in known if one.kind == "loopback")
            return cls(known[0] if known else None)
        return cls(next((one for one in known if one.has(address)), None))

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
    def now(cls, end: End, pid: int | None = None) -> "Moment":
        """The CPU time of this thread, or of all threads of a process, and the card's counters."""
        if pid is None:
            cpu_s = time.thread_time()
        else:
            found = stat_of(pid)
            cpu_s = found.ticks / TICKS_PER_S if found is not None else 0.0
        return cls(time.monotonic(), cpu_s, waited_s(pid=pid), end.count())

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
