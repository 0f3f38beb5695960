"""The plugin run as users run it: in a pytest session of its own."""

import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from support import alone  # noqa: F401 - sets the environment
from support.acceptance import Run, accept, run_pytest
from support.garbage import own_garbage_of_module, pytest_collection, pytest_unconfigure
from support.reruns import pytest_configure
from support.rig_profile import profile_text

__all__ = ["own_garbage_of_module", "pytest_collection", "pytest_configure", "pytest_unconfigure"]


@pytest.fixture
def hardware(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `pytest -m hardware` with these options; reports go below tmp_path."""

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        return run_pytest("-m", "hardware", f"--hw-report-dir={tmp_path / 'reports'}", *options)

    return run


@pytest.fixture(scope="session")
def two_nodes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The canned rig's profile, in a file."""
    profile = tmp_path_factory.mktemp("profile") / "two-nodes.toml"
    profile.write_text(profile_text())
    return profile


@pytest.fixture(scope="session")
def acceptance(tmp_path_factory: pytest.TempPathFactory, two_nodes: Path) -> Callable[..., Run]:
    """Run a scenario of the canned rig. Each runs once for all tests: what it left is to be read only."""

    @cache
    def run(scenario: str, *options: str) -> Run:
        return accept(tmp_path_factory.mktemp("reports"), two_nodes, scenario, *options)

    return run
