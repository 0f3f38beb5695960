"""What `rigproof accept` shows of its pytest session: the rig, the run, and its verdict."""

from collections.abc import Generator
from typing import Any

import pytest

JUNIT = "generated xml file:"  # which the page's folder has anyway


class PlainReporter(pytest.TerminalReporter):  # type: ignore[misc]  # other plugins inherit from it, too
    """pytest's reporter, without its greeting, its progress through the tests and its count of them.

    Errors, warnings and what is asked for by options of pytest are shown as pytest does.
    """

    showheader = False  # pytest's greeting: its platform, folders and plugins

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Show rig and plan."""
        super().pytest_sessionstart(session)
        display: Any = self.config.pluginmanager.get_plugin("rigproof-display")
        if self.verbosity >= 0 and display is not None:
            for line in display.pytest_report_header(self.config):
                self.write_line(line)
            self.flush()  # lines of the live view come by another way

    def pytest_collection(self) -> None:
        """Say nothing while tests are looked for."""

    def report_collect(self, final: bool = False) -> None:
        """Say nothing of how many tests were found."""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Say nothing of what the letters of tests mean: there are none."""

    def pytest_runtest_logstart(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        """Say nothing of the test that begins."""

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self) -> Generator[None, Any, Any]:
        """Count how a test ended, by a category, and show neither letter nor word for it."""
        category, *_ = yield
        return category, "", ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Say nothing of the share of tests that are over."""
        return (yield)

    def write_sep(self, sep: str, title: str | None = None, *more: Any, **markup: Any) -> None:
        """Write a title, but not that of JUnit's file."""
        if title is None or not title.startswith(JUNIT):
            super().write_sep(sep, title, *more, **markup)

    def summary_stats(self) -> None:
        """Say nothing of how many tests passed: the verdict is the last line."""

    def _report_keyboardinterrupt(self) -> None:
        """Say nothing of the line of code that was interrupted: the verdict says that the run was."""
