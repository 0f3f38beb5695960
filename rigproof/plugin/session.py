"""One acceptance session: what it promises, what is collected for it, and its run."""

import os
import signal
import time
from pathlib import Path

import pytest

from rigproof.cluster.ray.preconditions import ClusterError
from rigproof.criteria.criterion import Criterion
from rigproof.host.bounded import Background
from rigproof.host.package import suite_folder
from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.judge import promised
from rigproof.judging.length import in_place_of_level, shortfalls
from rigproof.plugin.conclusion import Conclusion, Key
from rigproof.plugin.keys import DETECTION, criterion_and_subject
from rigproof.plugin.options import LOADS_ITSELF
from rigproof.plugin.preparation import Prepared
from rigproof.plugin.run import Run
from rigproof.plugin.signals import SignalGuard
from rigproof.profiles.loading.load import default_rig
from rigproof.records.recording import Recording
from rigproof.records.verdict import USAGE, Verdict
from rigproof.report.files.files import load_writers
from rigproof.report.files.folders import ReportFolderError, point_back, point_latest, pointed_at
from rigproof.report.terminal.live import terminal_copy
from rigproof.run.acceptance import AcceptanceRun
from rigproof.run.options import PREFIX
from rigproof.run.start_up import StartUp
from rigproof.stages.registry import KINDS

ITEM_LIMIT_S = 60  # a hardware test only judges; stages have their own deadlines


def without_test(criterion: Criterion) -> str:
    """Why no test of this criterion was collected: it is not selected, or the suite has none."""
    file, test = f"test_{criterion.family}.py", f"test_{criterion.name.partition('.')[2]}"
    suite = suite_folder() / file
    if suite.is_file() and f"def {test}(" in suite.read_text(encoding="utf-8"):
        return "not selected on the command line"
    return f"tests/hardware/{file} has no {test}"


class HardwareSession:
    """A pytest plugin that knows the promised rig, and collects the verdicts of the tests."""

    def __init__(
        self, config: pytest.Config, prepared: Prepared, folder: Path | None, start_up: StartUp
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
        self.started_s = time.monotonic()
        self.interrupted = False
        self.refusal: str | None = None  # why the cluster did not start; nothing was loaded then
        self._process = os.getpid()
        self.signals = SignalGuard(self._signalled)
        self._terminal = terminal_copy()  # created before pytest captures the descriptor

    # What is promised

    def _promised(self, criterion: Criterion) -> tuple[str, ...]:
        """The subjects of a criterion, by the profile and by the stages that the level has."""
        return promised(criterion, self.prepared.loaded, self.prepared.plan.stage_names)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make a test for each promised subject of the test's criterion."""
        marker = metafunc.definition.get_closest_marker("criterion")
        if marker is None or "subject" not in metafunc.fixturenames:
            return
        metafunc.parametrize("subject", self._promised(CATALOGUE[marker.args[0]]))

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Give each judging test its time limit; drop those without a promised subject on this rig."""
        kept: list[pytest.Item] = []
        dropped: list[pytest.Item] = []
        for item in items:
            key = criterion_and_subject(item)
            judges = item.get_closest_marker("criterion") is not None
            if judges and self.config.pluginmanager.hasplugin("timeout"):
                # By a signal: the other method ends the process, with 1, which would read as REJECTED.
                item.add_marker(pytest.mark.timeout(ITEM_LIMIT_S, method="signal", func_only=True))
            (kept if key or not judges else dropped).append(item)
            if key:
                self._collected.add(key)
        items[:] = kept
        if dropped:  # so that pytest counts those that it will run
            self.config.hook.pytest_deselected(items=dropped)

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
                    self._unjudged[criterion.name, subject] = without_test(criterion)
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
        command = tuple(self._recorded(str(one)) for one in self.config.invocation_params.args)
        self.run = Run(
            self.prepared, self.folder, self._terminal, command, self._column, start_up=self._start_up
        )
        self.run.leave_out(self._unjudged)
        reports_dir = self.prepared.request.report_dir
        earlier = pointed_at(reports_dir)
        try:
            # Before any load: if the host goes down, its report folder must not show the run before.
            if problem := point_latest(reports_dir, self.folder):
                raise ReportFolderError(problem)
            return self.run.open(frozenset(self._needed))
        except (ClusterError, ReportFolderError) as error:
            self.run.close()
            self.run = None
            point_back(reports_dir, self.folder, earlier)
            self.refusal = str(error)
            pytest.exit("the run was refused; the reason is above", returncode=USAGE)
        finally:
            if detection := self.config.stash[DETECTION]:  # by now the agent has its own NVML open
                detection.let_go()

    def _recorded(self, argument: str) -> str:
        """An argument as others may read it, without what --hw-notify runs: it may hold a password."""
        notify, name = self.prepared.request.notify, f"{PREFIX}notify="
        if notify is None or argument not in (notify, f"{name}{notify}"):
            return argument
        return argument.removesuffix(notify) + "…"

    def close(self) -> None:
        """Take the rig down. Nothing more will be measured."""
        self.signals.hold()
        if self.run is not None:
            # Processes are waited for meanwhile, and hardly anything is done here.
            Background(load_writers, "writers")
            self.run.close()

    @property
    def recording(self) -> Recording | None:
        return None if self.run is None else self.run.recording

    @property
    def shortened(self) -> str:
        """What a verdict line adds so far, `for 6 s of load, not a soak`; empty for a whole run."""
        recording = self.recording
        if recording is None:
            return ""
        return in_place_of_level(
            shortfalls(recording, default_rig(KINDS, recording.run.rig)), recording.run.level
        )

    def judge(self, criterion: str, subject: str) -> Verdict:
        """Judge one criterion on one subject by what was recorded so far."""
        assert self.run is not None, "a criterion is judged inside a run"
        verdict = self.run.judge(criterion, subject)
        self.verdicts[criterion, subject] = verdict
        return verdict

    def _signalled(self, number: signal.Signals) -> None:
        self.interrupted = True
        if self.run is not None:
            self.run.interrupted(number.name)

    def _column(self) -> int:
        """How much of the terminal's current line pytest has written: names of files, letters of tests."""
        reporter = self.config.pluginmanager.getplugin("terminalreporter")
        if reporter is None:
            return 0
        writer = reporter._tw  # noqa: SLF001 - pytest has no public name for it
        return int(writer.width_of_current_line % writer.fullwidth)
