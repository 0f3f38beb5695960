"""A program that takes all CPU time that it gets, for tests of who took it.

It is in a session of its own, for which there is one share of the CPU however many threads it has (sched(7),
autogroup), and three if root runs it: it starves nothing beside it, and is hungrier, so that it is named.
"""

import subprocess
import sys

HOG = (
    sys.executable,
    "-c",
    """
import contextlib, os, pathlib, threading, zlib

os.setsid()
with contextlib.suppress(OSError):
    os.nice(-5)  # three times the weight of 0; of its session:
    pathlib.Path("/proc/self/autogroup").write_text("-5")
data = bytes(2**20)  # for which the GIL is let go

def loop():
    while True:
        zlib.crc32(data)

for _ in range(2 * len(os.sched_getaffinity(0))):
    threading.Thread(target=loop).start()
""",
)


def orphaned_hog() -> int:
    """Start one whose parent has gone, and return its pid. Its end is the caller's to see to."""
    orphan = ("sh", "-c", '"$@" >/dev/null 2>&1 & echo $!', "orphan", *HOG)
    return int(subprocess.run(orphan, capture_output=True, check=True).stdout)
