"""The plugin run as users run it: in a pytest session of its own."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
PATIENCE_S = 120


@pytest.fixture
def hardware(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `pytest -m hardware` with these options; reports go below tmp_path."""

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-m",
                "hardware",
                "-p",
                "no:cacheprovider",
                f"--report-dir={tmp_path / 'reports'}",
                *options,
            ],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    return run
