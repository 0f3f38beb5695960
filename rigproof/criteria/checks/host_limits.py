"""Do a host, and a container's limits on it, leave its GPUs enough CPUs, RAM and shared memory?"""

from rigproof.criteria.criterion import Criterion, Disturbed, Finding, NotApplicable
from rigproof.criteria.evidence.nodes import NodeEvidence
from rigproof.profiles.tables.limits import LIMITS
from rigproof.records.verdict import Outcome, figure
from rigproof.simulation.faults.kinds import FaultKind

HOST_SHARE = LIMITS.key(lambda limits: limits.host_share)
HOST_CPUS_PER_GPU = LIMITS.key(lambda limits: limits.host_cpus_per_gpu)
HOST_RAM_SHARE = LIMITS.key(lambda limits: limits.host_ram_share)
HOST_SHM_GIB = LIMITS.key(lambda limits: limits.host_shm_gib)

UNLIMITED_SHARE = 0.99  # of the host's own: less is a limit of a container or cgroup
CPUS = "raise the CPU quota (`docker run --cpus=…`, `resources.limits.cpu`)"
RAM = "raise the memory limit (`docker run --memory=…`, `resources.limits.memory`)"
MORE_CPUS = "give each GPU more CPUs: data loaders and Python need them"
MORE_RAM = "add memory, or load and save models in parts: a checkpoint of the VRAM passes through RAM"
SHM = "start the container with `--shm-size=8g` or `--ipc=host`; in Kubernetes mount a memory volume there"


@Criterion(
    "host.limits",
    title="host limits",
    scope="node",
    limit="at least `limits.host_share` of the `cpus` and `ram_gib` that the node states. It warns if the "
    "host, or a container or cgroup on it, has fewer than `limits.host_cpus_per_gpu` CPUs for each GPU, "
    "less RAM than `limits.host_ram_share` of the GPUs' memory, or a /dev/shm smaller than "
    "`limits.host_shm_gib`",
    limits=(HOST_SHARE, HOST_CPUS_PER_GPU, HOST_RAM_SHARE, HOST_SHM_GIB),
    remedy="correct the node's `cpus` or `ram_gib` in the profile, or give the host what it states",
    severity="config",
    unmeasured="the host has what the node states, but a container or cgroup leaves this run less of it; a "
    "limit that the profile does not state; not applicable to a run that read none of this",
    applies_to_cpu=False,
)
def host_limits(node: NodeEvidence) -> Finding:
    """The host has what the profile states, and enough of it to feed its GPUs."""
    found = node.identity
    if found.host_cpus is None and found.shm_gib is None:
        raise NotApplicable("what the host offers was not read")
    share = node.limit(HOST_SHARE)
    for key, usable, host, stated, unit, raised in (
        ("cpus", found.cpus, found.host_cpus, node.node.cpus, "CPUs", CPUS),
        ("ram_gib", found.ram_gib, found.host_ram_gib, node.node.ram_gib, "GiB of RAM", RAM),
    ):
        if stated is not None and usable < share.value * stated:
            if host is not None and host >= share.value * stated:
                limited = f"a container or cgroup leaves {usable:.3g} of the host's {host:.3g} {unit}"
                raise Disturbed(f"{limited}; the profile states {stated:g}", f"{raised}, and run again")
            detail = f"{usable:.3g} {unit} can be used; the profile states {stated:g}"
            own = f"find out why, or state `{key} = {usable:.3g}` for this node if that is all it has"
            return Finding(Outcome.FAIL, detail=detail, remedy=own, source=share.source)
    return _scarce(node) or Finding(Outcome.PASS, detail=_seen(node))


def _scarce(node: NodeEvidence) -> Finding | None:
    """A warning of what the GPUs have too little of; None if there is enough."""
    found = node.identity
    devices = node.cards
    per_gpu, ram = node.limit(HOST_CPUS_PER_GPU), node.limit(HOST_RAM_SHARE)
    if found.cpus < per_gpu.value * len(devices):
        cut = _cut(found.cpus, found.host_cpus)
        of_all = f" of the host's {found.host_cpus}" if cut else ""
        detail = f"{found.cpus:.3g}{of_all} CPUs for {figure(len(devices), 'GPUs')}"
        return Finding(Outcome.WARN, detail=detail, remedy=CPUS if cut else MORE_CPUS, source=per_gpu.source)
    vram_gib = sum(one.identity.memory_total_mib for one in devices if one.found) / 1024
    if found.ram_gib < ram.value * vram_gib:
        detail = f"{found.ram_gib:.0f} GiB of RAM beside {vram_gib:.0f} GiB of VRAM"
        remedy = RAM if _cut(found.ram_gib, found.host_ram_gib) else MORE_RAM
        return Finding(Outcome.WARN, detail=detail, remedy=remedy, source=ram.source)
    shm = node.limit(HOST_SHM_GIB)
    if found.shm_gib is not None and found.shm_gib < shm.value:
        detail = f"{found.shm_gib:.2g} GiB of shared memory (/dev/shm): data loaders and NCCL need more"
        return Finding(Outcome.WARN, detail=detail, remedy=SHM, source=shm.source)
    return None


def _cut(usable: float, host: float | None) -> bool:
    """Whether a limit keeps a part of the host's from this process."""
    return host is not None and usable < UNLIMITED_SHARE * host


def _seen(node: NodeEvidence) -> str:
    found = node.identity
    return f"{found.cpus:.3g} CPUs, {found.ram_gib:.0f} GiB of RAM"


FAULTS = (
    FaultKind(
        "host-limited",
        "a container leaves a quarter of the CPUs and the RAM",
        ("host.limits",),
        scope="node",
        ends="not measured",
    ),
    FaultKind("host-smaller", "the host has half of the CPUs and the RAM", ("host.limits",), scope="node"),
    FaultKind(
        "shm-small", "a container has 64 MiB of /dev/shm", ("host.limits",), scope="node", ends="warns"
    ),
)
