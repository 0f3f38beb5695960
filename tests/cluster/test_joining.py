"""What a cluster that cannot be joined, or lacks a node, makes of a run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rigproof.cluster.driver.rig_cluster import ClusterUnreachable


def test_a_wrong_token_is_refused_with_the_way_out(
    two_nodes: Any, rig_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)
    with (
        pytest.raises(ClusterUnreachable, match="RAY_AUTH_TOKEN"),
        rig_of("pc1").cluster(two_nodes.address),
    ):
        pytest.fail("came up without the cluster's token")


def test_a_client_without_the_token_is_refused(
    two_nodes: Any, rig_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with (
        pytest.raises(ClusterUnreachable, match="RAY_AUTH_TOKEN"),
        rig_of("pc1").cluster(two_nodes.address),
    ):
        pytest.fail("came up without a token")


def test_where_nobody_listens_nothing_is_started(rig_of: Callable[..., Any]) -> None:
    rig = rig_of("pc1")
    with pytest.raises(ClusterUnreachable, match="no answer from there"), rig.cluster("127.0.0.1:9"):
        pytest.fail("joined nothing")
    assert rig.recording.events == []


def test_token_mode_without_any_token_is_refused_and_does_not_end_the_process(
    two_nodes: Any, rig_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Ray's own C++ code would abort."""
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with (
        pytest.raises(ClusterUnreachable, match=r"there is none here.*RAY_AUTH_TOKEN"),
        rig_of("pc1").cluster(two_nodes.address),
    ):
        pytest.fail("came up without a token")


def test_a_token_file_for_one_user_lets_in_one_for_all_does_not_and_a_missing_node_is_named_with_its_line(
    two_nodes: Any, rig_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The others work."""
    token = tmp_path / ".ray" / "auth_token"
    token.parent.mkdir()
    token.write_text(two_nodes.token)
    monkeypatch.setenv("HOME", str(tmp_path))
    for key in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(key, raising=False)
    token.chmod(0o644)
    rig = rig_of("pc1", "pc3")
    with (
        pytest.raises(ClusterUnreachable, match="mode 0644"),
        rig.cluster(two_nodes.address),
    ):
        pytest.fail("took a token that everybody knows")
    token.chmod(0o600)
    with rig.cluster(two_nodes.address, wait_nodes_s=1) as cluster:
        assert set(rig.recording.nodes) == {"pc1"}
        plan, specs = rig.sustained("sustained", 1)
        stage = cluster.run_stage(plan, specs)
    assert rig.events("open_cluster") == []
    (missing,) = rig.events("node_missing")
    line = f"ray start --address={two_nodes.address} --node-name=pc3 --num-cpus=2 --num-gpus=0"
    assert missing.subject == "pc3"
    assert missing.data["remedy"].endswith(line)
    assert line in missing.data["next_step"]
    assert [event.subject for event in rig.events("gpu_missing")] == ["pc3/cpu0"]
    assert stage.status == "partial"
    assert rig.rounds("sustained", "pc1/cpu0") > 0
