"""The fixtures of the hardware tests: completed stages, and a judge."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rigproof.plugin.benchmarks import keep_rounds
from rigproof.plugin.keys import SESSION
from rigproof.records.measurements import Stage
from rigproof.records.message_text import one_line
from rigproof.records.recording import Recording
from rigproof.records.verdict import UNJUDGED, Outcome, Verdict, sentence
from rigproof.report.content.order import word
from rigproof.report.files.junit import FOUND, LINE
from rigproof.run.acceptance import AcceptanceRun
from rigproof.stages.registry import KINDS

__all__ = ["finished", "judge", "keep_rounds", "rig"]


@pytest.fixture(scope="session")
def rig(request: pytest.FixtureRequest) -> Iterator[AcceptanceRun]:
    """The started rig: agents sampling, workers waiting. A short run's length is noted for JUnit."""
    session = request.config.stash[SESSION]
    for_junit = request.config.pluginmanager.hasplugin("junitxml")
    note = request.getfixturevalue("record_testsuite_property") if for_junit else None
    try:
        yield session.open()
    finally:
        session.close()
        if session.shortened and note is not None:
            note("shortened", session.shortened)


def _of_stage(name: str, about: str) -> Any:
    def stage(rig: AcceptanceRun) -> Stage | None:
        return rig.stage(name)

    stage.__doc__ = f"The {name} stage: {about}"
    return pytest.fixture(scope="session", name=name)(stage)


# One fixture for each stage, by its name: the stage, run on all devices at once. They have to be names of
# this module, because that is where pytest looks for fixtures.
globals().update({kind.name: _of_stage(kind.name, kind.settings.__doc__ or "") for kind in KINDS})


@pytest.fixture(scope="session")
def finished(rig: AcceptanceRun) -> Recording:
    """The complete recording: all stages that a selected test judges, and the counters read afterwards."""
    return rig.finished()


@pytest.fixture
def judge(request: pytest.FixtureRequest) -> Callable[[str], Verdict]:
    """Judge the test's criterion on a subject: fail, skip as not measured or not applicable, or pass."""
    session = request.config.stash[SESSION]
    marker = request.node.get_closest_marker("criterion")

    def judge_subject(subject: str) -> Verdict:
        verdict: Verdict = session.judge(marker.args[0], subject)
        mark = "SIMULATED " if session.prepared.simulated is not None else ""
        # `record_property` would warn each time where the project's junit_family is pytest's default.
        request.node.user_properties += [
            ("outcome", verdict.outcome.value),
            (FOUND, one_line(f"{mark}{word(verdict)}: {sentence(verdict)}", LINE)),
        ]
        if verdict.outcome is Outcome.FAIL:
            pytest.fail(sentence(verdict), pytrace=False)
        if verdict.outcome in UNJUDGED:
            pytest.skip(sentence(verdict))
        return verdict

    return judge_subject
