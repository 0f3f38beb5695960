"""Is there a driver on every node, and one that fits?"""

import re
from collections import Counter

from rigproof.criteria.criterion import Criterion, Finding, NotMeasured
from rigproof.criteria.evidence.nodes import NodeEvidence
from rigproof.profiles.tables.limits import LIMITS
from rigproof.records.identity import NodeIdentity
from rigproof.records.message_text import cause_and_step
from rigproof.records.verdict import Outcome
from rigproof.simulation.faults.kinds import FaultKind

DRIVER_MINIMUM = LIMITS.key(lambda limits: limits.driver_minimum)
DRIVER_MIXED = LIMITS.key(lambda limits: limits.driver_mixed)

NO_DRIVER = "install the NVIDIA driver there, or start the container with `--gpus all`"
NO_NVML = "run `nvidia-smi` there and see `sudo dmesg`; restart the machine if it does not answer either"
DIFFERENT = (
    "install the same driver on every node, or write `limits.driver_mixed = true` if they are meant to differ"
)
OTHER_TORCH = "install a newer driver, or a torch that is built for an older CUDA"
NOUVEAU = "the kernel has loaded nouveau in the place of NVIDIA's driver"
BLACKLIST = "keep nouveau from loading (`blacklist nouveau` in /etc/modprobe.d), then restart the machine"


@Criterion(
    "inventory.driver",
    title="driver",
    scope="node",
    limit="`limits.driver_minimum`, the major version of the CUDA that torch was built for, and the version "
    "that most nodes have unless `limits.driver_mixed`",
    limits=(DRIVER_MINIMUM, DRIVER_MIXED),
    remedy="install the same driver on every node and restart it, so that library and kernel module match",
    severity="config",
    unmeasured="a driver version that cannot be compared",
    applies_to_cpu=False,
)
def driver(node: NodeEvidence) -> Finding:
    """NVML answers, and the driver is new enough, also for torch, and the same on all nodes unless they may
    differ.
    """
    identity = node.identity
    version = identity.driver_version
    if identity.nvml_error is not None or version is None:
        return _without(identity)
    if _too_old_for_torch(node):
        supports = f"driver {version} supports CUDA up to {identity.driver_cuda}"
        detail = f"{supports}, torch was built for {identity.torch_cuda}"
        return Finding(Outcome.FAIL, detail=detail, remedy=OTHER_TORCH, source="torch's CUDA version")
    minimum, file = node.stated(DRIVER_MINIMUM)
    source = "" if minimum is None else file
    if minimum is not None and _numbers(version) < _numbers(minimum):
        detail = f"driver {version} is older than the {minimum} of {source}"
        remedy = "install a newer driver there and restart it, or lower `limits.driver_minimum`"
        return Finding(Outcome.FAIL, detail=detail, remedy=remedy, source=source)
    mixed, file = node.stated(DRIVER_MIXED)
    if mixed:
        source = source or file
        return Finding(Outcome.PASS, detail=f"driver {version}; the profile lets nodes differ", source=source)
    usual = node.evidence.cached("drivers", lambda: Counter(_versions(node).values())).most_common(2)
    if len(usual) > 1 and version != (usual[0][0] if usual[0][1] > usual[1][1] else None):
        different = ", ".join(f"{name} has {v}" for name, v in _versions(node).items() if v != version)
        return Finding(Outcome.FAIL, detail=f"driver {version} here, but {different}", remedy=DIFFERENT)
    return Finding(Outcome.PASS, detail=f"driver {version}", source=source)


def _without(identity: NodeIdentity) -> Finding:
    """Why there is no driver, or none that answers."""
    if identity.nouveau:
        return Finding(Outcome.FAIL, detail=NOUVEAU, remedy=BLACKLIST)
    if identity.nvml_error is None:
        return Finding(Outcome.FAIL, detail="no NVIDIA driver is installed", remedy=NO_DRIVER)
    cause, step = cause_and_step(identity.nvml_error)
    detail = cause if cause.startswith("NVML ") else f"NVML does not answer: {cause}"
    return Finding(Outcome.FAIL, detail=detail, remedy=step or NO_NVML)


def _too_old_for_torch(node: NodeEvidence) -> bool:
    """Whether torch was built for a newer major version of CUDA than the driver has.

    Within one major version all work together (CUDA's minor version compatibility). A worker that started
    shows that a compatibility package (`cuda-compat`) bridges the difference.
    """
    driver_major, torch_major = (_major(one) for one in (node.identity.driver_cuda, node.identity.torch_cuda))
    if driver_major is None or torch_major is None or torch_major <= driver_major:
        return False
    workers = node.evidence.recording.workers
    return not any(one.node == node.subject and one.device == "cuda" and one.cuda_version for one in workers)


def _major(version: str | None) -> int | None:
    number = (version or "").partition(".")[0]
    return int(number) if number.isdigit() else None


def _versions(node: NodeEvidence) -> dict[str, str]:
    """The driver version of each node that has one."""
    nodes = node.evidence.recording.nodes
    return {name: one.driver_version for name, one in nodes.items() if one.driver_version is not None}


def _numbers(version: str) -> tuple[int, ...]:
    """`580.65.06` as (580, 65, 6)."""
    if not re.fullmatch(r"\d+(\.\d+)*", version):
        raise NotMeasured(f"the driver version {version!r} cannot be compared")
    return tuple(int(part) for part in version.split("."))


FAULTS = (
    FaultKind(
        "torch-too-new",
        "torch was built for a newer CUDA than the driver supports",
        ("inventory.driver",),
        scope="node",
    ),
    FaultKind(
        "driver-mismatch",
        "kernel module and library differ: NVML does not start",
        ("inventory.driver",),
        scope="node",
    ),
)
