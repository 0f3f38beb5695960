"""A host's network interfaces as they are now: kind, addresses, speed, and what they have counted.

psutil gives addresses and counters; /sys/class/net what an interface is, and the speed of its card.
"""

import socket
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Interface, ip_interface
from pathlib import Path
from typing import Any, Literal

SYS = Path("/sys/class/net")
UNKNOWN_MBPS = 2**31 - 1  # as drivers write -1
FULL_MBPS = 1000  # no card of so much is at half duplex; the driver of USB adapters (cdc_ncm) says so of any
_FAMILIES = (socket.AF_INET, socket.AF_INET6)

# "bridge": one that joins no physical port, as Docker and libvirt make them; one that does is "ethernet", as
# is whatever else carries Ethernet frames, such as a container's end of a veth pair.
InterfaceKind = Literal["ethernet", "infiniband", "wifi", "bridge", "vpn", "loopback"]
# linux/if_arp.h: ARPHRD_INFINIBAND, _LOOPBACK; _PPP, _TUNNEL, _TUNNEL6, _SIT, _IPGRE, _NONE (tun, WireGuard)
KIND_OF_TYPE: dict[int, InterfaceKind] = {
    32: "infiniband",
    772: "loopback",
    **dict.fromkeys((512, 768, 769, 776, 778, 0xFFFE), "vpn"),
}

# Drivers of virtual machines' cards, which report a speed of their own that the host's card need not have.
PRETENDING = ("virtio_net", "vmxnet3", "hv_netvsc", "netvsc", "vif", "xen-netfront")


@dataclass(frozen=True, slots=True)
class Counters:
    """What an interface has counted since it is there; `drops` and `errors` of both directions together."""

    sent_bytes: int
    received_bytes: int
    errors: int
    drops: int


@dataclass(frozen=True, slots=True)
class Interface:
    """One network interface, addresses with the length of their prefix: `192.168.1.10/24`, `fd00::1/64`.

    Link-local addresses of IPv6 are left out, since they mean nothing without a zone. `speed_mbps` is that of
    the card (`link_mbps`). It and `full_duplex` are None where no driver says, as of Wi-Fi.
    """

    name: str
    kind: InterfaceKind
    addresses: tuple[str, ...]
    mtu: int
    speed_mbps: int | None
    full_duplex: bool | None
    up: bool  # with a carrier

    def parsed(self) -> tuple[IPv4Interface | IPv6Interface, ...]:
        """Its addresses with their networks."""
        return tuple(ip_interface(one) for one in self.addresses)

    def has(self, address: str) -> bool:
        """Whether one of its addresses is this one."""
        return any(str(one.ip) == address for one in self.parsed())


def interfaces(sys: Path = SYS) -> tuple[Interface, ...]:
    """Every interface with an address, in the kernel's order of IPv4 addresses, by which NCCL chooses."""
    import psutil  # noqa: PLC0415 - stages' settings need none, and it loads on Linux alone

    statistics = psutil.net_if_stats()
    found, entries_of = [], defaultdict[str, list[Any]](list)
    for label, entries in psutil.net_if_addrs().items():
        entries_of[label.partition(":")[0]] += entries  # eth0:1 is a second address of eth0
    for name, entries in entries_of.items():
        addresses = [_with_prefix(one.address, one.netmask) for one in entries if one.family in _FAMILIES]
        if name not in statistics:
            continue  # it has gone meanwhile
        own = statistics[name]
        half = own.duplex == psutil.NIC_DUPLEX_HALF and own.speed < FULL_MBPS
        full = True if own.duplex == psutil.NIC_DUPLEX_FULL else False if half else None
        usable = tuple(one for one in addresses if one is not None)
        if usable:
            kind = kind_of(name, sys)
            found.append(Interface(name, kind, usable, own.mtu, link_mbps(name, sys), full, own.isup))
    return tuple(found)


def counters() -> dict[str, Counters]:
    """What each interface has counted, by name, now."""
    import psutil  # noqa: PLC0415 - as above

    return {
        name: Counters(one.bytes_sent, one.bytes_recv, one.errin + one.errout, one.dropin + one.dropout)
        for name, one in psutil.net_io_counters(pernic=True, nowrap=False).items()
    }


def kind_of(name: str, sys: Path = SYS) -> InterfaceKind:
    """What an interface is; "ethernet" if nothing says otherwise."""
    own = sys / name
    if (own / "wireless").exists() or (own / "phy80211").exists():
        return "wifi"
    if (own / "tun_flags").exists():
        return "vpn"
    if (own / "bridge").exists():
        return "ethernet" if any(_physical(port, sys) for port in own.glob("brif/*")) else "bridge"
    for lower in own.glob("lower_*"):  # a VLAN, a bond: what it is made of
        if (kind := kind_of(lower.name.removeprefix("lower_"), sys)) != "ethernet":
            return kind
    with suppress(OSError, ValueError):
        return KIND_OF_TYPE.get(int((own / "type").read_text()), "ethernet")
    return "loopback" if name == "lo" else "ethernet"


def link_mbps(name: str, sys: Path = SYS) -> int | None:
    """The speed of the card below an interface, in Mbit/s: what one connection can get of it.

    Of a bond, a VLAN or a bridge the slowest card that it is made of. None without a card that says so: a
    container's end of a veth pair claims 10 Gbit/s, and a virtual machine's card what its maker liked.
    """
    own = sys / name
    if (own / "device").exists():
        if (own / "device" / "driver").resolve().name in PRETENDING:
            return None
        with suppress(OSError, ValueError):
            speed = int((own / "speed").read_text())
            return speed if 0 < speed < UNKNOWN_MBPS else None
        return None
    below = [link_mbps(lower.name.removeprefix("lower_"), sys) for lower in own.glob("lower_*")]
    return min((speed for speed in below if speed is not None), default=None)


def from_data(data: Mapping[str, Any]) -> Interface:
    """The interface that `asdict` made this of, also after JSON. TypeError or KeyError for other data."""
    return Interface(**{**data, "addresses": tuple(data["addresses"])})


def _physical(port: Path, sys: Path) -> bool:
    """Whether a bridge's port leads out: it is a device, or made of one (a bond, a VLAN)."""
    own = sys / port.name
    return (own / "device").exists() or any(_physical(Path(one.name[6:]), sys) for one in own.glob("lower_*"))


def _with_prefix(address: str, netmask: str | None) -> str | None:
    """The address with the length of its prefix; None if it is link-local of IPv6 or cannot be read."""
    with suppress(ValueError):
        if ":" not in address:
            return str(ip_interface(f"{address}/{netmask or 32}"))
        length = bin(int(ip_interface(netmask).ip)).count("1") if netmask else 128
        found = ip_interface(f"{address.partition('%')[0]}/{length}")
        return None if found.is_link_local else str(found)
    return None
