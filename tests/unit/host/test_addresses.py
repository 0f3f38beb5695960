import socket

import pytest

from rigproof.host import addresses
from rigproof.host.addresses import free_ports, host_and_port, host_port, numeric, one_spelling, same_host


@pytest.mark.parametrize(
    ("host", "port", "written"),
    [
        ("192.168.1.10", 6379, "192.168.1.10:6379"),
        ("pc1.lan", 1, "pc1.lan:1"),
        ("fd00::1", 6379, "[fd00::1]:6379"),
    ],
)
def test_a_host_and_its_port_are_read_as_they_are_written(host, port, written):
    assert host_port(host, port) == written
    assert host_and_port(written) == (host, port)


@pytest.mark.parametrize(
    "address",
    ["", "pc1", "pc1:", ":6379", "[]:6379", "pc1:0", "pc1:65536", "pc1:²", "fd00::1:6379", "[fd00::1]"],
)
def test_what_is_no_host_and_port(address):
    assert host_and_port(address) is None


@pytest.mark.parametrize(
    ("written", "spelled"),
    [("FD00:0::01", "fd00::1"), ("[fd00::1]", "fd00::1"), ("10.0.0.1", "10.0.0.1"), ("PC1.lan", "PC1.lan")],
)
def test_an_ipv6_address_has_one_spelling(written, spelled):
    assert one_spelling(written) == spelled


def test_an_address_is_looked_up_in_both_families():
    assert (numeric("127.0.0.1"), numeric("0:0::1")) == ("127.0.0.1", "::1")
    for unknown in ("no-such-host.invalid", "a" * 70 + ".lan"):
        with pytest.raises(OSError, match=r"."):
            numeric(unknown)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("box", "BOX", True),
        ("box.lan", "box", True),
        ("box.lan", "box.lan.", True),
        ("box.lan", "box.wan", False),
        ("10.0.0.1", "10", False),
        ("", "", True),
        ("box", "boxes", False),
    ],
)
def test_host_names_with_and_without_domain(one, other, same):
    assert same_host(one, other) is same


def test_ports_are_different_and_can_be_listened_at():
    ports = free_ports("127.0.0.1", 8)
    assert len(set(ports)) == 8
    with socket.create_server(("127.0.0.1", ports[0])) as server:
        assert server.getsockname()[1] == ports[0]


@pytest.mark.parametrize(("address", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)])
def test_a_port_is_kept_from_all_but_its_listener_until_many_more_are_asked_for(address, family, monkeypatch):
    monkeypatch.setattr(addresses, "KEPT", 2)
    first, second = free_ports(address, 2)
    with socket.create_server((address, first), family=family), socket.create_connection((address, first)):
        pass
    with socket.socket(family) as other:
        for taken in (address, ""):
            with pytest.raises(OSError, match="in use"):
                other.bind((taken, second))
        free_ports(address, 2)
        other.bind((address, second))


def test_an_address_of_another_host_has_none_here():
    with pytest.raises(OSError, match="assign"):
        free_ports("192.0.2.1", 1)
