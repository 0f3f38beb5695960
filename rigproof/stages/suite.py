"""Where the acceptance tests lie."""

from pathlib import Path


def suite_folder() -> Path:
    """`tests/hardware` of the checkout, else the one that the wheel carries."""
    package = Path(__file__).resolve().parents[1]
    checkout = package.parent / "tests" / "hardware"
    return checkout if checkout.is_dir() else package / "suite" / "hardware"
