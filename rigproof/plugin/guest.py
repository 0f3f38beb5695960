"""In other people's pytest runs: takes back what pytest-benchmark leaves there because rigproof needs it.

It prints a line about itself in every session, and makes an empty folder. Where somebody has asked for
pytest-benchmark, both are theirs.
"""

import re
from collections.abc import Generator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

FOLDER = ".benchmarks"  # pytest-benchmark's own, in the working directory
HEADER = re.compile(r"benchmark: \S+ \(defaults:")  # pytest-benchmark's own line, and nobody else's


def only_needed_by_others() -> bool:
    """Whether pytest-benchmark is here, and nobody has asked an installer for it (PEP 376: REQUESTED)."""
    try:
        return distribution("pytest-benchmark").read_text("REQUESTED") is None
    except PackageNotFoundError:
        return False


class Guest:
    """A plugin that undoes pytest-benchmark's traces; made before pytest-benchmark is configured."""

    def __init__(self, config: pytest.Config) -> None:
        self._folder = Path(config.invocation_params.dir) / FOLDER
        self._was_there = self._folder.exists()

    @pytest.hookimpl(wrapper=True)
    def pytest_report_header(self) -> Generator[None, list[object], list[object]]:
        """Leave out pytest-benchmark's line."""
        return [line for line in (yield) if not HEADER.match(str(line))]

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Remove its folder, if it is new and nothing was stored in it."""
        if not self._was_there:
            with suppress(OSError):
                self._folder.rmdir()
