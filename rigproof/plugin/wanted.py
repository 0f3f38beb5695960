"""The plugin where rigproof is wanted: its markers, and an acceptance run if `-m hardware` asks for one."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rigproof.host.garbage import without_collections
from rigproof.host.package import ROOT
from rigproof.plugin.keys import DETECTION, SESSION
from rigproof.plugin.options import asks_to_simulate, wants_hardware
from rigproof.run.start_up import StartUp
from rigproof.telemetry.inventory import Detection


def pytest_configure(config: pytest.Config) -> None:
    """Name the markers; if hardware tests are selected, prepare the run or refuse it (exit 4)."""
    config.addinivalue_line("markers", "hardware: judges this machine's hardware; needs `-m hardware`")
    config.addinivalue_line("markers", "criterion(name): the criterion that a hardware test judges")
    if wants_hardware(config):
        start_up = StartUp()
        start_up.ended("pytest")
        config.stash[DETECTION] = None if asks_to_simulate(config) else Detection()  # beside the imports
        with without_collections(lasting=True), _complete():
            from rigproof.plugin.registration import register  # noqa: PLC0415 - only where it is used

        start_up.ended("imports")
        register(config, start_up)


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """End what looked for hardware, and take what is there from garbage collection.

    Else pytest, in its own hook of this name, and Python at its end traverse all of Ray and the charts.
    """
    if detection := config.stash.get(DETECTION, None):
        detection.stop()
    if SESSION in config.stash:
        gc.freeze()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Outside an acceptance run hardware tests have no subjects; they are deselected by `-m` anyway."""
    judges = metafunc.definition.get_closest_marker("criterion") and "subject" in metafunc.fixturenames
    if judges and SESSION not in metafunc.config.stash:
        metafunc.parametrize("subject", [])


def plan(config: pytest.Config) -> int:
    """Print the plan; returns the exit status."""
    with _complete():
        from rigproof.plugin.plan import print_plan  # noqa: PLC0415 - only where it is used

    return print_plan(config)


@contextmanager
def _complete() -> Iterator[None]:
    """Refuse the run where something that it needs is not installed, as in a checkout that is not."""
    try:
        yield
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] == "rigproof":
            raise
        raise pytest.UsageError(
            f"{sys.executable} has no module {error.name!r}, which an acceptance run needs; {_installing()}"
        ) from None


def _installing() -> str:
    if (ROOT / "constraints.txt").exists():
        venv = "python3 -m venv .venv && . .venv/bin/activate"
        return f"in {ROOT} type: {venv} && pip install -c constraints.txt -e ."
    return f"{sys.executable} -m pip check lists what else is missing"
