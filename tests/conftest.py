"""With RIGPROOF_NO_SKIPS, as `.ci/run` has it, a skipped test fails the run, but for want of GPUs."""

import os

import pytest

# Not for the acceptance runs that tests start, which skip on purpose.
NO_SKIPS = os.environ.pop("RIGPROOF_NO_SKIPS", "") not in ("", "0")


def _skipped(reporter: pytest.TerminalReporter) -> list[str]:
    """Tests and files, each with its reason."""
    from support.two_devices import TOO_FEW_GPUS  # noqa: PLC0415 - out of reach of who runs tests/hardware alone

    found = [(one.nodeid, one.longrepr[2]) for one in reporter.stats.get("skipped", ())]
    return [f"{node}: {reason}" for node, reason in found if TOO_FEW_GPUS not in reason]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run. One of pytest-xdist's processes has no reporter: the first one counts for all."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if NO_SKIPS and reporter is not None and _skipped(reporter):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say so."""
    if NO_SKIPS and (skipped := _skipped(terminalreporter)):
        terminalreporter.section("skipped, though nothing but a GPU may be missing")
        terminalreporter.line("\n".join(skipped))
