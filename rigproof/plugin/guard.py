"""What may keep an acceptance session from its verdict: signals, errors, what others make of its tests."""

import threading
from collections import Counter

import pytest

from rigproof.plugin.keys import criterion_and_subject
from rigproof.plugin.session import HardwareSession
from rigproof.records.message_text import one_line
from rigproof.records.verdict import Outcome
from rigproof.report.files.junit import LINE


class Guard:
    """A pytest plugin that notes what else than the rig may have kept the session from a verdict."""

    def __init__(self, session: HardwareSession) -> None:
        self._session = session
        self.broken = False  # by an error of rigproof itself
        self.causes: list[str] = []  # what else than the rig kept the run from a verdict, first cause first
        self.others_failed: list[str] = []  # tests that are no criterion of ours
        self.skipped: Counter[str] = Counter()  # reasons for which somebody else skipped our tests

    def pytest_sessionstart(self) -> None:
        """Have a signal end the run cleanly, from here to the last file."""
        if threading.current_thread() is threading.main_thread():
            self._session.signals.install()

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Note an interruption: what is not measured by now will not be. `pytest.exit` is no interruption."""
        if isinstance(excinfo.value, KeyboardInterrupt):
            self._session.interrupted = True
        elif self._session.refusal is None:
            self.causes.append(f"pytest.exit ended the session: {one_line(str(excinfo.value), LINE)}")

    def pytest_internalerror(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Note what ended the session in pytest or in a plugin."""
        error = one_line(excinfo.exconly(tryshort=True), LINE)
        self.causes.append(f"an error of pytest or of a plugin ended the session: {error}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """After an error of rigproof itself, skip the tests that follow: only the first error is reported."""
        if self.broken and criterion_and_subject(item):
            pytest.skip("the run was aborted before this; see the first error")

    def pytest_exception_interact(
        self,
        node: pytest.Item,
        call: pytest.CallInfo[object],
        report: pytest.TestReport | pytest.CollectReport,
    ) -> None:
        """Note an error outside a judgement: it is rigproof's own, and says nothing about the rig."""
        if not isinstance(report, pytest.TestReport) or not criterion_and_subject(node):
            return
        if report.when != "call" or not judged(report):
            if not self.broken and call.excinfo is not None:
                error = one_line(call.excinfo.exconly(tryshort=True), LINE)
                self.causes.append(f"an error of the run itself ended it: {error}")
            self.broken = True
            if node.nodeid in self.others_failed:
                self.others_failed.remove(node.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what others made of a test."""
        outcome = dict(report.user_properties).get("outcome")
        if report.failed and outcome != Outcome.FAIL:
            self.others_failed.append(report.nodeid)
        if report.skipped and outcome is None and isinstance(report.longrepr, tuple):
            self.skipped[report.longrepr[2].removeprefix("Skipped: ")] += 1


def judged(report: pytest.TestReport) -> bool:
    """Whether a test of ours came to a verdict."""
    return "outcome" in dict(report.user_properties)
