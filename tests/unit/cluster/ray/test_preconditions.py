"""What is refused before Ray is started or joined: another version of it, an address where nobody listens."""

import socket
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import ray._private.node as ray_node

from rigproof.cluster.ray import preconditions
from rigproof.cluster.ray.bare_head import bare_head
from rigproof.cluster.ray.join_probe import check_joinable
from rigproof.cluster.ray.preconditions import (
    ClusterStartFailed,
    ClusterUnreachable,
    check_listening,
    check_ray_version,
)
from rigproof.cluster.ray.session import start_local

ROOT = Path(__file__).resolve().parents[4]


class RefusedError(Exception):
    pass


def installed(monkeypatch, version):
    def found(name):
        assert name == "ray"
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(preconditions, "version", found)


@pytest.mark.parametrize("version", ["2.52.0", "2.52.1", "2.60.0", "2.100.0", "3.0.0.dev0", "2.53.0rc1"])
def test_a_ray_that_knows_tokens_is_taken(monkeypatch, version):
    installed(monkeypatch, version)
    check_ray_version(RefusedError)


@pytest.mark.parametrize("version", ["2.51.2", "2.9.3", "1.13.0", "2.51.0.post1", "0.8"])
def test_an_older_ray_is_refused_with_the_version_to_install(monkeypatch, version):
    installed(monkeypatch, version)
    expected = rf"{version} has no token authentication.*CVE-2025-62593.*install ray>=2\.52 on"
    with pytest.raises(RefusedError, match=expected):
        check_ray_version(RefusedError)


@pytest.mark.parametrize(
    ("version", "expected"), [(None, "not installed"), ("nightly", "not a known release")]
)
def test_a_ray_that_is_not_there_or_not_known_is_refused(monkeypatch, version, expected):
    installed(monkeypatch, version)
    with pytest.raises(RefusedError, match=expected):
        check_ray_version(RefusedError)


@pytest.mark.parametrize(
    ("version", "tested"), [("2.60.0", True), ("2.60.1", True), ("2.61.0", False), ("3.0.0.dev0", False)]
)
def test_only_a_tested_ray_is_started_bare(monkeypatch, version, tested):
    installed(monkeypatch, version)
    assert preconditions.is_tested() is tested
    whole = ray_node.Node
    with bare_head(1):
        assert (ray_node.Node is whole) is not tested
    assert ray_node.Node is whole


def test_the_version_that_is_installed_for_tests_is_a_tested_one():
    assert preconditions.is_tested()


def test_an_old_ray_is_neither_started_nor_joined(monkeypatch):
    installed(monkeypatch, "2.51.2")
    with pytest.raises(ClusterStartFailed, match=r"ray>=2\.52"):
        start_local("host", cpus=1, gpus=0, namespace="n", limit_s=1, stop_s=1, stall_s=1)
    with pytest.raises(ClusterUnreachable, match=r"ray>=2\.52"):
        check_joinable("127.0.0.1:9", 1.0)


@pytest.mark.parametrize("address", ["", "pc1", "pc1:", ":6379", "pc1:0", "fd00::1:6379", "ray://pc1:10001"])
def test_what_is_no_address_is_refused_with_an_example(address):
    with pytest.raises(
        ClusterUnreachable, match=r"write HOST:PORT .* 192\.168\.1\.10:6379 or \[fd00::1\]:6379"
    ):
        check_listening(address)


def test_where_nobody_listens_the_way_out_is_named():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(ClusterUnreachable, match=r"no answer from there .* `rigproof cluster up RIG`"):
        check_listening(f"127.0.0.1:{port}")


def test_where_somebody_listens_there_is_nothing_to_say():
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_listening(f"127.0.0.1:{server.getsockname()[1]}")


def test_ray_finds_its_own_address():
    check_listening("auto")


def test_the_check_needs_no_ray():
    code = "import sys; sys.modules['ray'] = None; import rigproof.cluster.ray.preconditions"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=240)


def test_an_address_where_nobody_can_listen_is_refused_before_a_child_is_started():
    with pytest.raises(ClusterUnreachable, match="not an address"):
        check_joinable("ray://pc1:10001", 1.0)


@pytest.fixture
def no_token(tmp_path, monkeypatch):
    """A user without a token, whoever runs the tests."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (preconditions.AUTH_MODE, preconditions.AUTH_TOKEN, preconditions.AUTH_TOKEN_PATH):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_token")
def test_what_listens_but_is_no_ray_is_given_up_at_the_limit():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(
            ClusterUnreachable, match=r"no answer within 2 s; type this on a machine of the cluster"
        ):
            check_joinable(address, 2.0)
