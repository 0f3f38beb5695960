"""Where this package and its acceptance tests are, and on which systems it runs."""

import platform
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
ROOT = PACKAGE.parent  # what has to be on the path of an interpreter that imports it


def suite_folder() -> Path:
    """`tests/hardware` of the checkout, else the one in the wheel."""
    checkout = ROOT / "tests" / "hardware"
    return checkout if checkout.is_dir() else PACKAGE / "suite" / "hardware"


def refusal() -> str | None:
    """Why this system cannot be tested; None on Linux."""
    name = str(sys.platform)  # a type checker believes that it never changes
    if name == "linux":
        return None
    return (
        f"this system is {platform.system() or name}, and rigproof tests Linux hosts alone, by "
        "/proc, /sys and NVIDIA's driver for Linux: run it on the Linux host that has the GPUs"
    )
