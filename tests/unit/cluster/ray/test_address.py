import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rigproof.cluster.ray.address import check_listening
from rigproof.cluster.ray.errors import ClusterUnreachable

ROOT = Path(__file__).resolve().parents[4]


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
    code = "import sys; sys.modules['ray'] = None; import rigproof.cluster.ray.address"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=240)
