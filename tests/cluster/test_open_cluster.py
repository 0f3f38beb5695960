"""A cluster that has no token authentication: refused, and joined only where the user says so."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rigproof.cluster.driver.rig_cluster import ClusterUnreachable
from rigproof.monitor.command import Options, monitor
from support.acceptance import PYTEST, python
from support.ray_start import ON_LOOPBACK, address_of, end_all

# Each of them would be a token for a cluster that asks for one.
TOKENS = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "5" * 64}
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def open_cluster() -> Iterator[str]:
    """The address of a one-node cluster on loopback without token authentication, at a port of its choice."""
    folder = Path(tempfile.mkdtemp(prefix="rpo-", dir="/tmp"))  # short enough for Ray's sockets
    environment = {key: value for key, value in os.environ.items() if not key.startswith("RAY_AUTH")}
    environment |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(ROOT)}
    command = [
        *(sys.executable, "-c", ON_LOOPBACK, "start", "--head", "--block", "--port=0", "--node-name=pc1"),
        *("--node-ip-address=127.0.0.1", "--include-dashboard=false", f"--temp-dir={folder}"),
        *("--num-cpus=2", "--num-gpus=0", "--object-store-memory=78643200", "--disable-usage-stats"),
    ]
    with (folder / "start.log").open("wb") as log:
        head = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield address_of(head, folder)
    finally:
        end_all([head], folder)


@pytest.mark.parametrize("variables", [{}, TOKENS], ids=["no token here", "a token here"])
def test_it_is_refused_with_both_ways_out(
    open_cluster: str, rig_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for key, value in variables.items():
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
