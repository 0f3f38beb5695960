"""How two GPUs of a host are connected, as NVML knows it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from rigproof.telemetry.nvml.library import Gpu
from rigproof.telemetry.nvml.links import MOST_LINKS
from rigproof.telemetry.nvml.protocol import Ancestor, LinkEnd, P2p, P2pStatus

PATHS = {  # as `nvidia-smi topo -m` has them
    Ancestor.INTERNAL: "one board",
    Ancestor.SINGLE: "one PCIe switch",
    Ancestor.MULTIPLE: "several PCIe switches",
    Ancestor.HOSTBRIDGE: "one host bridge",
    Ancestor.NODE: "one NUMA node",
    Ancestor.SYSTEM: "the link between CPUs",
}
REASONS = {
    P2pStatus.CHIPSET: "its chipset is not supported",
    P2pStatus.GPU: "its driver does not offer it for these GPUs",
    P2pStatus.TOPOLOGY: "no way between their slots supports it",
    P2pStatus.DISABLED: "it is switched off in the driver's registry",
    P2pStatus.NOT_SUPPORTED: "it is not supported",
}


Bus = tuple[int, int, int]  # domain, bus, device


@dataclass(frozen=True, slots=True)
class Connection:
    """What NVML tells of two GPUs; None or empty where it does not.

    `nvlinks`: active links between them, over a switch if `switched`. `path`: the nearest thing that their
    PCIe links have in common. `why`: why one does not reach the other's memory directly.
    """

    nvlinks: int | None = None
    switched: bool = False
    path: str = ""
    why: str = ""


def connections(gpus: Sequence[Gpu]) -> dict[tuple[int, int], Connection]:
    """The connection of every two of a host's GPUs, by their places, the lower one first. Raises GpuLost."""
    buses = [_bus(gpu.ask("nvmlDeviceGetPciInfo")) for gpu in gpus]
    return {
        (first, second): _between(gpus, buses, first, second)
        for first, second in combinations(range(len(gpus)), 2)
    }


def _between(gpus: Sequence[Gpu], buses: Sequence[Bus | None], first: int, second: int) -> Connection:
    one, other = gpus[first], gpus[second]
    ancestor = one.number("nvmlDeviceGetTopologyCommonAncestor", other.handle)
    status = one.number("nvmlDeviceGetP2PStatus", other.handle, P2p.READ)
    ends = _links(one, buses[second], buses), _links(other, buses[first], buses)
    known = [number for number, _ in ends if number is not None]
    return Connection(
        nvlinks=min(known) if len(known) == len(ends) else None,
        switched=any(switched for _, switched in ends),
        path=next((text for level, text in PATHS.items() if level == ancestor), ""),
        why=next((text for code, text in REASONS.items() if code == status), ""),
    )


def _links(one: Gpu, bus: Bus | None, buses: Sequence[Bus | None]) -> tuple[int | None, bool]:
    """The active NVLinks to the GPU at that bus, and whether they go over a switch.

    None if one of them leads to nothing that is known: in a virtual machine a GPU may have another address.
    """
    found, switched = 0, False
    for link in range(MOST_LINKS):
        active = one.number("nvmlDeviceGetNvLinkState", link)
        if active is None:
            break  # behind its last link
        if not active:
            continue
        end = one.number("nvmlDeviceGetNvLinkRemoteDeviceType", link)
        remote = _bus(one.ask("nvmlDeviceGetNvLinkRemotePciInfo", link)) if end == LinkEnd.GPU else None
        if end == LinkEnd.SWITCH:
            found, switched = found + 1, True
        elif remote is None or remote not in buses:
            return None, False
        else:
            found += remote == bus
    return found, switched


def _bus(info: Any) -> Bus | None:
    return None if info is None else (int(info.domain), int(info.bus), int(info.device))
