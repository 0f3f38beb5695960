"""A program that takes all CPU time that it gets, for tests of who took it.

Of ordinary priority and in a session of its own it is one more among all that run here, and starves no test
beside it. With two threads for each CPU it is hungrier than those, so that it is named.
"""

import subprocess
import sys

HOG = (
    sys.executable,
    "-c",
    """
import os, threading, zlib

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
    return int(subprocess.run(orphan, capture_output=True, check=True, start_new_session=True).stdout)
