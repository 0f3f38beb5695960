import socket

import pytest

from rigproof.cluster.errors import ClusterUnreachable
from rigproof.cluster.join_probe import check_joinable


@pytest.mark.parametrize("address", ["", "pc1", "pc1:", ":6379", "pc1:0", "pc1:99999", "ray://pc1:10001"])
def test_what_is_no_address_is_refused_with_an_example(address):
    with pytest.raises(ClusterUnreachable, match=r"write HOST:PORT .* such as 192\.168\.1\.10:6379"):
        check_joinable(address, 1.0)


def test_where_nobody_listens_the_way_out_is_named():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(
        ClusterUnreachable, match=rf"nobody answers there .* `ray start --head --port={port}`"
    ):
        check_joinable(f"127.0.0.1:{port}", 1.0)


def test_what_listens_but_is_no_ray_is_given_up_at_the_limit():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ClusterUnreachable, match=r"no answer within 2 s; is it a Ray head"):
            check_joinable(address, 2.0)
