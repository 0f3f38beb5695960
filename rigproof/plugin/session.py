"""One acceptance session: what pytest collects, runs and shows."""

import os
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import pytest

from rigproof.cluster.ray import leaving
from rigproof.cluster.ray.errors import ClusterError
from rigproof.criteria.criterion import Criterion
from rigproof.host.bounded import Background
from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.judge import promised
from rigproof.judging.length import in_place_of_level, shortfalls
from rigproof.plugin import fixtures
from rigproof.plugin.benchmarks import BenchmarkHooks
from rigproof.plugin.conclusion import Conclusion, Judged, Key, conclude
from rigproof.plugin.keys import DETECTION, SESSION, criterion_and_subject
from rigproof.plugin.last_word import UNTESTED, VERDICTS, say
from rigproof.plugin.options import LOADS_ITSELF, shows_only
from rigproof.plugin.preparation import Prepared, Refused, prepare, require_surroundings
from rigproof.plugin.request import Request
from rigproof.plugin.run import Run
from rigproof.plugin.signals import SignalGuard
from rigproof.profiles.loading.levels import default_rig
from rigproof.profiles.loading.loaded import left_out_text
from rigproof.records.message_text import one_line
from rigproof.records.recording import Recording
from rigproof.records.verdict import USAGE, Outcome, Verdict
from rigproof.report.content.remarks import remarks
from rigproof.report.files.files import load_writers
from rigproof.report.files.folders import ReportFolderError, new_run_folder
from rigproof.report.files.junit import LINE, finish_junit
from rigproof.report.terminal.live import terminal_copy
from rigproof.report.terminal.matrix_lines import on_screen, terminal_width
from rigproof.report.terminal.terminal import header_lines, print_summary
from rigproof.run.acceptance import AcceptanceRun
from rigproof.run.start_up import StartUp
from rigproof.run.suite import suite_folder
from rigproof.stages.registry import KINDS

LETTERS = ". pass, F FAIL, w WARN, n not measured, a not applicable, b no limit yet"
FAILED = (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR)
UNSAID = (UNTESTED, pytest.ExitCode.INTERNAL_ERROR)  # exit statuses for which pytest gives no reason
ITEM_LIMIT_S = 60  # a hardware test only judges; stages have their own deadlines


class HardwareSession:
    """Knows the promised rig, and collects the verdicts of the tests. Registered as a pytest plugin."""

    def __init__(
        self,
        config: pytest.Config,
        prepared: Prepared,
        folder: Path | None,
        start_up: StartUp,
    ) -> None:
        self.config = config
        self._start_up = start_up
        self.prepared = prepared
        self.folder = folder  # None while only collecting
        self.run: Run | None = None
        self.verdicts: dict[Key, Verdict] = {}
        self.conclusion: Conclusion | None = None
        self._collected: set[Key] = set()
        self._unjudged: dict[Key, str] = {}  # deliberately left out, with the reason
        self._needed: set[str] = set()
        self._started_s = time.monotonic()
        self._interrupted = False
        self._broken = False
        self.refusal: str | None = None  # why the cluster did not start; nothing was loaded then
        self._causes: list[str] = []  # what else than the rig kept the run from a verdict, first cause first
        self._others_failed: list[str] = []  # tests that are no criterion of ours
        self._skipped: Counter[str] = Counter()  # reasons for which somebody else skipped our tests
        self._printed = False
        self._process = os.getpid()
        self._own_junit: str | None = None
        self._guard = SignalGuard(self._signalled)
        self._terminal = terminal_copy()  # created before pytest captures the descriptor
        self._benchmarks = BenchmarkHooks(self)

    @classmethod
    def register(cls, config: pytest.Config, start_up: StartUp) -> Self:
        """Prepare a session and hook it in. Raises pytest.UsageError (exit 4) if it cannot begin."""
        try:
            prepared = prepare(Request.of(config), config.stash[DETECTION])
            folder = None
            if shows_only(config) is None:
                require_surroundings(prepared)
                folder = new_run_folder(
                    prepared.request.report_dir, prepared.loaded.rig.name, datetime.now(UTC)
                )
        except (Refused, ReportFolderError) as error:
            raise pytest.UsageError(str(error)) from error
        # A library's warning must not decide about a rig, however this project treats warnings.
        config.addinivalue_line("filterwarnings", "default")
        if config.args_source is not pytest.Config.ArgsSource.ARGS:
            config.args = [str(suite_folder())]  # not the suite's own tests, which need torch and Ray here
        start_up.ended("rig")
        session = cls(config, prepared, folder, start_up)
        config.stash[SESSION] = session
        config.pluginmanager.register(session, "rigproof-session")
        config.pluginmanager.register(fixtures, "rigproof-fixtures")
        config.pluginmanager.register(session._benchmarks, "rigproof-history")
        if folder is not None:
            session._own_junit = config.getoption("xmlpath", None)
            config.option.xmlpath = str(folder / "junit.xml")
        return session

    # What is promised

    def _promised(self, criterion: Criterion) -> tuple[str, ...]:
        """The subjects of a criterion, by the profile and by the stages that the level has."""
        return promised(criterion, self.prepared.loaded, self.prepared.plan.stage_names)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """One test for each promised subject of the test's criterion."""
        marker = metafunc.definition.get_closest_marker("criterion")
        if marker is None or "subject" not in metafunc.fixturenames:
            return
        metafunc.parametrize("subject", self._promised(CATALOGUE[marker.args[0]]))

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Give each judging test its time limit; drop those without a promised subject on this rig."""
        kept = []
        for item in items:
            key = criterion_and_subject(item)
            judges = item.get_closest_marker("criterion") is not None
            if judges and self.config.pluginmanager.hasplugin("timeout"):
                # By a signal: the other method ends the process, with 1, which would read as REJECTED.
                item.add_marker(pytest.mark.timeout(ITEM_LIMIT_S, method="signal", func_only=True))
            if not judges or key:
                kept.append(item)
            if key:
                self._collected.add(key)
        items[:] = kept

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Remember what was deliberately left out: it is not measured."""
        for item in items:
            if key := criterion_and_subject(item):
                self._unjudged[key] = "deselected on the command line"

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note which criteria no selected test judges, and which stages the selected tests need."""
        for criterion in CATALOGUE.values():
            for subject in self._promised(criterion):
                if (criterion.name, subject) not in self._collected:
                    self._unjudged[criterion.name, subject] = "not selected on the command line"
        for item in session.items:
            if key := criterion_and_subject(item):
                self._needed.update(
                    CATALOGUE[key[0]].loads(self.prepared.plan.stage_names, self.prepared.loaded.kinds)
                )
            if "finished" in getattr(item, "fixturenames", ()):
                self._needed.update(stage.name for stage in self.prepared.plan.stages)

    # The run

    def open(self) -> AcceptanceRun:
        """Start the rig. Ends the session with exit status 4 if the cluster does not start."""
        assert self.folder is not None
        if os.getpid() != self._process:
            raise RuntimeError(f"a plugin runs the tests in a process of their own, and {LOADS_ITSELF}")
        self._start_up.ended("collection")
        command = tuple(map(str, self.config.invocation_params.args))
        self.run = Run(
            self.prepared, self.folder, self._terminal, command, self._column, start_up=self._start_up
        )
        self.run.leave_out(self._unjudged)
        try:
            return self.run.open(frozenset(self._needed))
        except ClusterError as error:
            self.run.close()
            self.run = None
            self.refusal = str(error)
            pytest.exit("the run was refused; the reason is above", returncode=USAGE)
        finally:
            if detection := self.config.stash[DETECTION]:  # by now the agent has its own NVML open
                detection.let_go()

    def close(self) -> None:
        """Take the rig down. Nothing more will be measured."""
        self._guard.hold()
        if self.run is not None:
            # Processes are waited for meanwhile, and hardly anything is done here.
            Background(load_writers, "writers")
            self.run.close()

    @property
    def recording(self) -> Recording | None:
        """What was measured so far; None before the rig is up."""
        return None if self.run is None else self.run.recording

    @property
    def shortened(self) -> str:
        """What was done so far instead of the whole level; empty for a whole run."""
        recording = self.recording
        if recording is None:
            return ""
        return in_place_of_level(
            shortfalls(recording, default_rig(KINDS, recording.run.rig)), recording.run.level
        )

    def judge(self, criterion: str, subject: str) -> Verdict:
        """The verdict of one criterion on one subject, from what was recorded so far."""
        assert self.run is not None, "a criterion is judged inside a run"
        verdict = self.run.judge(criterion, subject)
        self.verdicts[criterion, subject] = verdict
        return verdict

    # What can end it

    def pytest_sessionstart(self) -> None:
        """From here to the last file, a signal ends the run cleanly."""
        if threading.current_thread() is threading.main_thread():
            self._guard.install()

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Return the signals to pytest, and leave no folder in which nothing is recorded.

        If Ray would not let this process end, it ends here.
        """
        self._guard.restore()
        if self.folder is not None and self.run is None:
            shutil.rmtree(self.folder, ignore_errors=True)  # only JUnit's file is in it
        if leaving.held_by_ray() and (self.conclusion is not None or self.refusal is not None):
            status = self.last_word(USAGE)
            self.config.get_terminal_writer().flush()
            leaving.leave(status)

    def _signalled(self, number: signal.Signals) -> None:
        self._interrupted = True
        if self.run is not None:
            self.run.interrupted(number.name)

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Note an interruption: what is not measured by now will not be. `pytest.exit` is no interruption."""
        if isinstance(excinfo.value, KeyboardInterrupt):
            self._interrupted = True
        elif self.refusal is None:
            self._causes.append(f"pytest.exit ended the session: {one_line(str(excinfo.value), LINE)}")

    def pytest_internalerror(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Note what ended the session in pytest or in a plugin."""
        error = one_line(excinfo.exconly(tryshort=True), LINE)
        self._causes.append(f"an error of pytest or of a plugin ended the session: {error}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """After an error of rigproof itself, skip the tests that follow: only the first error is reported."""
        if self._broken and criterion_and_subject(item):
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
        if report.when != "call" or not _judged(report):
            if not self._broken and call.excinfo is not None:
                error = one_line(call.excinfo.exconly(tryshort=True), LINE)
                self._causes.append(f"an error of the run itself ended it: {error}")
            self._broken = True
            if node.nodeid in self._others_failed:
                self._others_failed.remove(node.nodeid)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Generator[None, None, None]:
        """Close the rig, decide, write the files of the run, and set the exit status.

        The innermost wrapper: JUnit and fixtures are done when it continues, the terminal's summary is not.
        """
        problems = []
        try:
            yield
        except OSError as error:  # JUnit's file, on a disk that is full or gone; the verdict must not suffer
            problems.append(f"{error.filename or self.folder}: not written: {error.strerror or error}")
        except Exception as error:  # another plugin's, whose failure is not the rig's
            problems.append(f"another plugin failed at the session's end: {type(error).__name__}: {error}")
        if self.refusal is not None:
            say(self.config, f"ERROR: {self.refusal}")
        if self.folder is not None:
            if stopped := session.shouldstop or session.shouldfail:
                self._causes.append(f"pytest stopped the session: {stopped}")
            self._conclude(exitstatus, problems)
            session.exitstatus = self._final(exitstatus)

    def _conclude(self, exit_status: int, problems: list[str]) -> None:
        """Close the rig, decide, and write the files of the run, if there was one."""
        if self.run is not None and not problems:
            problems += self._finish_junit()
        # Where nothing was tested, a file without a failure would look green.
        if self.run is not None or exit_status in FAILED:
            problems += self._copy_junit()
        if self.run is None or self.folder is None:
            return
        self.close()
        if self._benchmarks.problem:
            problems.append(self._benchmarks.problem)
        problems = [*self._causes, *_failures(self._others_failed), *problems]
        failed = Outcome.FAIL in (verdict.outcome for verdict in self.verdicts.values())
        if exit_status and not (problems or failed or self._interrupted):
            problems = [
                f"pytest, or a plugin, ended with exit status {exit_status}, though no criterion failed"
            ]
        judged = Judged(self.verdicts, self._interrupted, self._broken, exit_status, tuple(problems))
        self.conclusion = conclude(self.prepared, self.run, self.folder, judged, self._started_s)
        self._say_once()

    def _final(self, status: int) -> int:
        """The exit status of the session, which pytest, or another plugin, ended with `status`."""
        if self.conclusion is not None:
            return self.conclusion.exit_status
        if self.refusal is not None:
            return USAGE
        if self._broken and status in VERDICTS:
            return int(pytest.ExitCode.INTERNAL_ERROR)
        return UNTESTED if status in VERDICTS else status

    def last_word(self, status: int, error: BaseException | None = None) -> int:
        """The exit status at the very end; says what it means, where that has not been said.

        `status`: what pytest would end with. `error`: what another plugin raised instead of ending. A rig
        that is still up is taken down and judged by what it did.
        """
        if self.run is not None and self.conclusion is None:
            what = "" if error is None else f": {type(error).__name__}: {one_line(str(error), LINE)}"
            self._conclude(0, [f"another plugin ended the session before its end{what}"])
        final = self._final(status)
        if not self._printed:
            self._print(lambda line: say(self.config, line))
            if not self._printed and final in UNSAID:
                say(self.config, f"INCOMPLETE: nothing was tested: {self._why_untested()}")
        return final

    def _why_untested(self) -> str:
        """Why no selected test opened the run, as far as that is known: reasons, else suspects."""
        if self._causes:
            return self._causes[0]
        if self._skipped:
            reason, number = self._skipped.most_common(1)[0]
            return f"{number} tests were skipped by another plugin or a conftest.py: {reason}"
        hooks = ("pytest_runtest_protocol", "pytest_runtestloop", "pytest_pyfunc_call")
        found = [one for name in hooks for one in getattr(self.config.hook, name).get_hookimpls()]
        runners = [one for one in found if not (one.hookwrapper or one.wrapper)]
        others = {one.plugin_name for one in runners if _foreign(one.function)}
        if others:
            return f"no test was run, perhaps by {', '.join(sorted(others))}, which can do that; leave it out"
        return "no test that judges a criterion was run"

    def _say_once(self) -> None:
        """Leave out pytest's lists of failures where the sentences below the table of verdicts say it all."""
        reporter, option = self.config.pluginmanager.getplugin("terminalreporter"), self.config.option
        if reporter is None or reporter.stats.get("error"):
            return
        if all(map(_judged, reporter.getreports("failed"))):
            if option.tbstyle == "auto":  # what the user chose stays
                option.tbstyle = "no"
            if option.reportchars == "fE":
                reporter.reportchars = "E"

    def _finish_junit(self) -> list[str]:
        """Bring pytest's JUnit file into the form that CI systems read; nothing if there is none."""
        assert self.folder is not None
        path = self.folder / "junit.xml"
        run = {
            "rig": self.prepared.loaded.rig.name,
            "level": self.prepared.level,
            "run_id": self.folder.name,
            "simulated": str(self.prepared.simulated is not None).lower(),
        }
        try:
            if path.exists():  # not with -p no:junitxml
                finish_junit(path, run)
        except OSError as error:
            return [f"{error.filename or path}: not written: {error.strerror or error}"]
        return []

    def _copy_junit(self) -> list[str]:
        """Copy the run's JUnit file to the user's own --junitxml."""
        if self._own_junit is None or self.folder is None:
            return []
        try:
            Path(self._own_junit).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.folder / "junit.xml", self._own_junit)
        except OSError as error:
            return [f"{self._own_junit}: not written: {error.strerror or error}"]
        return []

    # What a terminal shows

    def _column(self) -> int:
        """How much of the terminal's current line pytest has written: names of files, letters of tests."""
        reporter = self.config.pluginmanager.getplugin("terminalreporter")
        if reporter is None:
            return 0
        writer = reporter._tw  # noqa: SLF001 - pytest has no public name for it
        return int(writer.width_of_current_line % writer.fullwidth)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        """pytest is about to write the name of a test or of its file."""
        self._yield_terminal()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """pytest is about to write how a test ended. Note what others made of it."""
        self._yield_terminal()
        outcome = dict(report.user_properties).get("outcome")
        if report.failed and outcome != Outcome.FAIL:
            self._others_failed.append(report.nodeid)
        if report.skipped and outcome is None and isinstance(report.longrepr, tuple):
            self._skipped[report.longrepr[2].removeprefix("Skipped: ")] += 1

    def _yield_terminal(self) -> None:
        if self.run is not None:
            self.run.yield_terminal()

    def pytest_report_header(self) -> list[str]:
        """Profile, rig, driver, torch, plan with expected time."""
        inventory = self.prepared.inventory
        lines = header_lines(
            self.prepared.loaded,
            self.prepared.plan,
            nvml_error=inventory.nvml_error,
            driver_version=inventory.driver_version,
            simulated=self.prepared.simulated is not None,
        )
        reporter = self.config.pluginmanager.getplugin("terminalreporter")
        fits = reporter is not None and reporter.isatty()
        return [*on_screen(lines, terminal_width())] if fits else lines

    def pytest_report_collectionfinish(self) -> list[str]:
        """The letters of the tests that follow; with -v they are words."""
        return [LETTERS] if self.config.get_verbosity() == 0 and self.folder is not None else []

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

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The verdict table, what to do, and where the files are."""
        terminalreporter.ensure_newline()
        self._print(terminalreporter.write_line)

    def _print(self, write_line: Callable[[str], None]) -> None:
        if self.conclusion is None or self.folder is None:
            return
        reporter = self.config.pluginmanager.getplugin("terminalreporter")
        notes = remarks(self.run.recording) if self.run is not None else ()
        for line in (*notes, *self.conclusion.kept):
            write_line(line)
        print_summary(
            self.conclusion.decision,
            self.conclusion.verdicts,
            self.folder,
            problems=self.conclusion.problems,
            write_line=write_line,
            rig=self.prepared.loaded.rig.name,
            devices=[device.subject for device in self.prepared.loaded.devices()],
            width=terminal_width(),
            on_terminal=reporter is not None and reporter.isatty(),
            everything=self.config.get_verbosity() > 0,
            interrupted=self.conclusion.interrupted,
            simulated=self.prepared.simulated is not None,
            color=reporter is not None and reporter.hasmarkup,
            short=self.shortened,
            not_tested=left_out_text(self.prepared.loaded.left_out),
        )
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


def _judged(report: pytest.TestReport) -> bool:
    return "outcome" in dict(report.user_properties)
