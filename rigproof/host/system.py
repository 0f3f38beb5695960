"""rigproof tests Linux hosts; elsewhere it says so, before it imports what such a system lacks."""

import platform
import sys


def refusal() -> str | None:
    """Why this system cannot be tested; None on Linux."""
    name = str(sys.platform)  # a type checker believes that it never changes
    if name == "linux":
        return None
    return (
        f"this system is {platform.system() or name}, and rigproof tests Linux hosts alone, by "
        "/proc, /sys and NVIDIA's driver for Linux: run it on the Linux host that has the GPUs"
    )
