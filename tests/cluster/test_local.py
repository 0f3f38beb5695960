"""A Ray of our own: on loopback, with a token, and gone without a trace."""

import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray

from rigproof.cluster.driver.rig_cluster import RigCluster
from rigproof.host import processes

LOOPBACK = {"127.0.0.1", "::ffff:127.0.0.1", "::1"}


def family(cluster: RigCluster) -> frozenset[processes.ProcessId]:
    started = cluster._ground._session._processes
    assert started
    return started | processes.descendants({process.pid for process in started})


def listening(pids: set[int]) -> set[tuple[str, int]]:
    """Address and port of each socket that these processes listen at."""
    sockets = [one for pid in pids for one in psutil.Process(pid).net_connections("tcp")]
    return {(one.laddr.ip, one.laddr.port) for one in sockets if one.status == psutil.CONN_LISTEN}


def test_it_works_on_loopback_behind_a_token_and_ctrl_c_takes_everything_down(
    rig_of: Callable[..., Any],
) -> None:
    """Its orderly end: test_foreign_memory.py."""
    rig = rig_of("host")
    environment = dict(os.environ)
    kept: dict[str, Any] = {}

    def interrupt() -> None:
        if rig.rounds("long", "host/cpu0"):
            raise KeyboardInterrupt

    def accept() -> None:
        with rig.cluster(None) as cluster:
            plan, specs = rig.sustained("sustained", 1)
            assert cluster.run_stage(plan, specs).status == "finished"
            kept.update(folder=cluster._ground._session.folder, ours=family(cluster))
            look_at(cluster, kept["ours"])
            plan, specs = rig.sustained("long", 600)
            cluster.run_stage(plan, specs, on_tick=interrupt)

    with pytest.raises(KeyboardInterrupt):
        accept()
    assert processes.wait_gone(kept["ours"], 0) == ()
    assert not kept["folder"].exists()
    assert dict(os.environ) == environment
    assert rig.recording.stages["long"].status == "interrupted"
    assert not rig.events("timeout", "worker_died", "agent_died", "worker_hung")


def look_at(cluster: RigCluster, ours: frozenset[processes.ProcessId]) -> None:
    """It listens on loopback alone, and lets nobody in without the token."""
    folder, address = cluster._ground._session.folder, ray.get_runtime_context().gcs_address
    pids = {os.getpid(), *(process.pid for process in ours)}
    places = listening(pids)
    assert places
    assert {address for address, _ in places} <= LOOPBACK  # workers, agents and this driver too
    assert address.startswith("127.0.0.1:")
    titles = [Path(f"/proc/{pid}/cmdline").read_text() for pid in pids]
    agents = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")
    assert not [title for title in titles if title.startswith(agents)]
    assert {answer_to_a_stranger(port) for _, port in places} <= {None, 401}
    token = os.environ["RAY_AUTH_TOKEN"].encode()
    assert not [path for path in folder.rglob("*") if path.is_file() and token in path.read_bytes()]
    stranger = join_without_token(address)
    assert stranger.returncode != 0
    assert "oken" in stranger.stderr


def answer_to_a_stranger(port: int) -> int | None:
    """The HTTP status that a browser gets there; None where it is none of HTTP's (gRPC's are).

    None too for Ray's exporter of metrics, which answers whatever it is asked with them, on loopback.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/api/version")
        answer = connection.getresponse()
        metrics = answer.status == 200 and answer.read(7) == b"# HELP "
        return None if metrics else answer.status
    except (http.client.BadStatusLine, OSError):
        return None
    finally:
        connection.close()


def join_without_token(address: str) -> subprocess.CompletedProcess[str]:
    code = f"import ray._raylet; ray._raylet.GcsClient(address={address!r})"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("RAY_AUTH")}
    environment |= {"RAY_AUTH_MODE": "disabled", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_a_signal_ends_a_ray_that_hangs(tmp_path: Path, script: Callable[..., str]) -> None:
    """Every process of it is frozen, so that no call to it ever returns, and the end takes its full time.

    By SIGTERM, which Ray has a handler for: what the driver does at it is what it does at Ctrl-C.
    """
    driver = subprocess.Popen(
        [sys.executable, "-c", script(tmp_path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    folder = Path(driver.stdout.readline().strip())
    ours = processes.descendants({driver.pid})
    for process in ours:
        os.kill(process.pid, signal.SIGSTOP)
    os.kill(driver.pid, signal.SIGTERM)
    try:
        _, complaints = driver.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        driver.send_signal(signal.SIGUSR1)  # it writes its stacks
        for process in (*ours, *processes.descendants({driver.pid})):
            processes.kill(process)
        time.sleep(2)
        driver.kill()
        pytest.fail(f"the driver has not ended:\n{driver.communicate(timeout=10)[1]}")
    assert "KeyboardInterrupt" in complaints
    assert driver.returncode == -signal.SIGINT  # Python's own, and neither Ray's nor an alarm's
    assert processes.wait_gone(ours, 0) == ()
    assert not folder.exists()


def test_a_rig_that_is_elsewhere_is_missing_without_a_wait(tmp_path: Path, load: Callable[..., Any]) -> None:
    rig = load(
        """
        name = "elsewhere"
        [[nodes]]
        name = "pc-one"
        address = "192.0.2.101"
        cpus = 80
        gpus = [{ sku = "rtx-3090" }]
        [[nodes]]
        name = "pc-two"
        address = "192.0.2.102"
        cpus = 16
        gpus = [{ sku = "rtx-3070" }]
        """
    )
    with rig.cluster(None) as cluster:
        assert cluster._ground._session is None  # there is nothing to start
        plan, specs = rig.sustained("sustained", 600)
        assert cluster.run_stage(plan, specs).status == "failed"
    one, two = rig.events("node_missing")
    assert "ray start --head --port=6379" in one.data["remedy"]
    assert "--node-ip-address=192.0.2.101 --node-name=pc-one --num-cpus=80 --num-gpus=1" in one.data["remedy"]
    assert "ray start --address=192.0.2.101:6379 --node-ip-address=192.0.2.102" in two.data["remedy"]
    assert {event.subject for event in rig.events("gpu_missing")} == {"pc-one/gpu0", "pc-two/gpu0"}
