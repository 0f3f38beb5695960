"""Network interfaces: what they are, by files that Linux has of them, and how their addresses are written."""

import json
from dataclasses import asdict

import psutil
import pytest

from rigproof.host import interfaces as module
from rigproof.host.interfaces import Interface, counters, from_data, interfaces, kind_of, link_mbps


@pytest.fixture
def sys(tmp_path):
    """Makes an interface's folder of these files; a folder if the name ends in a slash."""

    def make(name, **files):
        own = tmp_path / name
        own.mkdir(exist_ok=True)
        for path, text in files.items():
            place = own / path.replace("__", "/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.mkdir() if text is None else place.write_text(text)
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({"type": "1\n", "device": None}, "ethernet"),
        ({"type": "1\n"}, "ethernet"),  # a veth, as in a container
        ({"type": "1\n", "wireless": None}, "wifi"),
        ({"type": "1\n", "phy80211": None}, "wifi"),
        ({"type": "1\n", "tun_flags": "0x1002"}, "vpn"),  # a tap
        ({"type": "65534\n"}, "vpn"),  # WireGuard
        ({"type": "32\n"}, "infiniband"),
        ({"type": "772\n"}, "loopback"),
        ({"type": "1\n", "bridge": None}, "bridge"),
        ({}, "ethernet"),  # /sys of another namespace
    ],
)
def test_kind(sys, files, kind):
    """What the kernel has of an interface says what it is, whatever its name."""
    assert kind_of("x0", sys("x0", **files)) == kind


def test_bridge_to_the_world(sys):
    """A bridge with a physical port is how the host is joined to its LAN; one of containers is not."""
    sys("eth0", type="1", device=None)
    sys("veth1", type="1")
    sys("docker0", type="1", bridge=None, brif__veth1="")
    assert kind_of("docker0", sys("br0", type="1", bridge=None, brif__veth1="", brif__eth0="")) == "bridge"
    assert kind_of("br0", sys("bond0", lower_eth0="")) == "ethernet"
    assert kind_of("br1", sys("br1", bridge=None, brif__bond0="")) == "ethernet"


def test_made_of_another(sys):
    """A VLAN or a bond is what carries it."""
    sys("wlan0", type="1", wireless=None)
    assert kind_of("vlan5", sys("vlan5", type="1", lower_wlan0="")) == "wifi"


def test_own_loopback():
    """This host has loopback, with its prefixes, and counts."""
    own = {one.name: one for one in interfaces()}
    assert own["lo"].kind == "loopback"
    assert "127.0.0.1/8" in own["lo"].addresses
    assert own["lo"].mtu > 1500
    assert counters()["lo"].sent_bytes >= 0


def test_link_local_has_no_meaning_elsewhere():
    """Addresses of IPv6 that need a zone are left out; a mask of IPv6 is a length."""
    mask = "ffff:ffff:ffff:ffff::"
    assert module._with_prefix("fe80::1%eth0", mask) is None
    assert module._with_prefix("fd00:77::1", mask) == "fd00:77::1/64"
    assert module._with_prefix("10.8.0.2", None) == "10.8.0.2/32"
    assert module._with_prefix("no address", None) is None


def test_as_data():
    """An interface comes through JSON unchanged."""
    one = Interface("eth0", "ethernet", ("10.0.0.1/24", "fd00::1/64"), 1500, 1000, True, True)
    assert from_data(json.loads(json.dumps(asdict(one)))) == one
    with pytest.raises((TypeError, KeyError)):
        from_data({"name": "eth0"})


def test_the_speed_is_that_of_the_slowest_card_below(sys):
    """A bond's own figure is a sum, of which one connection gets a part; a veth's is made up."""
    sys("eth0", device=None, speed="1000\n")
    sys("eth1", device=None, speed="2500\n")
    sys("eth2", device=None, speed="-1\n")  # no carrier
    sys("veth1", speed="10000\n")
    made = sys("bond0", speed="3500\n", lower_eth0="", lower_eth1="", lower_eth2="")
    assert link_mbps("eth0", made) == 1000
    assert link_mbps("eth2", made) is None
    assert link_mbps("veth1", made) is None
    assert link_mbps("bond0", made) == 1000
    assert link_mbps("bond0.7", sys("bond0.7", lower_bond0="")) == 1000
    assert link_mbps("br0", sys("br0", bridge=None, lower_veth1="", lower_eth1="")) == 2500
    assert link_mbps("nothing", made) is None


@pytest.mark.parametrize("driver", ["virtio_net", "vmxnet3"])
def test_the_card_of_a_virtual_machine_has_no_speed(sys, driver):
    made = sys("eth0", device=None, speed="10000\n", **{f"drivers__{driver}": ""})
    (made / "eth0" / "device" / "driver").symlink_to(made / "eth0" / "drivers" / driver)
    assert link_mbps("eth0", made) is None


@pytest.mark.parametrize(
    ("mbps", "duplex", "full"),
    [
        (1000, psutil.NIC_DUPLEX_FULL, True),
        (100, psutil.NIC_DUPLEX_HALF, False),
        (2500, psutil.NIC_DUPLEX_HALF, None),
        (1000, psutil.NIC_DUPLEX_HALF, None),
        (100, psutil.NIC_DUPLEX_UNKNOWN, None),
    ],
)
def test_half_duplex_is_believed_below_a_gigabit_alone(monkeypatch, mbps, duplex, full):
    """cdc_ncm says it of USB adapters that carry 945 Mbit/s both ways at once."""
    found = {name: one._replace(speed=mbps, duplex=duplex) for name, one in psutil.net_if_stats().items()}
    monkeypatch.setattr(psutil, "net_if_stats", lambda: found)
    assert {one.full_duplex for one in interfaces()} == {full}
