"""Which interface gloo and NCCL take, which ways may join two nodes, and which network is the best."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigproof.host.interfaces import Interface
from rigproof.stages.route.choice import (
    MOST_WAYS,
    ROUTED,
    Best,
    Found,
    Speed,
    Way,
    best_of,
    gloo_takes,
    group_of,
    nccl_takes,
    neighbours,
    ways,
)


def interface(name, *addresses, kind="ethernet", up=True):
    return Interface(name, kind, addresses, 1500, None, None, up)


LO = interface("lo", "127.0.0.1/8", "::1/128", kind="loopback")
ETH = interface("enp5s0", "192.168.1.10/24", "fd00::10/64")
WIFI = interface("wlp3s0", "192.168.1.77/24", kind="wifi")
DOCKER = interface("docker0", "172.17.0.1/16", kind="bridge")
PC = (LO, DOCKER, WIFI, ETH)


@pytest.mark.parametrize(
    ("variables", "resolved", "address"),
    [
        ({}, ("192.168.1.10",), "192.168.1.10"),
        ({}, ("127.0.1.1",), "127.0.1.1"),
        ({}, ("10.9.9.9", "fd00::10"), "fd00::10"),  # the first one is another host's
        ({}, (), "127.0.0.1"),
        ({"GLOO_SOCKET_IFNAME": "wlp3s0"}, ("127.0.1.1",), "192.168.1.77"),
        ({"GLOO_SOCKET_IFNAME": "enp5s0,wlp3s0"}, (), "192.168.1.10"),
        ({"GLOO_SOCKET_IFNAME": "enp5"}, ("192.168.1.10",), ""),  # no prefix, as NCCL has
    ],
)
def test_gloo(variables, resolved, address):
    assert gloo_takes(PC, variables, resolved) == address


@pytest.mark.parametrize(
    ("variables", "names"),
    [
        ({}, ("wlp3s0", "enp5s0")),  # in the kernel's order: Wi-Fi before the cable
        ({"NCCL_SOCKET_IFNAME": "enp"}, ("enp5s0",)),
        ({"NCCL_SOCKET_IFNAME": "=enp"}, ()),
        ({"NCCL_SOCKET_IFNAME": "=enp5s0"}, ("enp5s0",)),
        ({"NCCL_SOCKET_IFNAME": "^wlp,docker,lo"}, ("enp5s0",)),
        ({"NCCL_SOCKET_IFNAME": "docker,enp"}, ("docker0", "enp5s0")),
        ({"NCCL_SOCKET_FAMILY": "AF_INET6"}, ("enp5s0",)),
        ({"NCCL_SOCKET_IFNAME": "x"}, ("wlp3s0", "enp5s0")),  # one letter is none to NCCL
    ],
)
def test_nccl(variables, names):
    """As NCCL 2.28.9 logged it ("NET/Socket : Using") on a host with such interfaces, in this order."""
    assert nccl_takes(PC, variables) == names


def test_nccl_prefers_infiniband_and_falls_back_to_docker_then_loopback():
    assert nccl_takes((*PC, interface("ibp1", "10.1.0.1/24", kind="infiniband")), {}) == ("ibp1",)
    assert nccl_takes((LO, DOCKER), {}) == ("docker0",)
    assert nccl_takes((LO, replace(DOCKER, up=False)), {}) == ("lo",)


def test_ways_lead_through_networks_that_both_have():
    other = (LO, DOCKER, interface("eth0", "192.168.1.11/24", "fd00::11/64"))
    assert ways(PC, other, []) == (
        Way("wlp3s0", "192.168.1.77", "eth0", "192.168.1.11", "192.168.1.0/24"),
        Way("enp5s0", "192.168.1.10", "eth0", "192.168.1.11", "192.168.1.0/24"),
    )


def test_addresses_that_libraries_take_are_tried_though_they_share_no_network():
    other = (LO, interface("eth0", "10.0.5.11/24"))
    assert ways(PC, other, [("192.168.1.10", "10.0.5.11"), ("127.0.1.1", "127.0.1.1")]) == (
        Way("enp5s0", "192.168.1.10", "eth0", "10.0.5.11", ROUTED),
    )


def test_a_way_over_ipv6_alone():
    one, other = interface("eth0", "fd00::1/64"), interface("eth0", "fd00::2/64")
    assert ways((one,), (other,), []) == (Way("eth0", "fd00::1", "eth0", "fd00::2", "fd00::/64"),)


def test_a_network_of_ipv6_in_common_is_a_way_beside_a_routed_one_of_ipv4():
    one = interface("eth0", "10.1.0.1/24", "fd00::1/64")
    other = interface("eth0", "10.2.0.1/24", "fd00::2/64")
    assert ways((one,), (other,), [("10.1.0.1", "10.2.0.1")]) == (
        Way("eth0", "10.1.0.1", "eth0", "10.2.0.1", ROUTED),
        Way("eth0", "fd00::1", "eth0", "fd00::2", "fd00::/64"),
    )


def test_of_many_ports_in_one_network_those_of_the_same_number_come_first():
    one, other = (
        tuple(interface(f"eth{port}", f"10.0.{node}.{port}/16") for port in range(8)) for node in (1, 2)
    )
    found = ways(one, other, [])
    assert len(found) == MOST_WAYS
    assert all(way.interface == way.to_interface for way in found[:8])


def way(
    network="a",
    mbps=940.0,
    kind="ethernet",
    *,
    nodes=("pc1", "pc2"),
    names=None,
    whole=True,
    rays=False,
    port=None,
):
    kinds = (kind, "ethernet") if network == "mixed" else (kind, kind)
    names = names or (f"{network}0", f"{network}1")
    return Found(nodes, names, kinds, network, whole, mbps, rays, port)


@pytest.mark.parametrize(
    ("found", "network"),
    [
        ([], ""),
        ([way("a"), way("b", 2350.0)], "b"),
        ([way("a", rays=True), way("b", 1200.0)], "a"),  # about as fast: Ray's
        ([way("a", 100.0, rays=True), way("b", 2350.0, "wifi")], "a"),
        ([way("a", 9000.0, whole=False), way("b", 940.0)], "b"),
        ([way("a"), way("b"), way("b", nodes=("pc2", "pc3"), names=("b1", "b0"))], "b"),  # joins more
    ],
)
def test_the_best_network(found, network):
    assert best_of(found).network == network


@pytest.mark.parametrize(
    ("mbps", "ports", "network"),
    [
        ((9400, 14000), (10_000, 100_000), "b"),  # more than 10 Gbit/s can carry
        ((9400, 14000), (10_000, None), "a"),
        ((9400, 14000), (None, 100_000), "a"),
        ((9400, 9000), (10_000, 100_000), "a"),  # it may lead over a switch of 10 Gbit/s
        ((13000, 14000), (25_000, 100_000), "b"),  # one CPU core sends no more of either
        ((14000, 13000), (25_000, 100_000), "b"),
        ((14000, 13000), (25_000, None), "a"),
        ((14000, 9400), (25_000, 100_000), "a"),  # it may lead over a switch of 10 Gbit/s
        ((9000, 8900), (25_000, 100_000), "a"),  # both may
        ((23000, 23000), (25_000, 100_000), "a"),  # both may lead over one of 25 Gbit/s
        (
            (20000, 14000, 10000),
            (25_000, 40_000, 100_000),
            "b",
        ),  # the third is too slow for the first, not for the second
        ((9400, 5000, 940), (10_000, 100_000, 1000), "a"),
        ((9400, 14000, 940), (10_000, 100_000, 1000), "b"),
        ((14000, 13000, 9400), (100_000, 25_000, 10_000), "a"),
        ((14000, 14000), (1000, 100_000), "a"),  # a bond states the slowest of its ports
        ((14000, 13900), (10_000, 100_000), "a"),
    ],
)
def test_which_network_is_faster_by_what_ports_state_where_bursts_bear_it_out(mbps, ports, network):
    """Ray is on the first network."""
    found = [
        way(name, float(rate), port=port, rays=name == "a")
        for name, rate, port in zip("abc", mbps, ports, strict=False)
    ]
    assert best_of(found).network == network


@given(
    st.floats(1, 1e6), st.integers(1, 10**6) | st.none(), st.floats(1, 1e6), st.integers(1, 10**6) | st.none()
)
def test_a_way_is_outdone_only_by_faster_ports_and_never_by_a_slower_burst(one, own, other, its):
    way, beside = Speed(one, own), Speed(other, its)
    if way.outdone_by(beside, 1.5):
        assert own >= one
        assert its >= 1.5 * own
        assert other > own or min(one, other) >= 10_000
        assert other >= 0.67 * one
        assert not beside.outdone_by(way, 1.5)


def test_of_two_interfaces_in_one_network_the_cable_is_taken():
    found = [
        way("lan", 500.0, names=("eth0", "enp5s0")),
        replace(way("lan", 600.0, names=("wlan0", "enp5s0"), rays=True), kinds=("wifi", "ethernet")),
    ]
    assert best_of(found) == Best("lan", {"pc1": "eth0", "pc2": "enp5s0"})


@given(st.integers(2, 40))
def test_each_node_has_neighbours_and_is_in_one_group(size):
    """Whatever ranks are there, every way of the ring is probed from both ends, and all reduce once."""
    present = [3 * rank for rank in range(size)]
    near = {rank: neighbours(rank, present) for rank in present}
    assert all(rank in near[other] and rank != other for rank in present for other in near[rank])
    assert all(len(found) == (1 if size == 2 else 2) for found in near.values())
    groups = {group_of(rank, present) for rank in present}
    assert sorted(rank for group in groups for rank in group) == present
    assert {len(group) for group in groups} <= {2, 3}


@pytest.mark.parametrize("racks", [(2, 2), (3, 2), (3, 3), (8, 8), (3, 3, 3)])
@pytest.mark.parametrize("management", [False, True])
def test_racks_that_a_router_joins_have_one_best_way(racks, management):
    """Each rack is a network of its own; one of all boards' ports, at 1 Gbit/s, is no match for it."""
    rack_of = [rack for rack, size in enumerate(racks) for _ in range(size)]
    found = []
    for rank, rack in enumerate(rack_of):
        for other in neighbours(rank, range(len(rack_of))):
            nodes = f"n{rank}", f"n{other}"
            network = f"10.1.{rack}.0/24" if rack == rack_of[other] else "routed"
            found.append(way(network, 9400.0, nodes=nodes, names=("eth0", "eth0"), rays=True, port=10_000))
            if management:
                found.append(way("10.9.0.0/16", 940.0, nodes=nodes, names=("mgmt0", "mgmt0"), port=1000))
    best = best_of(found)
    assert set(best.interfaces.values()) == {"eth0"}
    assert len(best.interfaces) == len(rack_of)


def test_a_router_beside_a_network_of_all_changes_nothing():
    """Two PCs whose libraries take different interfaces: a router joins the cable with the Wi-Fi."""
    both = ("pc1", "pc2"), ("pc2", "pc1")
    cable = [way("10.0.0.0/24", nodes=nodes, names=("eth0", "eth0")) for nodes in both]
    wifi = [way("192.168.0.0/24", 300.0, "wifi", nodes=nodes, names=("wlan0", "wlan0")) for nodes in both]
    across = replace(way("routed", 300.0, names=("wlan0", "eth0")), kinds=("wifi", "ethernet"))
    assert best_of([*cable, *wifi, across]) == best_of([*cable, *wifi])
