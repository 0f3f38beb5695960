"""Whether a way from one address to another carries anything, how much, and packets of which size.

Each node answers at ports of its own, one for each of its addresses, and probes a few others: a way is open
if the node that was meant greets, and takes a burst whose checksum it sends back. Nothing of this needs a
privilege.
"""

import errno
import secrets
import socket
import struct
import threading
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Self

from rigproof.host.connections import Outcome, family_of, leave_by
from rigproof.stages.route.choice import Way

STALL_S = 3.0  # without any progress of a burst
BURST_S, BURST_BYTES = 0.12, 8 * 10**6
CHUNK_BYTES, FIRST_BYTES = 2**18, 2**14
BUFFER_BYTES = 2**18  # what may be under way: a slow link has little to catch up with
ANSWER_S, TRIES = 0.12, 4  # of a packet
SMALL = {4: 576, 6: 1280}  # what every network carries (RFC 1122, RFC 8200)
HEADERS = {4: 28, 6: 48}  # of IP and UDP
USUAL = (1500, 1492, 1420)  # MTUs to try first: Ethernet, PPPoE, WireGuard
# linux/in.h and in6.h: packets are not fragmented, and what the path told about its MTU is heeded.
IP_MTU_DISCOVER, IPV6_MTU_DISCOVER, PMTUDISC_DO = 10, 23, 2
IP_MTU, IPV6_MTU = 14, 24
GREETING_BYTES = 16


class Answers:
    """Answers probes of others at each of these addresses, until it is closed. A context manager.

    `greeting` tells this node from any other machine that has the address, too; `ports` by address.
    """

    def __init__(self, addresses: tuple[str, ...]) -> None:
        self.greeting = secrets.token_hex(GREETING_BYTES // 2)
        self.ports: dict[str, int] = {}
        self._sockets: list[socket.socket] = []
        self._closed = threading.Event()
        for address in addresses:
            with suppress(OSError):  # an address that went meanwhile, or is not ready yet
                self._serve(address)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        for one in self._sockets:
            with suppress(OSError):  # else a thread that waits for it would keep it open
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _serve(self, address: str) -> None:
        """One port for both protocols."""
        family = family_of(address)
        listener = socket.create_server((address, 0), family=family)
        self._sockets.append(listener)
        port = listener.getsockname()[1]
        echo = socket.socket(family, socket.SOCK_DGRAM)
        self._sockets.append(echo)
        echo.bind((address, port))
        for one, work in ((listener, self._accept), (echo, self._echo)):
            one.settimeout(0.2)
            threading.Thread(target=work, args=(one,), daemon=True).start()
        self.ports[address] = port

    def _accept(self, listener: socket.socket) -> None:
        while not self._closed.is_set():
            try:
                sock, _ = listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            threading.Thread(target=self._take, args=(sock,), daemon=True).start()

    def _take(self, sock: socket.socket) -> None:
        """Greet, take a burst, and tell its checksum."""
        with sock, suppress(OSError):
            sock.settimeout(2 * STALL_S)
            sock.sendall(self.greeting.encode())
            checksum = 0
            while not self._closed.is_set() and (length := struct.unpack("!I", _exactly(sock, 4))[0]):
                checksum = zlib.crc32(_exactly(sock, min(length, CHUNK_BYTES)), checksum)
            sock.sendall(struct.pack("!I", checksum))

    def _echo(self, echo: socket.socket) -> None:
        """Answer each packet with the size of what came, in a few bytes: so only its way here is tried."""
        while not self._closed.is_set():
            try:
                data, sender = echo.recvfrom(2**16)
                echo.sendto(struct.pack("!H", len(data)), sender)
            except TimeoutError:
                continue
            except OSError:
                if echo.fileno() < 0:
                    return


@dataclass(frozen=True, slots=True)
class Burst:
    """What came of a connection, and of a burst over it; `verified`: it arrived as it was sent."""

    outcome: Outcome
    seconds: float = 0.0
    megabytes: float = 0.0  # 10^6
    verified: bool = False

    @property
    def mbps(self) -> float:
        """Mbit/s; 0 if nothing was sent."""
        return 8 * self.megabytes / self.seconds if self.seconds else 0.0


def better(one: Burst, other: Burst) -> Burst:
    """The one that got further; of two that arrived the faster one."""
    return max(one, other, key=lambda it: (it.outcome == "open", it.outcome == "stalled", it.mbps))


def burst(sock: socket.socket, greeting: str) -> Burst:
    """Send for about BURST_S what the other end has to tell the checksum of."""
    try:
        sock.settimeout(STALL_S)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        if _exactly(sock, GREETING_BYTES).decode(errors="replace") != greeting:
            return Burst("stranger")
    except OSError:
        return Burst("stranger")
    data = secrets.token_bytes(CHUNK_BYTES)
    checksum, sent, size, begun_s = 0, 0, FIRST_BYTES, time.monotonic()
    try:
        while time.monotonic() - begun_s < BURST_S and sent < BURST_BYTES:
            part = data[:size]
            sock.sendall(struct.pack("!I", size) + part)
            checksum, sent, size = zlib.crc32(part, checksum), sent + size, min(2 * size, CHUNK_BYTES)
        sock.sendall(struct.pack("!I", 0))
        answer = struct.unpack("!I", _exactly(sock, 4))[0]
    except OSError:
        return Burst("stalled")
    return Burst("open", time.monotonic() - begun_s, sent / 1e6, answer == checksum)


def _exactly(sock: socket.socket, length: int) -> bytes:
    got = bytearray()
    while len(got) < length:
        more = sock.recv(length - len(got))
        if not more:
            raise ConnectionError("it ended")
        got += more
    return bytes(got)


@dataclass(frozen=True, slots=True)
class Packets:
    """Sizes of IP packets: `full`, tried as the largest; `passed`, 0 if none did; `told` by the path."""

    full: int
    passed: int
    told: int | None = None


def packets(way: Way, port: int, mtu: int, go_on: Callable[[], bool]) -> Packets:
    """The largest packet that arrives without being fragmented, up to the interface's own MTU.

    If the path tells its own (ICMP), as a router does, that is the full size: TCP heeds it, too.
    """
    version = ip_address(way.target).version
    mtu = min(mtu, 65535)  # of IP
    with socket.socket(socket.AF_INET6 if version == 6 else socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            leave_by(sock, way.source, way.interface)
            level, option = (
                (socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER)
                if version == 6
                else (socket.IPPROTO_IP, IP_MTU_DISCOVER)
            )
            sock.setsockopt(level, option, PMTUDISC_DO)
            sock.connect((way.target, port))
        except OSError:
            return Packets(mtu, 0)
        probe = _Packet(sock, version, go_on)
        small = SMALL[version]
        if not probe.passes(small):
            return Packets(mtu, 0)
        full, told = mtu, None
        if not probe.passes(full) and (path := probe.path_mtu()) < full:
            full = told = max(path, small)
        return Packets(full, full if probe.passes(full) else probe.largest(small, full), told)


class _Packet:
    """Packets of one socket; what passed once has passed."""

    def __init__(self, sock: socket.socket, version: int, go_on: Callable[[], bool]) -> None:
        self._sock = sock
        self._version = version
        self._headers = HEADERS[version]
        self._go_on = go_on
        self._passed: set[int] = set()

    def path_mtu(self) -> int:
        level, option = (socket.IPPROTO_IPV6, IPV6_MTU) if self._version == 6 else (socket.IPPROTO_IP, IP_MTU)
        return self._sock.getsockopt(level, option)

    def passes(self, size: int) -> bool:
        """Whether the other end tells that a packet of this size has come."""
        payload = size - self._headers
        for _ in range(TRIES):
            if size in self._passed or not self._go_on():
                break
            try:
                self._sock.send(bytes(payload))
            except OSError as error:
                if error.errno == errno.EMSGSIZE:  # it has been told that this is too much
                    return False
            end_s = time.monotonic() + ANSWER_S
            while size not in self._passed and (left_s := end_s - time.monotonic()) > 0:
                self._sock.settimeout(left_s)
                with suppress(OSError):
                    self._passed.add(struct.unpack("!H", self._sock.recv(2))[0] + self._headers)
        return size in self._passed

    def largest(self, low: int, high: int) -> int:
        """Of sizes from `low`, which passes, to below `high`, which does not."""
        for usual in USUAL:
            if low < usual < high and self.passes(usual):
                low = usual
                if not self.passes(usual + 1):
                    return usual
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.passes(middle) else (low, middle)
        return low
