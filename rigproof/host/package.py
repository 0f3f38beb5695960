"""Where this package is, for children of other interpreters, and the acceptance tests that come with it."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
ROOT = PACKAGE.parent  # what has to be on the path of an interpreter that imports it


def suite_folder() -> Path:
    """`tests/hardware` of the checkout, else the one in the wheel."""
    checkout = ROOT / "tests" / "hardware"
    return checkout if checkout.is_dir() else PACKAGE / "suite" / "hardware"
