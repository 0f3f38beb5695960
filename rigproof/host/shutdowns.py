"""The system's log of starts and shutdowns: wtmp(5), as `last -x` shows it.

A host that resets leaves a start without a shutdown before it; an orderly one is logged by the init system.
"""

import platform
import struct
from collections.abc import Iterator
from pathlib import Path

WTMP = Path("/var/log/wtmp")
TAIL_BYTES = 384 * 20_000  # the latest entries
# struct utmp of glibc with 32-bit times (utmp(5)): type, pid, line, id, user, host, exit
# status, session, seconds, microseconds, address, unused.
ENTRY = struct.Struct("<h2xi32s4s32s256shhiii16s20s")
MACHINES = ("x86_64", "AMD64", "i686")
RUN_LEVEL, BOOT = 1, 2
CLOCK_STEP_S = 2.0  # the log has whole seconds, which may be this much before the last words


def shut_down_after(wall_s: float, path: Path = WTMP) -> bool | None:
    """Whether the first entry after this moment (s since 1970) is an orderly shutdown.

    None if the log cannot be read, or has neither a start nor a shutdown after it.
    """
    if platform.machine() not in MACHINES:
        return None
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, (size - TAIL_BYTES) // ENTRY.size * ENTRY.size))
            content = file.read(TAIL_BYTES)
    except OSError:
        return None
    return first_after(wall_s, content)


def first_after(wall_s: float, content: bytes) -> bool | None:
    """Whether the first entry of this content after the moment is an orderly shutdown."""
    for moment_s, orderly in _changes(content):
        if moment_s >= wall_s - CLOCK_STEP_S:
            return orderly
    return None


def _changes(content: bytes) -> Iterator[tuple[int, bool]]:
    """Starts (False) and shutdowns (True) with their times, in the log's order."""
    whole = len(content) - len(content) % ENTRY.size
    for kind, _, _, _, user, _, _, _, _, moment_s, *_ in ENTRY.iter_unpack(content[:whole]):
        name = user.rstrip(b"\0")
        if kind == RUN_LEVEL and name == b"shutdown":
            yield moment_s, True
        elif kind == BOOT and name == b"reboot":
            yield moment_s, False
