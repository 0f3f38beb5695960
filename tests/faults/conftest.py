"""Whole acceptance runs in a process of their own, on real devices, and a hand to hurt them with."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support import (
    alone,  # noqa: F401 - sets the environment
    fault_times,
    real_runs,
)
from support.real_runs import RealRun


def pytest_sessionstart() -> None:
    """A table is of one session."""
    if fault_times.writing():
        fault_times.forget()


def pytest_sessionfinish() -> None:
    """Write the table, now that all rows are there."""
    if fault_times.writing() and fault_times.rows():
        fault_times.write_table()


@contextmanager
def _starting(folder: Path) -> Iterator[Callable[..., RealRun]]:
    runs: list[RealRun] = []
    home = folder / "home"
    home.mkdir()

    def start(*options: str, report_dir: Path | None = None, **further: object) -> RealRun:
        reports = report_dir or folder / f"reports{len(runs)}"
        output = folder / f"output{len(runs)}.txt"
        runs.append(real_runs.start(reports, output, "--hw-level=quick", *options, home=home, **further))
        return runs[-1]

    try:
        yield start
    finally:
        for run in runs:
            run.end()


@pytest.fixture
def start_run(tmp_path: Path) -> Iterator[Callable[..., RealRun]]:
    """Start an acceptance run with these options; whatever is left of it at the test's end is killed."""
    with _starting(tmp_path) as start:
        yield start


@pytest.fixture(scope="module")
def start_shared_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., RealRun]]:
    """Start acceptance runs that several tests of a module look at; killed at the module's end."""
    with _starting(tmp_path_factory.mktemp("runs")) as start:
        yield start


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Mount a tmpfs of this many MiB with these further options; skips where that is not possible."""
    places: list[Path] = []

    def mount(mib: int, *options: str) -> Path:
        if os.geteuid() != 0:
            pytest.skip("only root can mount a tmpfs")
        place = tmp_path / f"disk{len(places)}"
        place.mkdir()
        wanted = ",".join((f"size={mib}m", *options))
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", wanted, "tmpfs", str(place)], check=False, capture_output=True
        )
        if done.returncode != 0:
            pytest.skip(f"a tmpfs cannot be mounted here: {done.stderr.decode().strip()}")
        places.append(place)
        return place

    yield mount
    for place in places:
        subprocess.run(["umount", "-l", str(place)], check=True)
