"""Connects an acceptance run with pytest-benchmark: device clocks, the rig's identity, its history."""

from collections.abc import Callable, Collection, Generator, Mapping
from typing import Any

import pytest

from rigproof.history.goodness import keep_good
from rigproof.history.rounds import benchmark_marker, clock_of, extra_info, figure_rounds, replay
from rigproof.history.storage import (
    RigStorage,
    direct_storage,
    history_folder,
    install_storage,
    remove_if_empty,
)
from rigproof.judging.catalogue import CATALOGUE
from rigproof.plugin.guest import HEADER
from rigproof.plugin.keys import SESSION, criterion_and_subject
from rigproof.plugin.session import HardwareSession
from rigproof.profiles.kinds.stages import StageKinds


class BenchmarkHooks:
    """pytest-benchmark's hooks for one acceptance session."""

    def __init__(self, session: HardwareSession) -> None:
        self._session = session
        self._storage: RigStorage | None = None
        prepared = session.prepared
        self._folder = history_folder(
            prepared.request.report_dir, prepared.loaded.rig.name, simulated=prepared.request.keep_history
        )
        if session.folder is not None:
            direct_storage(session.config, self._folder, session.folder.name)

    @property
    def problem(self) -> str | None:
        """Why the history was not written; None if it was."""
        return None if self._storage is None else self._storage.problem

    @pytest.hookimpl(wrapper=True)
    def pytest_report_header(self) -> Generator[None, list[Any], list[Any]]:
        """Leave out pytest-benchmark's line of its defaults: a device's own timer is used instead."""
        return [line for line in (yield) if not HEADER.match(str(line))]

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Remove the folder that pytest-benchmark has created, if nothing was kept in it."""
        if self._session.folder is not None:
            remove_if_empty(self._folder)

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Now that pytest-benchmark is configured, give it our storage."""
        if self._session.folder is not None:
            run_json = self._session.folder / "benchmark.json"
            self._storage = install_storage(session.config, self._folder, run_json=run_json, keep=self._keep)

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Give each test that keeps rounds a clock of its own, which only its device advances."""
        if not hasattr(config, "_benchmarksession"):
            return  # -p no:benchmark: the marker is unknown, and no rounds are kept
        for item in items:
            key = criterion_and_subject(item)
            if key and "keep_rounds" in getattr(item, "fixturenames", ()):
                item.add_marker(benchmark_marker(group=key[0]))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Suppress pytest-benchmark's warning when nothing was measured; the verdicts report it."""
        benchmarks = getattr(session.config, "_benchmarksession", None)
        if benchmarks is not None and not benchmarks.benchmarks:
            benchmarks.save = benchmarks.autosave = benchmarks.json = None
        return (yield)

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_benchmark_generate_machine_info(self) -> dict[str, Any]:
        """The rig that the profile promises, not this computer's CPU, so that runs can be compared.

        pytest-benchmark compares it before the first card has been looked at, so what a run finds is no part
        of it; the cards found, drivers, torch and clocks are in each benchmark's extra info.
        """
        prepared = self._session.prepared
        devices = {
            device.subject: {"sku": device.gpu.sku, "uuid": device.gpu.uuid}
            for device in prepared.loaded.devices()
        }
        return {
            "rig": prepared.loaded.rig.name,
            "simulated": prepared.simulated is not None,
            "devices": devices,
        }

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_benchmark_scale_unit(self, unit: str) -> tuple[str, float] | None:
        """OPS is the rate in the figure's own unit: 4651 GB/s would be shown as `4.651 Kops/s`."""
        return ("", 1.0) if unit == "operations" else None

    def _keep(self, output_json: Mapping[str, Any]) -> dict[str, Any]:
        recording = self._session.recording
        prepared = self._session.prepared
        simulated = recording is not None and recording.run.simulated and not prepared.request.keep_history

        def stages_of(criterion: str) -> Collection[str]:
            return stages_concerned(criterion, prepared.plan.stage_names, prepared.loaded.kinds)

        verdicts = self._session.verdicts.values()
        return keep_good(output_json, verdicts, stages_of=stages_of, simulated=simulated)


def stages_concerned(criterion: str, stages: Collection[str], kinds: StageKinds) -> Collection[str]:
    """The stages whose rates are in doubt if the criterion could not be judged.

    A stranger was perhaps there also while the card's cores rested, where it is not judged.
    """
    one = CATALOGUE[criterion]
    return stages if one.surroundings else one.loads(stages, kinds)


@pytest.fixture
def keep_rounds(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Pass the measured rounds to pytest-benchmark, for each of the criterion's figures that has some."""
    session = request.config.stash[SESSION]

    def keep(subject: str) -> None:
        recording = session.recording
        if recording is None or not hasattr(request.config, "_benchmarksession"):
            return  # -p no:benchmark: still judged
        criterion = request.node.get_closest_marker("criterion").args[0]
        figures = CATALOGUE[criterion].figures
        for figure in figures:
            rounds = figure_rounds(recording, figure, subject)
            if rounds:
                benchmark = request.getfixturevalue("benchmark")
                extra = extra_info(recording, criterion, figure, subject, rounds)
                extra["shortened"] = session.shortened
                part = figure.name if len(figures) > 1 else ""
                replay(benchmark, rounds, clock_of(request.node), extra, part)

    return keep
