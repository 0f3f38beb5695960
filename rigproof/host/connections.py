"""Connections to another host: what comes of one, by which interface it leaves, and in how large packets."""

import errno
import socket
from contextlib import suppress
from typing import Literal

# What came of a connection: greeted by the node that was meant; refused, or said to be unreachable (a
# firewall that rejects does either); no answer at all; greeted by another machine with that address; or
# greeted, and then larger pieces were never acknowledged.
Outcome = Literal["open", "refused", "unreachable", "no answer", "stranger", "stalled"]

CONNECT_S = 3.6  # the kernel asks again after 1 s and after 3: two lost packets are no firewall
SEGMENT_BYTES = 500  # in a packet that every network carries
UNREACHABLE = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EACCES, errno.EPERM, errno.EADDRNOTAVAIL}


def connect(
    address: tuple[str, int], wait_s: float, source: str = "", interface: str = "", *, careful: bool = False
) -> tuple[Outcome, socket.socket | None]:
    """A connection, and what came of it. `source`, `interface`: where it leaves this host.

    `careful`: in packets that any network carries.
    """
    sock = socket.socket(family_of(address[0]), socket.SOCK_STREAM)
    try:
        leave_by(sock, source, interface)
        if careful:
            in_small_packets(sock)
        sock.settimeout(max(0.1, min(wait_s, CONNECT_S)))
        sock.connect(address)
    except OSError as error:
        sock.close()
        if isinstance(error, TimeoutError):
            return "no answer", None
        return ("unreachable" if error.errno in UNREACHABLE else "refused"), None
    return "open", sock


def listen(place: tuple[str, int], backlog: int, *, careful: bool = False) -> socket.socket:
    """A socket that takes connections there; `careful`: they use packets that any network carries."""
    server = socket.create_server(place, family=family_of(place[0]), backlog=backlog)
    if careful:
        in_small_packets(server)
    return server


def family_of(host: str) -> socket.AddressFamily:
    """The family of a numeric address."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def in_small_packets(sock: socket.socket) -> None:
    """Keep a connection, or those that a listening socket accepts, from large packets, which may get lost."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)


def leave_by(sock: socket.socket, source: str, interface: str) -> None:
    """Let what a socket sends leave this host by an interface, and from an address of it."""
    if interface:
        with suppress(OSError):  # kernels before 5.7 want a privilege for it: the address has to do
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
    if source:
        sock.bind((source, 0))
