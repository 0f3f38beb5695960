"""Is it the hardware that the profile promises, and is it free?"""

import re
from collections import Counter

from rigproof.criteria.cluster import looked_for
from rigproof.criteria.criterion import Finding, Limit, NotMeasured, compared, criterion
from rigproof.criteria.subjects import DeviceEvidence, NodeEvidence
from rigproof.profiles.room import room_of
from rigproof.records.identity import GpuIdentity
from rigproof.records.verdict import Outcome

LOST = "look for its Xid in `dmesg`, check the card's seat, riser and power, then restart the machine"


@criterion(
    "inventory.gpus_present",
    scope="device",
    unit="",
    limit="the GPUs that the rig profile promises, with their SKU and, where it is pinned, their UUID",
    remedy="check the card's seat, its power plugs and `nvidia-smi -L`; if the profile is wrong, edit it",
    unmeasured="the cluster itself did not come up",
    faults=("gpu-missing", "gpu-lost"),
    judges_absence=True,
)
def gpus_present(device: DeviceEvidence) -> Finding:
    """The promised device is on its node until the end, is the promised model, and no other job takes it."""
    for event in device.events("gpu_missing", "gpu_taken"):
        return Finding(Outcome.FAIL, detail=event.message)
    for event in device.events("gpu_lost"):
        return Finding(Outcome.FAIL, detail=event.message, remedy=LOST, from_s=event.t_s)
    if not device.found:
        if not looked_for(device.evidence):
            raise NotMeasured("the run ended before its GPUs were looked for")
        node = device.device.node
        here = node in device.evidence.recording.nodes
        if here and device.device.gpu.device == "cpu":  # its worker tells of it, and nobody else
            detail = device.cause() or "no worker of it came up"
            return Finding(Outcome.FAIL, detail=detail, remedy="see cluster.no_timeouts")
        detail = f"{node} answered without it" if here else f"its node {node} is not in the cluster"
        return Finding(Outcome.FAIL, detail=detail)
    wrong = _mismatch(device, device.identity)
    if wrong:
        return Finding(Outcome.FAIL, detail=wrong)
    return Finding(Outcome.PASS, detail=f"{device.identity.name}, {device.identity.uuid}")


def _mismatch(device: DeviceEvidence, found: GpuIdentity) -> str:
    """What is not as promised; empty where all is."""
    gpu = device.device.gpu
    if found.device != gpu.device:
        return f"promised a {gpu.device} device, found {found.name} ({found.device})"
    if gpu.uuid is not None and found.uuid != gpu.uuid:
        return f"promised the card {gpu.uuid}, found {found.uuid}"
    if gpu.sku not in ("unknown", found.sku):
        return f"promised {gpu.sku}, found {found.name} ({found.sku or 'of no known SKU'})"
    twins = [one for one in device.evidence.subjects_by_uuid.get(found.uuid, ()) if one != device.subject]
    return f"the same card is {', '.join(twins)} too" if twins else ""


@criterion(
    "inventory.driver",
    scope="node",
    unit="",
    limit="`limits.driver_minimum`, and the version that most nodes have",
    remedy="install the same driver on every node and restart it, so that library and kernel module match",
    unmeasured="a driver version that cannot be compared",
    faults=("driver-mismatch",),
    applies_to_cpu=False,
)
def driver(node: NodeEvidence) -> Finding:
    """NVML answers, the driver is new enough, and it is the same on all nodes."""
    identity = node.identity
    if identity.nvml_error is not None:
        return Finding(Outcome.FAIL, detail=f"NVML does not answer: {identity.nvml_error}")
    version = identity.driver_version
    if version is None:
        return Finding(Outcome.FAIL, detail="no NVIDIA driver is installed")
    minimum = node.evidence.loaded.rig.limits.driver_minimum
    source = "" if minimum is None else node.evidence.source_of("limits.driver_minimum")
    if minimum is not None and _numbers(version) < _numbers(minimum):
        detail = f"driver {version} is older than the {minimum} of {source}"
        return Finding(Outcome.FAIL, detail=detail, source=source)
    usual = node.evidence.kept("drivers", lambda: Counter(_versions(node).values())).most_common(2)
    if len(usual) > 1 and version != (usual[0][0] if usual[0][1] > usual[1][1] else None):
        different = ", ".join(f"{name} has {v}" for name, v in _versions(node).items() if v != version)
        return Finding(Outcome.FAIL, detail=f"driver {version} here, but {different}")
    return Finding(Outcome.PASS, detail=f"driver {version}", source=source)


def _versions(node: NodeEvidence) -> dict[str, str]:
    """Of each node that has a driver."""
    nodes = node.evidence.recording.nodes
    return {name: one.driver_version for name, one in nodes.items() if one.driver_version is not None}


def _numbers(version: str) -> tuple[int, ...]:
    """`580.65.06` as (580, 65, 6)."""
    if not re.fullmatch(r"\d+(\.\d+)*", version):
        raise NotMeasured(f"the driver version {version!r} cannot be compared")
    return tuple(int(part) for part in version.split("."))


@criterion(
    "inventory.foreign_memory",
    scope="device",
    unit="MiB",
    limit="over `limits.foreign_memory_warn_mib` warns, on a card without a display; over what the plan "
    "leaves free fails: the card's memory less the driver's reserve, what the workers fill, and a CUDA "
    "context and workspaces for each",
    remedy="end the program that holds it, or move the display to another card, then run again; where it is "
    "to stay, plan for less with `vram_gib_per_worker`",
    unmeasured="NVML does not report the card's memory use before the run",
    faults=("foreign-memory",),
    applies_to_cpu=False,
)
def foreign_memory(device: DeviceEvidence) -> Finding:
    """Nobody else holds so much memory of the card that the planned workers do not fit beside it."""
    foreign = device.foreign_memory
    if foreign is None or foreign.used_mib is None:
        raise NotMeasured("the memory in use before the run was not read")
    detail = _holders(foreign.pids)
    loaded = device.evidence.loaded
    workers = device.evidence.plan.workers_of(device.subject)
    room = room_of(workers, device.identity, foreign)
    free = Limit(room.free_mib, f"what the plan of {loaded.file} leaves free")
    if not room.holds(foreign.used_mib):
        return compared(foreign.used_mib, free, good=False, detail=f"{detail}; {room.told}")
    warn = device.limit("foreign_memory_warn_mib")
    if foreign.used_mib > warn.value and device.identity.display_active is not True:
        return Finding(Outcome.WARN, foreign.used_mib, warn, detail)
    return compared(foreign.used_mib, free, good=True)


def _holders(pids: tuple[int, ...] | None) -> str:
    if pids is None:
        return "held by processes that this user may not list"
    if not pids:
        return "held by no process that the driver names"
    return f"held by pid {', '.join(map(str, pids))}"
