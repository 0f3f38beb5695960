"""What NCCL itself says of a group that hangs, by its RAS subsystem: from 2.24 on each process answers.

That is evidence beside a rank's front, and never the judge: it has said OK in a hang (NVIDIA/nccl#1730).
"""

import socket
import time
from contextlib import suppress

from rigproof.host.addresses import free_ports

ADDRESS = "NCCL_RAS_ADDR"  # the variable with which a process is told where it answers
HOST = "127.0.0.1"
COLLECT_S = 2  # that its threads may take to ask each other
PATIENCE_S = COLLECT_S + 2.0
MOST_BYTES = 4096


def own_address() -> str:
    """A place of its own for a process to answer at; by default all of a host, and other jobs', share one."""
    return f"{HOST}:{free_ports(HOST, 1)[0]}"


def status_at(address: str) -> str:
    """What the process at that address says of its group; empty if none answers, as without NCCL."""
    host, _, port = address.rpartition(":")
    end_s, told = time.monotonic() + PATIENCE_S, b""
    with suppress(OSError), socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        connection.sendall(f"timeout {COLLECT_S}\nverbose status\n".encode())
        while len(told) < MOST_BYTES and (left_s := end_s - time.monotonic()) > 0:
            connection.settimeout(left_s)
            if not (part := connection.recv(MOST_BYTES)):
                break
            told += part
    return told[:MOST_BYTES].decode(errors="replace").removeprefix("OK\n").strip()
