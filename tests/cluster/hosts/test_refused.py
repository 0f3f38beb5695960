"""Hosts that do not come, or may not: refused or named, in time, with the right exit status."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support.acceptance import CHECKOUT
from support.network_hosts import PATIENCE_S, Network
from support.ray_hosts import START_S, RayHosts, ended_after

COMES_S = 20  # how long the run waits for hosts that do not come
CLUSTER_ONLY = ("-k", "nodes_present")  # no stage needs to run for it
OTHERS = {  # as Ray compares them; it treats another Python as it does another Ray, and a host as a driver
    "ray": "import ray; ray.__version__ = '2.59.0'",
    "rigproof": "import rigproof; rigproof.__version__ = '0.0.1'",
}


@pytest.fixture(scope="module")
def head() -> Iterator[RayHosts]:
    """pc1 is up, pc2 is not."""
    with Network("pc1", "pc2") as network:
        cluster = RayHosts.of(network)
        assert cluster.ray_start(network["pc1"]).returncode == 0
        yield cluster


@pytest.fixture(scope="module", autouse=True)
def try_with_wrong_token(head: RayHosts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Future[Any]]:
    """pc2 tries to join with a wrong token, beside the tests: Ray takes 20 s to give up."""
    environment = {"HOME": str(tmp_path_factory.mktemp("wrong")), "RAY_AUTH_TOKEN": "0" * 64}
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(head.ray_start, head.network["pc2"], environment=environment)


def with_other(folder: Path, what: str) -> dict[str, str]:
    """The environment of a host with another version of this: every interpreter there begins with it."""
    (folder / "sitecustomize.py").write_text(OTHERS[what] + "\n")
    return {"PYTHONPATH": f"{folder}:{CHECKOUT}"}


def test_a_host_that_never_comes_is_named_and_the_run_ends(head: RayHosts) -> None:
    """Nor does one that tries in vain: exit 1, with the line to type on each."""
    running = head.accept(head.profile("pc1", "pc2", "pc3", start_s=COMES_S), *CLUSTER_ONLY)
    run = ended_after(running, "host that never comes", COMES_S).run
    assert run.status == 1, run.output
    assert run.outcome("cluster.nodes_present", "pc1") == "pass"
    for name in ("pc2", "pc3"):
        assert run.outcome("cluster.nodes_present", name) == "fail"
        remedy = run.criteria["cluster.nodes_present", name]["remedy"]
        assert f"type there: `env RAY_AUTH_MODE=token ray start --address={head.address}" in remedy
    assert "Traceback" not in run.output


def test_a_host_without_the_clusters_token_cannot_join(try_with_wrong_token: Future[Any]) -> None:
    done = try_with_wrong_token.result(PATIENCE_S)
    assert done.returncode != 0
    assert "oken" in done.stdout


def test_a_driver_of_another_version_is_refused(head: RayHosts, tmp_path: Path) -> None:
    """One without the cluster's token: test_two_nodes.py, and its exit status: test_open_cluster.py."""
    running = head.accept(head.profile("pc1"), *CLUSTER_ONLY, environment=with_other(tmp_path, "ray"))
    run = ended_after(running, "driver of another ray", START_S).run
    assert run.status == 4, run.output
    assert "install the same Python and ray on every node" in run.output
    assert "Traceback" not in run.output


def test_a_host_with_another_rigproof_is_named(head: RayHosts, tmp_path: Path) -> None:
    """Runs last: pc2 joins."""
    pc2 = head.network["pc2"]
    done = head.ray_start(pc2, environment=with_other(tmp_path, "rigproof"))
    assert done.returncode == 0, done.stdout
    running = head.accept(head.profile(), "-k", "nodes_present or no_timeouts")
    run = ended_after(running, "host of another rigproof", START_S).run
    assert run.status == 6, run.output  # nothing was measured there, and the rig is not to blame
    assert "pc2 has rigproof 0.0.1. Install rigproof==" in run.output
    assert run.outcome("cluster.nodes_present", "pc1") == "pass"
    assert "Traceback" not in run.output
