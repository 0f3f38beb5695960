"""Foreign processes on a simulated card: what they take, and how the driver lists all processes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rigproof.host.processes import Who
from rigproof.simulation.faults.injected import InjectedFault, StageWindow
from rigproof.simulation.nvml.model import SimulatedProcess

CONTEXT_MIB = 520.0  # of a program that has just started; measured: 300 to 600
GROWTH_S = 2.0  # until the process that takes memory has all that it wants
LEFT_MIB = 72.0  # left free by it: less than the next matrix takes
BUSY_PERCENT = 98.0  # of the SMs, by all processes together
ILLEGAL_ACCESS_XID = 31
WHO = Who("ml", "python3")
COMPUTES, TAKES_MEMORY, CRASHES = "stranger-computes", "stranger-takes-memory", "stranger-crashes"
PIDS = {COMPUTES: 5263, TAKES_MEMORY: 5264, CRASHES: 5265}


@dataclass(frozen=True, slots=True)
class InjectedStranger:
    """A foreign process at a moment. `wanted_mib`: of the card's memory, as far as it is free."""

    pid: int
    sm_share: float
    wanted_mib: float


def strangers_at(
    faults: Mapping[str, InjectedFault], t_s: float, stages: Sequence[StageWindow]
) -> tuple[InjectedStranger, ...]:
    """The foreign processes on a card with these faults."""
    if PIDS.keys().isdisjoint(faults):
        return ()
    strangers = []
    for name, pid in PIDS.items():
        fault = faults.get(name)
        window = fault.window(stages) if fault is not None else None
        if fault is None or window is None or not window[0] <= t_s < window[1]:
            continue
        grown = name == TAKES_MEMORY and t_s - window[0] >= GROWTH_S
        wanted_mib = (fault.to or float("inf")) if grown else CONTEXT_MIB
        strangers.append(InjectedStranger(pid, (fault.by or 0.0) if name == COMPUTES else 0.0, wanted_mib))
    return tuple(strangers)


def taken_share(faults: Mapping[str, InjectedFault], t_s: float, stages: Sequence[StageWindow]) -> float:
    """The share of the card's rate that strangers take."""
    return min(1.0, sum(stranger.sm_share for stranger in strangers_at(faults, t_s, stages)))


def held_mib(strangers: Sequence[InjectedStranger], free_mib: float) -> dict[int, float]:
    """The memory that each of them holds, by pid, if `free_mib` is free for all of them."""
    held = {}
    for stranger in strangers:
        held[stranger.pid] = min(stranger.wanted_mib, max(0.0, free_mib - LEFT_MIB))
        free_mib -= held[stranger.pid]
    return held


@lru_cache(maxsize=64)  # it rarely changes from one sample to the next
def listed(
    own_pids: tuple[int, ...],
    own_mib: float,
    strangers: tuple[InjectedStranger, ...],
    free_mib: float,
    *,
    loaded: bool,
) -> tuple[SimulatedProcess, ...]:
    """The processes that a card's driver lists: ours, which hold `own_mib` together, and strangers."""
    taken = min(1.0, sum(stranger.sm_share for stranger in strangers))
    own_percent = round(BUSY_PERCENT * (1 - taken) / max(1, len(own_pids))) if loaded else None
    processes = [SimulatedProcess(pid, own_mib / len(own_pids), sm_percent=own_percent) for pid in own_pids]
    held = held_mib(strangers, free_mib)
    processes += [
        SimulatedProcess(stranger.pid, held[stranger.pid], sm_percent=round(100 * stranger.sm_share))
        for stranger in strangers
    ]
    return tuple(processes)
