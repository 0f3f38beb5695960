"""What a cluster that cannot be joined, or lacks a node, makes of a run."""

from collections.abc import Callable
from typing import Any

import pytest

from rigproof.cluster.rig_cluster import ClusterUnreachable


@pytest.mark.usefixtures("with_token")
def test_a_missing_node_is_named_with_its_line_and_the_others_work(
    two_nodes: Any, rig_of: Callable[..., Any]
) -> None:
    rig = rig_of("pc1", "pc3")
    with rig.cluster(two_nodes.address, wait_nodes_s=1) as cluster:
        plan, specs = rig.sustained("sustained", 1)
        stage = cluster.run_stage(plan, specs)
    (missing,) = rig.events("node_missing")
    line = f"ray start --address={two_nodes.address} --node-name=pc3 --num-cpus=2 --num-gpus=0"
    assert missing.subject == "pc3"
    assert missing.data["remedy"].endswith(line)
    assert line in missing.message
    assert [event.subject for event in rig.events("gpu_missing")] == ["pc3/cpu0"]
    assert stage.status == "partial"
    assert rig.rounds("sustained", "pc1/cpu0") > 0


def test_a_wrong_token_is_refused_with_the_way_out(
    two_nodes: Any, rig_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)
    with pytest.raises(ClusterUnreachable, match="RAY_AUTH_TOKEN"), rig_of("pc1").cluster(two_nodes.address):
        pytest.fail("came up without the cluster's token")


def test_a_client_without_the_token_is_refused(
    two_nodes: Any, rig_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(ClusterUnreachable, match="RAY_AUTH_TOKEN"), rig_of("pc1").cluster(two_nodes.address):
        pytest.fail("came up without a token")


def test_where_nobody_listens_nothing_is_started(rig_of: Callable[..., Any]) -> None:
    rig = rig_of("pc1")
    with pytest.raises(ClusterUnreachable, match="nobody answers"), rig.cluster("127.0.0.1:9"):
        pytest.fail("joined nothing")
    assert rig.recording.events == []
