"""What is prepared beside the work on the GPUs: each node's CPU load, and processes for later stages."""

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import Any

from rigproof.host.cpu_band import HostLoad, thread_plan
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.plan import Plan
from rigproof.profiles.planning.subjects import turns_of
from rigproof.stages.kind import StageKind

READY_AT_MOST = 2  # processes of a worker that wait with torch loaded, each in 240 MiB of RAM


def planned_load(loaded: LoadedRig, node: str, cpus: float) -> HostLoad | None:
    """The load that holds the middle of a node's CPU band; None if the profile switches the load off."""
    cpu = loaded.cpu_of(node)
    if not cpu.enabled:
        return None
    primary, secondary = thread_plan(cpus, cpu.primary_thread_share, cpu.secondary_thread_share)
    return HostLoad(primary, secondary, target_percent=sum(cpu.band_percent) / 2)


def processes_ahead(loaded: LoadedRig, plan: Plan, later: Iterable[StageKind[Any]]) -> dict[str, int]:
    """How many processes of its own each worker will need in these later stages, up to READY_AT_MOST.

    None whose device is the CPU: what that process loads would take it from the load that is measured.
    """
    cpu = {one.worker for one in plan.workers if one.device == "cpu"}
    needed = Counter[str]()
    for kind in later:
        if kind.apart != "none":
            for crew in chain(*turns_of(kind.crew, loaded, plan.workers)):
                needed.update(crew.workers[: 1 if kind.apart == "first" else None])
    return {name: min(count, READY_AT_MOST) for name, count in needed.items() if name not in cpu}
