"""The CPU load of each node beside the work on its GPUs."""

from rigproof.host.cpu_band import HostLoad, thread_plan
from rigproof.profiles.loading.loaded import LoadedRig


def planned_load(loaded: LoadedRig, node: str, cpus: float) -> HostLoad | None:
    """The load that holds the middle of a node's CPU band; None if the profile switches the load off."""
    cpu = loaded.cpu_of(node)
    if not cpu.enabled:
        return None
    primary, secondary = thread_plan(cpus, cpu.primary_thread_share, cpu.secondary_thread_share)
    return HostLoad(primary, secondary, target_percent=sum(cpu.band_percent) / 2)
