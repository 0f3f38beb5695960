"""The pytest plugin: options, parametrization over what the profile promises, verdicts, exit status.

Loaded in every pytest session of an environment that has rigproof, so it imports nothing heavy. Where
rigproof is not wanted (`options.acts`), it only declares its options, and cleans up (`guest`).
"""

import os
from collections.abc import Generator

import pytest

from rigproof.host.package import refusal
from rigproof.host.standard_streams import outlive_readers
from rigproof.plugin.guest import Guest, only_needed_by_others
from rigproof.plugin.last_word import LastWord
from rigproof.plugin.options import (
    acts,
    add_options,
    refuse_options,
    refuse_untyped,
    select_hardware,
    wants_hardware,
)
from rigproof.plugin.options import only_asks as only_asks

LAST_WORD = "rigproof-last-word"


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the options of the acceptance suite; see to its exit status from the start."""
    add_options(parser)
    pluginmanager.register(LastWord(), LAST_WORD)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, object, object]:
    """Put the last word around the hooks of `-p`, of installed plugins and of the first conftest.py, too."""
    result = yield
    plugins = early_config.pluginmanager
    if (last_word := plugins.get_plugin(LAST_WORD)) is not None:
        plugins.unregister(last_word)
        plugins.register(last_word, LAST_WORD)  # who comes last is called first
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Load the rest where it is wanted; its own `pytest_configure` is called then."""
    if acts(config):
        from rigproof.plugin import wanted  # noqa: PLC0415 - only where it is used

        config.pluginmanager.register(wanted, "rigproof-wanted")
    elif only_needed_by_others():
        config.pluginmanager.register(Guest(config), "rigproof-guest")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Refuse what would keep a run from its verdict; `--hw-plan` answers without a session."""
    refuse_untyped(config)
    select_hardware(config)
    if not wants_hardware(config):
        return None
    if (why := refusal()) is not None:
        raise pytest.UsageError(why)
    outlive_readers()  # before pytest's terminal takes standard output
    os.environ.pop("PYTHONINSPECT", None)  # with which none of Ray's processes ends
    if not config.getoption("hw_plan"):
        refuse_options(config)
        return None
    from rigproof.plugin.wanted import plan  # noqa: PLC0415 - only where it is used

    return plan(config)
