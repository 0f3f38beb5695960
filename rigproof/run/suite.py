"""The path of the acceptance tests."""

from pathlib import Path

from rigproof.host.package import PACKAGE, ROOT


def suite_folder() -> Path:
    """`tests/hardware` of the checkout, else the one in the wheel."""
    checkout = ROOT / "tests" / "hardware"
    return checkout if checkout.is_dir() else PACKAGE / "suite" / "hardware"
