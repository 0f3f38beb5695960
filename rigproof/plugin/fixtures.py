"""What the hardware tests ask for: stages that ran, and a judge."""

from collections.abc import Callable, Iterator

import pytest

from rigproof.plugin.benchmarks import keep_rounds
from rigproof.plugin.keys import SESSION
from rigproof.records.measurements import Stage
from rigproof.records.recording import Recording
from rigproof.records.verdict import UNJUDGED, Outcome, Verdict, sentence
from rigproof.run.acceptance import AcceptanceRun

__all__ = ["feeding", "finished", "gemm", "judge", "keep_rounds", "rig", "sharing", "sustained", "training"]


@pytest.fixture(scope="session")
def rig(
    request: pytest.FixtureRequest, record_testsuite_property: Callable[[str, object], None]
) -> Iterator[AcceptanceRun]:
    """The rig, up: agents sampling, workers waiting. JUnit is told what a short run did."""
    session = request.config.stash[SESSION]
    try:
        yield session.open()
    finally:
        session.close()
        if session.shortened:
            record_testsuite_property("shortened", session.shortened)


@pytest.fixture(scope="session")
def gemm(rig: AcceptanceRun) -> Stage | None:
    """The stage that measured the GEMM rate of every precision, on all devices at once."""
    return rig.stage("gemm")


@pytest.fixture(scope="session")
def sustained(rig: AcceptanceRun) -> Stage | None:
    """The stage that loaded all planned workers and the hosts' CPUs for its whole length."""
    return rig.stage("sustained")


@pytest.fixture(scope="session")
def training(rig: AcceptanceRun) -> Stage | None:
    """The stage that trained a small transformer on every device: precisions, largest batch, batch sizes."""
    return rig.stage("training")


@pytest.fixture(scope="session")
def feeding(rig: AcceptanceRun) -> Stage | None:
    """The stage that generated on each device while the CPUs computed the rewards."""
    return rig.stage("feeding")


@pytest.fixture(scope="session")
def sharing(rig: AcceptanceRun) -> Stage | None:
    """The stage that let several processes work on each device, one number of them after the other."""
    return rig.stage("sharing")


@pytest.fixture(scope="session")
def finished(rig: AcceptanceRun) -> Recording:
    """Everything: all stages that somebody judges, and the counters read afterwards."""
    return rig.finished()


@pytest.fixture
def judge(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> Callable[[str], Verdict]:
    """Judge the test's criterion on a subject: fail, skip as not measured or not applicable, or pass."""
    session = request.config.stash[SESSION]
    marker = request.node.get_closest_marker("criterion")

    def judge_subject(subject: str) -> Verdict:
        verdict: Verdict = session.judge(marker.args[0], subject)
        for key, value in (
            ("outcome", verdict.outcome.value),
            ("criterion", verdict.criterion),
            ("subject", subject),
            ("measured", verdict.measured),
            ("limit", verdict.limit),
            ("unit", verdict.unit),
            ("limit_source", verdict.limit_source),
        ):
            record_property(key, value)
        if session.prepared.simulated is not None:
            record_property("simulated", "true")
        if verdict.outcome is Outcome.FAIL:
            pytest.fail(sentence(verdict), pytrace=False)
        if verdict.outcome in UNJUDGED:
            pytest.skip(sentence(verdict))
        return verdict

    return judge_subject
