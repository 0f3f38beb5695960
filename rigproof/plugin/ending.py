"""The end of an acceptance session: its verdict, its files, its exit status, and what is said about them."""

import os
import shutil
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from pathlib import Path
from xml.etree.ElementTree import ParseError

import pytest

from rigproof.cluster.ray import leaving
from rigproof.host.exit_status import INTERRUPTED, interrupted_early, noted_signal
from rigproof.plugin.benchmarks import BenchmarkHooks
from rigproof.plugin.conclusion import Judged, conclude
from rigproof.plugin.guard import Guard, judged
from rigproof.plugin.last_word import UNTESTED, VERDICTS, folder_removed, say
from rigproof.plugin.notice import notify
from rigproof.plugin.session import HardwareSession
from rigproof.records.message_text import one_line
from rigproof.records.verdict import USAGE, Decision, Outcome
from rigproof.report.files.folders import short_name
from rigproof.report.files.junit import LINE, conclude_junit, finish_junit
from rigproof.report.terminal.annotations import annotations
from rigproof.report.terminal.matrix_lines import terminal_width
from rigproof.report.terminal.terminal import print_summary, summary_lines

FAILED = (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR)
UNSAID = (UNTESTED, pytest.ExitCode.INTERNAL_ERROR)  # exit statuses for which pytest gives no reason


class Ending:
    """A pytest plugin that concludes the run; `own_junit` is the file of the user's own `--junitxml`."""

    def __init__(
        self, session: HardwareSession, guard: Guard, benchmarks: BenchmarkHooks, own_junit: str | None
    ) -> None:
        self._session = session
        self._guard = guard
        self._benchmarks = benchmarks
        self._own_junit = own_junit
        self._printed = False
        self._not_told = ""  # why the command of --hw-notify failed

    @property
    def begun(self) -> bool:
        """Whether a rig has been brought up."""
        return self._session.run is not None

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Return the signals to pytest, and leave no folder in which nothing is recorded.

        If Ray would not let this process end, it ends here.
        """
        session = self._session
        session.signals.restore()
        if session.folder is not None and session.run is None:
            shutil.rmtree(session.folder, ignore_errors=True)  # only JUnit's file is in it
        if leaving.held_by_ray() and (session.conclusion is not None or session.refusal is not None):
            status = self.last_word(USAGE)
            session.config.get_terminal_writer().flush()
            leaving.leave(status)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Generator[None, None, None]:
        """Close the rig, decide, write the files of the run, and set the exit status.

        The innermost wrapper: JUnit and fixtures are done when it continues, the terminal's summary is not.
        """
        problems = []
        try:
            yield
        except OSError as error:  # JUnit's file, on a disk that is full or gone; the verdict must not suffer
            path = error.filename or self._session.folder
            problems.append(f"{path}: not written: {error.strerror or error}")
        except Exception as error:  # another plugin's, whose failure is not the rig's
            problems.append(f"another plugin failed at the session's end: {type(error).__name__}: {error}")
        if self._session.refusal is not None:
            self._notify("REFUSED", USAGE, [f"REFUSED: {self._session.refusal}"])
            if self._not_told:
                say(self._session.config, self._not_told)
            say(self._session.config, f"ERROR: {self._session.refusal}")
        if self._session.folder is not None:
            if stopped := session.shouldstop or session.shouldfail:
                self._guard.causes.append(f"pytest stopped the session: {stopped}")
            self._conclude(exitstatus, problems)
            session.exitstatus = self._final(exitstatus)

    def _conclude(self, exit_status: int, problems: list[str]) -> None:
        """Close the rig, decide, and write the files of the run, if there was one."""
        session = self._session
        if session.run is not None and not problems:
            problems += self._finish_junit()
        # Where nothing was tested, a file without a failure would look green.
        if session.run is not None or exit_status in FAILED:
            problems += self._copy_junit()
        if session.run is None or session.folder is None:
            return
        session.close()
        if self._benchmarks.problem:
            problems.append(self._benchmarks.problem)
        problems = [*self._guard.causes, *_failures(self._guard.others_failed), *problems]
        failed = Outcome.FAIL in (verdict.outcome for verdict in session.verdicts.values())
        if exit_status and not (problems or failed or session.interrupted):
            problems = [
                f"pytest, or a plugin, ended with exit status {exit_status}, though no criterion failed"
            ]
        known = Judged(
            session.verdicts, session.interrupted, self._guard.broken, exit_status, tuple(problems)
        )
        session.conclusion = conclude(session.prepared, session.run, session.folder, known, session.started_s)
        result = session.conclusion.result
        *more, last = summary_lines(result, session.folder)
        verdict = f"{'SIMULATED ' if result.simulated else ''}{result.decision.value}"
        self._conclude_junit(last)
        self._notify(verdict, session.conclusion.exit_status, [last, *more])
        self._say_once()

    def _notify(self, verdict: str, exit_status: int, lines: Sequence[str]) -> None:
        """Run the command of --hw-notify, if there is one. Its input is the rig's name and these lines."""
        session = self._session
        prepared, judged_at = session.prepared, session.folder if session.conclusion else ""
        if prepared.request.notify is None:
            return
        variables = {
            "RIGPROOF_VERDICT": verdict,
            "RIGPROOF_EXIT_STATUS": str(exit_status),
            "RIGPROOF_RIG": prepared.loaded.rig.name,
            "RIGPROOF_REPORT": str(judged_at),
        }
        text = f"{prepared.loaded.rig.name} " + "\n".join([*lines, ""])
        self._not_told = notify(prepared.request.notify, text, variables)

    def _final(self, status: int) -> int:
        """The exit status for a session that pytest, or another plugin, ended with `status`."""
        if self._session.conclusion is not None:
            return self._session.conclusion.exit_status
        if self._session.refusal is not None:
            return USAGE
        if self._guard.broken and status in VERDICTS:
            return int(pytest.ExitCode.INTERNAL_ERROR)
        return UNTESTED if status in VERDICTS else status

    def last_word(self, status: int, error: BaseException | None = None) -> int:
        """The exit status at the very end; says what it means, where that has not been said.

        `status`: what pytest would end with. `error`: what another plugin raised instead of ending. A rig
        that is still up is taken down and judged by what it did.
        """
        if self._session.run is not None and self._session.conclusion is None:
            self._conclude(0, [self._why_early(error)])
        final = self._final(status)
        if not self._printed:
            self._print(lambda line: say(self._session.config, line))
            if not self._printed and final in UNSAID:
                say(self._session.config, f"INCOMPLETE: nothing was tested: {self._why_untested()}")
            elif not self._printed and final == INTERRUPTED and noted_signal() is not None:
                say(self._session.config, interrupted_early())
        return final

    def _why_early(self, error: BaseException | None) -> str:
        """The reason why the session ended before its end, if known from the `error` that was raised."""
        removed = "" if error is None else folder_removed(self._session.config, error)
        what = "" if error is None else f": {type(error).__name__}: {one_line(str(error), LINE)}"
        return removed or f"another plugin ended the session before its end{what}"

    def _why_untested(self) -> str:
        """The reason why no selected test opened the run, or who is suspected."""
        if self._guard.causes:
            return self._guard.causes[0]
        if self._guard.skipped:
            reason, number = self._guard.skipped.most_common(1)[0]
            return f"{number} tests were skipped by another plugin or a conftest.py: {reason}"
        hooks = ("pytest_runtest_protocol", "pytest_runtestloop", "pytest_pyfunc_call")
        found = [one for name in hooks for one in getattr(self._session.config.hook, name).get_hookimpls()]
        runners = [one for one in found if not (one.hookwrapper or one.wrapper)]
        others = {one.plugin_name for one in runners if _foreign(one.function)}
        if others:
            return f"no test was run, perhaps by {', '.join(sorted(others))}, which can do that; leave it out"
        return "no test that judges a criterion was run"

    def _say_once(self) -> None:
        """Leave out pytest's lists of failures where the sentences below the table of verdicts say it all."""
        config = self._session.config
        reporter, option = config.pluginmanager.getplugin("terminalreporter"), config.option
        if reporter is None or reporter.stats.get("error"):
            return
        if all(map(judged, reporter.getreports("failed"))):
            if option.tbstyle == "auto":  # what the user chose stays
                option.tbstyle = "no"
            if option.reportchars == "fE":
                reporter.reportchars = reporter.reportchars.replace("f", "")

    def _finish_junit(self) -> list[str]:
        """Bring pytest's JUnit file into the form that CI systems read; nothing if there is none."""
        folder, prepared = self._session.folder, self._session.prepared
        assert folder is not None
        path = folder / "junit.xml"
        run = {
            "rig": prepared.loaded.rig.name,
            "level": prepared.level,
            "run_id": folder.name,
            "simulated": str(prepared.simulated is not None).lower(),
            **({"tags": " ".join(prepared.request.tags)} if prepared.request.tags else {}),
        }
        try:
            if path.exists():  # not with -p no:junitxml
                finish_junit(path, run)
        except OSError as error:
            return [f"{error.filename or path}: not written: {error.strerror or error}"]
        return []

    def _conclude_junit(self, line: str) -> None:
        """State the verdict in JUnit's files. Where that fails, they go on calling it an error."""
        session, path = self._session, self._session.folder
        assert session.conclusion is not None
        assert path is not None
        with suppress(OSError, ParseError):  # what pytest itself could not write whole
            accepted = session.conclusion.result.decision is Decision.ACCEPTED
            conclude_junit(path / "junit.xml", line, accepted=accepted)
            self._copy_junit()

    def _copy_junit(self) -> list[str]:
        """Copy the run's JUnit file to the user's own --junitxml."""
        if self._own_junit is None or self._session.folder is None:
            return []
        try:
            Path(self._own_junit).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self._session.folder / "junit.xml", self._own_junit)
        except OSError as error:
            return [f"{self._own_junit}: not written: {error.strerror or error}"]
        return []

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The verdict table, what to do, and where the files are."""
        terminalreporter.ensure_newline()
        self._print(terminalreporter.write_line)

    def _print(self, write_line: Callable[[str], None]) -> None:
        session, conclusion = self._session, self._session.conclusion
        if conclusion is None or session.folder is None:
            return
        reporter = session.config.pluginmanager.getplugin("terminalreporter")
        for line in (*conclusion.result.remarks, *conclusion.kept):
            write_line(line)
        print_summary(
            conclusion.result,
            short_name(session.folder),
            write_line,
            width=terminal_width(),
            on_terminal=reporter is not None and reporter.isatty(),
            everything=session.config.get_verbosity() > 0,
            color=reporter is not None and reporter.hasmarkup,
            notices=[*filter(None, [self._not_told])],
        )
        if os.environ.get("GITHUB_ACTIONS") == "true":
            for line in annotations(conclusion.result):
                write_line(line)
        self._printed = True


def _failures(tests: Sequence[str]) -> list[str]:
    """A sentence about failed tests that judge no criterion; none if there are none."""
    if not tests:
        return []
    more = f" and {len(tests) - 1} more" if tests[1:] else ""
    return [f"{tests[0]}{more} failed, though no criterion did"]


def _foreign(function: Callable[..., object]) -> bool:
    """Whether a hook is neither pytest's own nor rigproof's."""
    return (function.__module__ or "").partition(".")[0] not in ("_pytest", "rigproof")
