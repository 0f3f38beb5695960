"""A cluster that has no token authentication: refused, and joined only where the user says so."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rigproof.cluster.driver.rig_cluster import ClusterUnreachable
from rigproof.monitor.command import Options, monitor
from support.acceptance import PYTEST, python
from support.ray_start import ray_nodes

# Each of them would be a token for a cluster that asks for one.
TOKENS = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "5" * 64}


@pytest.fixture(scope="module")
def open_cluster() -> Iterator[str]:
    """The address of a one-node cluster on loopback without token authentication, at a port of its choice."""
    with ray_nodes({"RAY_AUTH_MODE": "disabled"}, "rpo-", "pc1") as nodes:
        yield nodes.address


def test_it_is_refused_with_both_ways_out(
    open_cluster: str, rig_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though there is a token here. Without one: the monitor, and the suite, below."""
    for key, value in TOKENS.items():
        monkeypatch.setenv(key, value)
    rig = rig_of("pc1")
    with (
        pytest.raises(
            ClusterUnreachable, match=r"has no token authentication.*auth-token.*--hw-allow-open-cluster"
        ),
        rig.cluster(open_cluster),
    ):
        pytest.fail("joined it")
    assert rig.recording.events == []
    assert rig.recording.nodes == {}


def test_it_is_joined_on_demand_whatever_token_is_here_and_the_recording_says_so(
    open_cluster: str, rig_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the token Ray would cancel every actor: the head asks the driver without one."""
    for key, value in TOKENS.items():
        monkeypatch.setenv(key, value)
    before = dict(os.environ)
    rig = rig_of("pc1")
    with rig.cluster(open_cluster, allow_open=True) as cluster:
        plan, specs = rig.sustained("sustained", 1)
        stage = cluster.run_stage(plan, specs)
    assert stage.status == "finished"
    assert rig.rounds("sustained", "pc1/cpu0") > 0
    (event,) = rig.events("open_cluster")
    assert event.data == {"address": open_cluster}
    assert "--hw-allow-open-cluster" in event.message
    assert not rig.events("agent_died", "worker_died", "worker_failed", "timeout")
    assert dict(os.environ) == before


def test_the_monitor_refuses_it_and_names_it_where_it_is_allowed(
    open_cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {"ray_address": open_cluster, "report_dir": tmp_path, "once": True, "interval_s": 0.2}
    with pytest.raises(ClusterUnreachable, match="has no token authentication"):
        monitor(Options(**asked), sys.stdout)
    monitor(Options(**asked, allow_open=True), sys.stdout)
    assert f"open cluster {open_cluster}" in capsys.readouterr().out


def test_the_suite_ends_with_4_and_no_traceback(open_cluster: str, tmp_path: Path) -> None:
    profile = tmp_path / "lab.toml"
    profile.write_text(
        'name = "lab"\n[[nodes]]\nname = "pc1"\nram_gib = 8\ncpus = 2\naddress = "127.0.0.1"\n'
        '[[nodes.gpus]]\nsku = "unknown"\ndevice = "cpu"\ngemm_size = 256\nvram_gib_per_worker = 0.02\n'
    )
    done = python(
        *(*PYTEST, "-m", "hardware", "--hw-level=quick"),
        *(f"--hwprofile={profile}", f"--hw-ray-address={open_cluster}"),
        f"--hw-report-dir={tmp_path / 'reports'}",
    )
    output = done.stdout + done.stderr
    assert done.returncode == 4, output
    assert "has no token authentication" in output
    assert "--hw-allow-open-cluster" in output
    assert "Traceback" not in output
