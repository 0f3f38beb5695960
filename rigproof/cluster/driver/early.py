"""What Ray is asked for before a rig's agents have said which GPUs are there. Pure."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from rigproof.cluster.ray.matching import FoundNode
from rigproof.cluster.ray.placement import WantedGpu
from rigproof.devices.allocator import wanted as allocator_options
from rigproof.profiles.planning.plan import MemoryPlan, WorkerPlan

NOT_KNOWN_YET: Mapping[str, str] = MappingProxyType({})


def wanted_gpus(
    workers: Iterable[WorkerPlan], found: Mapping[str, FoundNode], uuids: Mapping[str, str] = NOT_KNOWN_YET
) -> list[WantedGpu]:
    """The GPUs to reserve for these workers; the UUID of one that is not known yet is empty."""
    by_subject: dict[str, list[WorkerPlan]] = {}
    for worker in workers:
        if worker.device == "cuda":
            by_subject.setdefault(worker.subject, []).append(worker)
    return [
        WantedGpu(subject, uuids.get(subject, ""), found[own[0].node], sum(worker.cpus for worker in own))
        for subject, own in by_subject.items()
    ]


def memory_of(workers: Iterable[WorkerPlan], found: Mapping[str, FoundNode]) -> dict[str, MemoryPlan]:
    """The memory policy of the GPUs' workers of each node, by its id, as far as loading torch needs it.

    Nodes whose workers' policies differ in that are left out: which worker a process will be is not known.
    """
    policies: dict[str, dict[str, MemoryPlan]] = {}
    for worker in (one for one in workers if one.device == "cuda"):
        own = policies.setdefault(found[worker.node].node_id, {})
        own[allocator_options(worker.memory)] = worker.memory
    return {node_id: next(iter(own.values())) for node_id, own in policies.items() if len(own) == 1}
