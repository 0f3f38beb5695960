"""How a host's address is read, written and looked up, and which of its ports are free.

An IPv6 address has one spelling here, and brackets only before a port.
"""

import ipaddress
import os
import socket
from collections import deque
from contextlib import suppress

KEPT = 64
_kept: deque[int] = deque()  # sockets that are bound to free ports


def host_port(host: str, port: int) -> str:
    """HOST:PORT, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_and_port(address: str) -> tuple[str, int] | None:
    """The host, without brackets, and the port of HOST:PORT; None for any other text.

    An IPv6 address without brackets is none: nobody can tell where its port begins.
    """
    host, _, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        return None
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
        return None
    return host, int(port)


def one_spelling(host: str) -> str:
    """An IPv6 address as sockets and Ray write it, without brackets; any other name unchanged."""
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    with suppress(ValueError):
        return str(ipaddress.ip_address(bare))
    return host


def numeric(host: str) -> str:
    """The numeric address of a host, IPv4 if it has one. OSError if the name cannot be resolved here."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # a name that no DNS could hold
        raise OSError(str(error)) from error
    found.sort(key=lambda one: one[0] != socket.AF_INET)
    return str(found[0][4][0])


def same_host(hostname: str, written: str) -> bool:
    """Whether two host names are the same, one of them perhaps without its domain."""
    one, other = hostname.lower().rstrip("."), written.lower().rstrip(".")
    if one == other:
        return True
    short_allowed = "." not in one or "." not in other
    return short_allowed and bool(one) and one.split(".")[0] == other.split(".")[0] and not one[0].isdigit()


def free_ports(address: str, count: int) -> tuple[int, ...]:
    """`count` different ports, free at all IPv4 or IPv6 addresses here. OSError if this is none of them.

    This process keeps the last `KEPT` of them bound, so that the kernel gives them to nobody else: it takes
    seconds to load torch, and one port in 1,400 was gone within 8 s beside Rays that started. Who listens
    there needs SO_REUSEADDR, which torch's stores, NCCL's RAS and Python's servers set.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    socket.create_server((address, 0), family=family).close()
    found = []
    for _ in range(count):
        with socket.socket(family) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(("", 0))  # torch's stores listen at all addresses
            found.append(one.getsockname()[1])
            _kept.append(one.detach())
    while len(_kept) > max(KEPT, count):
        os.close(_kept.popleft())
    return tuple(found)
