import socket

import pytest

from rigproof.cluster.ray import auth_token
from rigproof.cluster.ray.join_probe import check_joinable
from rigproof.cluster.ray.preconditions import ClusterUnreachable


def test_an_address_where_nobody_can_listen_is_refused_before_a_child_is_started():
    with pytest.raises(ClusterUnreachable, match="not an address"):
        check_joinable("ray://pc1:10001", 1.0)


@pytest.fixture
def no_token(tmp_path, monkeypatch):
    """A user without a token, whoever runs the tests."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (auth_token.MODE, auth_token.VALUE, auth_token.PATH):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_token")
def test_what_listens_but_is_no_ray_is_given_up_at_the_limit():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(
            ClusterUnreachable, match=r"no answer within 2 s; type this on a machine of the cluster"
        ):
            check_joinable(address, 2.0)
