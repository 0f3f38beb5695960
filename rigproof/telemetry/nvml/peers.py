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
OTHERWISE = "maybe IOMMU, ACS, a small BAR1"
REASONS = {
    P2pStatus.CHIPSET: f"its chipset is not supported; {OTHERWISE}",
    P2pStatus.GPU: "its driver does not offer it for these GPUs",
    P2pStatus.TOPOLOGY: f"no way between their slots supports it; {OTHERWISE}",
    P2pStatus.DISABLED: f"switched off in the driver's registry; {OTHERWISE}",
    P2pStatus.NOT_SUPPORTED: f"it is not supported; {OTHERWISE}",
}


Bus = tuple[int, int, int]  # domain, bus, device
SWITCH: Bus = (-1, -1, -1)  # in place of a bus


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
    ends = [_ends(gpu) for gpu in gpus]
    found = {}
    for first, second in combinations(range(len(gpus)), 2):
        one, other = gpus[first], gpus[second]
        ancestor = one.number("nvmlDeviceGetTopologyCommonAncestor", other.handle)
        status = one.number("nvmlDeviceGetP2PStatus", other.handle, P2p.READ)
        numbers = [
            _number(ends[here], buses[there], buses) for here, there in ((first, second), (second, first))
        ]
        known = [number for number in numbers if number is not None]
        found[first, second] = Connection(
            nvlinks=min(known) if len(known) == len(numbers) else None,
            switched=SWITCH in (*ends[first], *ends[second]),
            path=next((text for level, text in PATHS.items() if level == ancestor), ""),
            why=next((text for code, text in REASONS.items() if code == status), ""),
        )
    return found


def _ends(gpu: Gpu) -> list[Bus | None]:
    """Where each of its active NVLinks leads: a switch, a GPU by its bus, or None if that is not known."""
    found: list[Bus | None] = []
    for link in range(MOST_LINKS):
        active = gpu.number("nvmlDeviceGetNvLinkState", link)
        if active is None:
            break  # behind its last link
        if not active:
            continue
        end = gpu.number("nvmlDeviceGetNvLinkRemoteDeviceType", link)
        if end == LinkEnd.GPU:
            found.append(_bus(gpu.ask("nvmlDeviceGetNvLinkRemotePciInfo", link)))
        else:
            found.append(SWITCH if end == LinkEnd.SWITCH else None)
    return found


def _number(ends: Sequence[Bus | None], bus: Bus | None, buses: Sequence[Bus | None]) -> int | None:
    """How many of them lead to the GPU at that bus, over a switch or not.

    None if one of them leads to nothing that is known: in a virtual machine a GPU may have another address.
    """
    if any(one is None or (one != SWITCH and one not in buses) for one in ends):
        return None
    return sum(one in (bus, SWITCH) for one in ends)


def _bus(info: Any) -> Bus | None:
    return None if info is None else (int(info.domain), int(info.bus), int(info.device))
