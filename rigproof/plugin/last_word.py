"""The end of a session: whatever other plugins did, only a verdict makes its exit status 0 or 1."""

import sys
import traceback
from collections.abc import Generator
from typing import Any

import pytest

from rigproof.host.exit_status import (
    INTERRUPTED,
    end_guard,
    guard_status,
    interrupt_by_signals,
    interrupted_early,
    keep_status,
    noted_signal,
)
from rigproof.host.standard_streams import outlive_readers
from rigproof.plugin.keys import ENDING
from rigproof.plugin.options import shows_only, wants_hardware
from rigproof.records.verdict import EXIT_STATUS, Decision

VERDICTS = (EXIT_STATUS[Decision.ACCEPTED], EXIT_STATUS[Decision.REJECTED])
UNTESTED = EXIT_STATUS[Decision.INCOMPLETE]


class LastWord:
    """A plugin whose hook is around all others, so that it sees what they made of the exit status."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> Generator[None, int | None, int | None]:
        """Return the verdict's exit status for an acceptance run."""
        guarding = wants_hardware(config) and guard_status()
        if guarding:
            interrupt_by_signals()
        try:
            return (yield from self._of_the_verdict(config))
        finally:
            if guarding:
                end_guard()

    def _of_the_verdict(self, config: pytest.Config) -> Generator[None, int | None, int | None]:
        try:
            status, error = (yield), None
        except BaseException as raised:  # by another plugin, when the tests are over
            if not wants_hardware(config) or (isinstance(raised, pytest.UsageError) and not begun(config)):
                raise
            stopped = isinstance(raised, KeyboardInterrupt)
            status, error = INTERRUPTED if stopped else int(pytest.ExitCode.INTERNAL_ERROR), raised
        finally:
            if wants_hardware(config):
                outlive_readers()  # pytest has put the streams back that it found
        if config.option.hw_plan or not wants_hardware(config):
            return status
        ending: Any = config.stash.get(ENDING, None)
        if isinstance(error, pytest.UsageError):
            sys.stderr.write(f"ERROR: {error}\n")
        elif error is not None and status != INTERRUPTED and not folder_removed(config, error):
            traceback.print_exception(error, limit=-1, chain=False)
        if (option := shows_only(config)) is not None:
            say(config, f"nothing was tested: {option} only shows what there is; there is no verdict")
        elif ending is not None:
            status = ending.last_word(status, error)
        elif status == INTERRUPTED and noted_signal() is not None:
            say(config, interrupted_early())
        elif status in VERDICTS:
            say(config, "INCOMPLETE: nothing was tested: rigproof's hooks are switched off")
            status = UNTESTED
        sys.stdout.flush()
        keep_status(int(status or 0))
        return status


def folder_removed(config: pytest.Config, error: BaseException) -> str:
    """A sentence if somebody removed the folder in which the run started, to which pytest returns at its end.

    Empty if the error is another one.
    """
    folder = config.invocation_params.dir
    if not isinstance(error, FileNotFoundError) or error.filename != str(folder):
        return ""
    return f"{folder}: the run was started in this folder, and somebody removed it meanwhile"


def begun(config: pytest.Config) -> bool:
    """Whether a rig has been brought up: from then on the run ends with a verdict, whatever is raised."""
    ending: Any = config.stash.get(ENDING, None)
    return ending is not None and ending.begun


def say(config: pytest.Config, line: str) -> None:
    """Write a line as pytest does, or without it if its terminal is switched off."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if reporter is None:
        sys.stdout.write(f"{line}\n")
    else:
        reporter.ensure_newline()
        reporter.write_line(line)
        reporter.flush()
