"""What an acceptance session shows while it runs: its header, and how each test ended."""

import pytest

from rigproof.plugin.session import HardwareSession
from rigproof.records.verdict import Outcome
from rigproof.report.terminal.matrix_lines import on_screen, terminal_width
from rigproof.report.terminal.terminal import header_lines

LETTERS = ". pass, F FAIL, w WARN, n not measured, a not applicable, b no limit yet"


class Display:
    """A pytest plugin that writes the header and the word for each test's outcome."""

    def __init__(self, session: HardwareSession) -> None:
        self._session = session

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        """Clear the live view, since pytest is about to write the name of a test or of its file."""
        self._yield_terminal()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self) -> None:
        """Clear the live view, since pytest is about to write how a test ended."""
        self._yield_terminal()

    def _yield_terminal(self) -> None:
        if self._session.run is not None:
            self._session.run.yield_terminal()

    def pytest_report_header(self, config: pytest.Config) -> list[str]:
        """Show profile, rig, driver, torch, and the plan with its expected time."""
        inventory = self._session.prepared.inventory
        lines = header_lines(
            self._session.prepared.loaded,
            self._session.prepared.plan,
            nvml_error=inventory.nvml_error,
            driver_version=inventory.driver_version,
            simulated=self._session.prepared.simulated is not None,
        )
        reporter = config.pluginmanager.getplugin("terminalreporter")
        fits = reporter is not None and reporter.isatty()
        return [*on_screen(lines, terminal_width())] if fits else lines

    def pytest_report_collectionfinish(self, config: pytest.Config) -> list[str]:
        """Explain the letters of the tests that follow; with -v they are words."""
        return [LETTERS] if config.get_verbosity() == 0 and self._session.folder is not None else []

    def pytest_report_teststatus(
        self, report: pytest.TestReport | pytest.CollectReport
    ) -> tuple[str, str, str] | None:
        """Show tests that were not measured or do not apply as such, not as ordinary skips."""
        if not isinstance(report, pytest.TestReport):
            return None  # a file that could not be collected
        outcome = dict(report.user_properties).get("outcome")
        if report.when == "call" and outcome == Outcome.NOT_MEASURED:
            return "not measured", "n", "NOT MEASURED"
        if report.when == "call" and outcome == Outcome.NOT_APPLICABLE:
            return "not applicable", "a", "NOT APPLICABLE"
        if report.when == "call" and outcome == Outcome.WARN:
            return "warned", "w", "WARN"
        if report.when == "call" and outcome == Outcome.NO_LIMIT:
            return "no limit", "b", "NO LIMIT"
        return None
