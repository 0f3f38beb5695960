"""One acceptance session: from the prepared plan to verdicts, files and the exit status."""

import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from platform import python_version
from typing import Self

import pytest

from rigproof import __version__
from rigproof.cluster.errors import ClusterError
from rigproof.criteria.catalogue import CATALOGUE
from rigproof.criteria.evidence import Evidence
from rigproof.criteria.judge import judge, not_judged, promised
from rigproof.plugin import fixtures
from rigproof.plugin.benchmarks import BenchmarkHooks
from rigproof.plugin.keys import SESSION, criterion_and_subject
from rigproof.plugin.options import Request
from rigproof.plugin.preparation import Prepared, Refused, prepare
from rigproof.plugin.signals import signals_interrupt
from rigproof.records.identity import RunInfo
from rigproof.records.measurements import Event
from rigproof.records.recording import Recording
from rigproof.records.store import RecordingWriter
from rigproof.records.verdict import Decision, Outcome, Verdict, decide
from rigproof.report.files import write_reports
from rigproof.report.folders import ReportFolderError, new_run_folder, point_latest
from rigproof.report.live import LiveView, terminal_copy
from rigproof.report.terminal import header_lines, print_summary
from rigproof.stages.acceptance import AcceptanceRun
from rigproof.stages.suite import suite_folder

EXIT_USAGE = 4
EXIT_INCOMPLETE = 6
ITEM_LIMIT_S = 60  # a hardware test only judges; stages have deadlines of their own


class HardwareSession:
    """Knows what is promised, collects verdicts, and says what they mean. Registered as a pytest plugin."""

    def __init__(self, config: pytest.Config, prepared: Prepared, folder: Path | None) -> None:
        self.config = config
        self.prepared = prepared
        self.folder = folder  # None while only collecting
        self.verdicts: dict[tuple[str, str], Verdict] = {}
        self.decision: Decision | None = None
        self._unjudged: dict[tuple[str, str], str] = {}  # why a promised criterion got no verdict
        self._needed: set[str] = set()
        self._writer: RecordingWriter | None = None
        self._evidence: tuple[int, Evidence] | None = None
        self._started = time.monotonic()
        self._interrupted = False
        self.problems: list[str] = []
        self._own_junit: str | None = None
        self._terminal = terminal_copy()  # made before pytest captures the descriptor
        self._benchmarks = BenchmarkHooks(self)

    @classmethod
    def register(cls, config: pytest.Config) -> Self:
        """Prepare a session and hook it in. Raises pytest.UsageError (exit 4) where it cannot begin."""
        try:
            if config.getoption("numprocesses", None):
                raise Refused(
                    "-n/--numprocesses: the acceptance suite loads every GPU at once by itself; drop it"
                )
            prepared = prepare(Request.of(config))
            folder = None
            if not config.option.collectonly:
                folder = new_run_folder(
                    prepared.request.report_dir, prepared.loaded.rig.name, datetime.now(UTC)
                )
        except (Refused, ReportFolderError) as error:
            raise pytest.UsageError(str(error)) from error
        # Some library's warning must not decide about a rig, whatever this project makes of warnings.
        config.addinivalue_line("filterwarnings", "default")
        if config.args_source is not pytest.Config.ArgsSource.ARGS:
            config.args = [str(suite_folder())]  # not the suite's own tests, which need torch and Ray here
        session = cls(config, prepared, folder)
        config.stash[SESSION] = session
        config.pluginmanager.register(session, "rigproof-session")
        config.pluginmanager.register(fixtures, "rigproof-fixtures")
        config.pluginmanager.register(session._benchmarks, "rigproof-history")
        if folder is not None:
            session._own_junit = config.option.xmlpath
            config.option.xmlpath = str(folder / "junit.xml")
        return session

    # What is promised

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """One test for each promised subject of the test's criterion."""
        marker = metafunc.definition.get_closest_marker("criterion")
        if marker is None or "subject" not in metafunc.fixturenames:
            return
        metafunc.parametrize("subject", promised(CATALOGUE[marker.args[0]], self.prepared.loaded))

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Give each test its backstop; drop those that this rig does not promise anything for."""
        kept = []
        for item in items:
            judges = item.get_closest_marker("criterion") is not None
            if judges:
                item.add_marker(pytest.mark.timeout(ITEM_LIMIT_S, func_only=True))
            if not judges or criterion_and_subject(item):
                kept.append(item)
        items[:] = kept

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Remember what was left out on purpose: it is not measured, whatever else is."""
        for item in items:
            if key := criterion_and_subject(item):
                self._unjudged[key] = "deselected on the command line"

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Only stages that a selected test judges are going to run."""
        for item in session.items:
            if key := criterion_and_subject(item):
                self._needed.update(CATALOGUE[key[0]].stages)
            if "finished" in getattr(item, "fixturenames", ()):
                self._needed.update(stage.name for stage in self.prepared.plan.stages)

    # The run

    @contextmanager
    def open(self) -> Iterator[AcceptanceRun]:
        """Bring the rig up, hand it to the stage fixtures, take it down.

        Ends the session, with exit status 4, where the cluster does not come up.
        """
        assert self.folder is not None
        origin = time.monotonic()

        def now_s() -> float:
            return time.monotonic() - origin

        self._writer = RecordingWriter(self.folder, self._run_info(self.folder.name))
        view = LiveView(self._writer.recording, self.prepared.plan, self._terminal, now_s)
        try:
            with (
                signals_interrupt(self._on_signal),
                AcceptanceRun(
                    self.prepared.loaded,
                    self.prepared.plan,
                    self._writer.recording,
                    self._writer.add,
                    ray_address=self.prepared.request.ray_address,
                    needed=frozenset(self._needed),
                    now_s=now_s,
                    on_tick=view.tick,
                ) as run,
            ):
                yield run
        except ClusterError as error:
            pytest.exit(f"ERROR: {error}", returncode=EXIT_USAGE)
        finally:
            view.close()
            if self._terminal is not None:
                self._terminal.close()
            self._writer.close()

    def _run_info(self, run_id: str) -> RunInfo:
        return RunInfo(
            run_id=run_id,
            started_at=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            level=self.prepared.level,
            rigproof_version=__version__,
            python_version=python_version(),
            rig=self.prepared.loaded.dump(),
            stages=tuple(stage.name for stage in self.prepared.plan.stages),
            command=tuple(
                self.config.invocation_params.args and map(str, self.config.invocation_params.args)
            ),
        )

    def _on_signal(self, number: int) -> None:
        self._interrupted = True
        if self._writer is not None:
            name = signal.Signals(number).name
            self._writer.add(
                Event(
                    time.monotonic() - self._started,
                    "interrupted",
                    "rig",
                    f"stopped by {name}",
                    data={"signal": name},
                )
            )

    @property
    def recording(self) -> Recording | None:
        """What was measured so far; None before the rig is up."""
        return None if self._writer is None else self._writer.recording

    def judge(self, criterion: str, subject: str) -> Verdict:
        """The verdict of one criterion on one subject, from what was recorded so far."""
        assert self._writer is not None, "a criterion is judged inside a run"
        recording = self._writer.recording
        count = recording.count()
        if self._evidence is None or self._evidence[0] != count:
            self._evidence = (count, Evidence(recording, self.prepared.loaded))
        verdict = judge(CATALOGUE[criterion], subject, self._evidence[1])
        self.verdicts[criterion, subject] = verdict
        return verdict

    # What it means

    def pytest_keyboard_interrupt(self) -> None:
        """Whatever was not judged by now is not going to be."""
        self._interrupted = True

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Decide, write the files of the run, and set the exit status."""
        if self.folder is None or (self._writer is None and exitstatus == EXIT_USAGE):
            return
        verdicts = self._all_verdicts()
        self.decision = decide(verdicts, interrupted=self._interrupted)
        if self._writer is not None:
            storage_error = self._writer.error
            if storage_error:
                self.problems.append(storage_error)
                if self.decision is Decision.ACCEPTED:
                    self.decision = Decision.INCOMPLETE
            self.problems += write_reports(
                self.folder,
                self._writer.recording,
                verdicts,
                decision=self.decision,
                elapsed_s=time.monotonic() - self._started,
                interrupted=self._interrupted,
                write_error=storage_error,
            )
            latest_problem = point_latest(self.prepared.request.report_dir, self.folder)
            self.problems += [problem for problem in (latest_problem, self._benchmarks.problem) if problem]
        if self._own_junit and Path(self.folder / "junit.xml").exists():
            shutil.copyfile(self.folder / "junit.xml", self._own_junit)
        session.exitstatus = self._exit_status(exitstatus)

    def _all_verdicts(self) -> list[Verdict]:
        """Every promised criterion, judged or not: what has no verdict is NOT MEASURED."""
        verdicts = []
        for criterion in CATALOGUE.values():
            for subject in promised(criterion, self.prepared.loaded):
                key = (criterion.name, subject)
                reason = "the run was interrupted" if self._interrupted else "its test did not get that far"
                if self._interrupted and key not in self.verdicts and key not in self._unjudged:
                    self._judge_rest(criterion.name, subject)
                verdict = self.verdicts.get(key)
                verdicts.append(verdict or not_judged(criterion, subject, self._unjudged.get(key, reason)))
        return verdicts

    def _judge_rest(self, criterion: str, subject: str) -> None:
        """What an interrupted run did measure is judged; a stage that was broken off can fail, not pass."""
        if self._writer is not None:
            self.judge(criterion, subject)

    def _exit_status(self, exitstatus: int) -> int:
        if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return exitstatus
        if self.decision is Decision.REJECTED:
            return int(pytest.ExitCode.TESTS_FAILED)
        if self.decision is Decision.INCOMPLETE or self.problems:
            return EXIT_INCOMPLETE
        return exitstatus

    # What a terminal shows

    def pytest_report_header(self) -> list[str]:
        """Profile, rig, driver, torch, plan with expected time."""
        inventory = self.prepared.inventory
        return header_lines(
            self.prepared.loaded,
            self.prepared.plan,
            nvml_error=inventory.nvml_error,
            driver_version=inventory.driver_version,
            simulated=False,
        )

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """NOT MEASURED is shown as that, not as a skip like any other."""
        outcome = dict(report.user_properties).get("outcome")
        if report.when == "call" and outcome == Outcome.NOT_MEASURED:
            return "not measured", "n", "NOT MEASURED"
        if report.when == "call" and outcome == Outcome.WARN:
            return "warned", "w", "WARN"
        if report.when == "call" and outcome == Outcome.NO_LIMIT:
            return "no limit", "b", "NO LIMIT"
        return None

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The verdict table, what to do, and where the files are."""
        if self.decision is None or self.folder is None:
            return
        terminalreporter.ensure_newline()
        print_summary(
            self.decision,
            self._all_verdicts(),
            self.folder,
            problems=self.problems,
            write_line=terminalreporter.write_line,
            width=terminalreporter._tw.fullwidth,  # noqa: SLF001 - pytest's own width, no public name
            interrupted=self._interrupted,
            color=terminalreporter.hasmarkup,
        )
