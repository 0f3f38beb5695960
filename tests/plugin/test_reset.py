"""A run on a host that restarted under the one before it warns once, and stays ACCEPTED."""

import pytest

from support.acceptance import accept
from support.last_words import OTHER_BOOT, RESTARTED, head_of, leave


@pytest.fixture
def state(tmp_path, monkeypatch):
    """A state folder with the last words of a run that never ended."""
    monkeypatch.setenv("RIGPROOF_STATE_HOME", str(tmp_path / "state"))
    leave(tmp_path / "state", head_of("dead-run", boot=OTHER_BOOT))


def test_the_next_run_warns_once(state, tmp_path, two_nodes):
    first = accept(tmp_path / "reports", two_nodes, "this-host")
    assert (first.status, first.result["verdict"]) == (0, "ACCEPTED"), first.output
    assert first.outcome("health.reset", "pc1") == "warn"
    assert first.outcome("health.reset", "pc2") == "pass"
    assert f"an earlier run (dead-run) never ended: pc1 {RESTARTED}" in first.output
    assert "power supply" in first.output

    second = accept(tmp_path / "again", two_nodes, "this-host")
    assert second.outcome("health.reset", "pc1") == "pass", second.output
