"""A Ray that somebody else started, whose memory monitor ends what it likes: no fault of the rig."""

import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rigproof.judging.laps import judge_all
from rigproof.records.verdict import Outcome
from support.ray_start import ray_nodes


@pytest.fixture
def full_node(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a Ray of one node whose RAM counts as full: its monitor ends every actor."""
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    monitor = {"RAY_memory_usage_threshold": "0.001", "RAY_memory_monitor_refresh_ms": "100"}
    for key, value in token.items():
        monkeypatch.setenv(key, value)
    with ray_nodes(token | monitor, "rpm-", "pc1") as nodes:
        yield nodes.address


def test_an_agent_that_its_memory_monitor_ended_is_named_and_rejects_nothing(
    full_node: str, rig_of: Callable[..., Any]
) -> None:
    rig = rig_of("pc1")
    with rig.cluster(full_node) as cluster:
        plan, specs = rig.sustained("sustained", 1)
        assert cluster.run_stage(plan, specs).status == "failed"
    died = rig.events("agent_died")[0]
    assert "Ray's memory monitor killed it, with " in died.message
    assert "RAY_memory_monitor_refresh_ms=0" in died.data["disturbed"]
    verdicts = {(one.criterion, one.subject): one for one in judge_all(rig.recording, rig.loaded)}
    failed = [(*key, one.detail) for key, one in verdicts.items() if one.outcome is Outcome.FAIL]
    assert failed == [], rig.recording.events
    unmeasured = (Outcome.NOT_MEASURED, died.data["disturbed"])
    found = verdicts["cluster.no_timeouts", "rig"]
    assert (found.outcome, found.remedy) == unmeasured
    found = verdicts["cluster.nodes_present", "pc1"]
    answered = "pc1" in rig.recording.nodes  # before it was ended
    assert (found.outcome, found.remedy) == ((Outcome.PASS, "") if answered else unmeasured)
