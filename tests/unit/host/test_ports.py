"""Free ports of this host."""

import socket

import pytest

from rigproof.host.ports import free_ports


def test_ports_are_different_and_can_be_listened_at():
    ports = free_ports("127.0.0.1", 8)
    assert len(set(ports)) == 8
    with socket.create_server(("127.0.0.1", ports[0])) as server:
        assert server.getsockname()[1] == ports[0]


def test_an_address_of_another_host_has_none_here():
    with pytest.raises(OSError, match="assign"):
        free_ports("192.0.2.1", 1)
