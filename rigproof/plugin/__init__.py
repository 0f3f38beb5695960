"""The pytest plugin: options, parametrization over what the profile promises, verdicts, exit status.

Loaded in every pytest session of an environment that has rigproof, so it imports nothing heavy and does
nothing until `-m` asks for tests marked `hardware`.
"""

import gc

import pytest

from rigproof.host.garbage import without_collections
from rigproof.plugin.options import add_options, wants_hardware


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options of the acceptance suite."""
    add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Name the markers; if hardware tests are selected, prepare the run or refuse it (exit 4)."""
    config.addinivalue_line("markers", "hardware: judges this machine's hardware; needs `-m hardware`")
    config.addinivalue_line("markers", "criterion(name): the criterion that a hardware test judges")
    if wants_hardware(config):
        with without_collections(lasting=True):
            from rigproof.plugin.session import HardwareSession  # noqa: PLC0415 - only where it is used

        HardwareSession.register(config)


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Take what is there from garbage collection.

    Else pytest, in its own hook of this name, and Python at its end traverse all of Ray and the charts.
    """
    if wants_hardware(config):
        gc.freeze()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Outside an acceptance run hardware tests have no subjects; they are deselected by `-m` anyway."""
    judges = metafunc.definition.get_closest_marker("criterion") and "subject" in metafunc.fixturenames
    if judges and not wants_hardware(metafunc.config):
        metafunc.parametrize("subject", [])


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """`--plan` answers without a session: nothing is collected, nothing is loaded."""
    if not config.getoption("--plan"):
        return None
    from rigproof.plugin.plan import print_plan  # noqa: PLC0415 - only where it is used

    return print_plan(config)
