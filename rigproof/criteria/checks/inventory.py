"""Is this the hardware that the profile promises, and is it free?"""

from collections import Counter

from rigproof.criteria.checks.cluster import looked_for, require_promised_then
from rigproof.criteria.criterion import Criterion, Disturbed, Finding, Limit, NotMeasured, pass_or_fail
from rigproof.criteria.evidence.devices import LOSSES, DeviceEvidence
from rigproof.criteria.evidence.strangers import holders_at
from rigproof.profiles.auto import AUTO
from rigproof.profiles.kinds.stages import DEVICE_DUTIES
from rigproof.profiles.loading.matching import match_sku
from rigproof.profiles.planning.operands import room_of
from rigproof.profiles.planning.planning import MIB_PER_GIB
from rigproof.profiles.tables.limits import LIMITS
from rigproof.records.identity import GpuIdentity
from rigproof.records.verdict import Outcome
from rigproof.simulation.faults.kinds import FROM, MID, FaultKind, no_peer

GPU_MEMORY_SHARE = LIMITS.key(lambda limits: limits.gpu_memory_share)
FOREIGN_MEMORY_WARN_MIB = LIMITS.key(lambda limits: limits.foreign_memory_warn_mib)

TAKEN = (
    "end the other job that holds it (`ray status` there), or start Ray there so that it offers this card: "
    "without MIG, with a --num-gpus that includes it, and without a CUDA_VISIBLE_DEVICES that hides it"
)
KEPT = (
    "end that program, or move the display to another card; if it is to stay, raise "
    "`limits.foreign_memory_warn_mib`"
)
FLASH = "have the same VBIOS put on all of them, unless they are meant to differ"
DATA_CENTRE = ("tesla", "nvidia")  # GpuIdentity.brand of cards for servers
FREE_IT = "end that program, or plan for less with `vram_gib_per_worker`"
LESS = "have the card looked at: chips of its memory may be switched off, or it is no such card"
LOST = "look for its Xid in `sudo dmesg`, check the card's seat, riser and power, then restart the machine"


@Criterion(
    "inventory.gpus_present",
    title="GPU present",
    limit="the GPUs that the rig profile promises, with their SKU, `limits.gpu_memory_share` of its memory "
    "(or of the `memory_gib` that the profile states) and, if pinned, their UUID. A VBIOS other than that of "
    "equal data-centre cards warns",
    limits=(GPU_MEMORY_SHARE,),
    severity="reseat",
    remedy="check the card's seat, its power plugs and `nvidia-smi -L`; if the profile is wrong, edit it",
    unmeasured="another job of the cluster holds it, or CUDA_VISIBLE_DEVICES hides it where Ray was started; "
    "the run was given no cluster in which its node could be; the cluster itself did not start, or the run "
    "was of another rig and did not look for it; another card of the node has its PCI bus id; it is said to "
    "be missing and was found, or one was lost, missing or taken that is not there; or its name is that of "
    "another model than it was taken for",
    judges_absence=True,
)
def gpus_present(device: DeviceEvidence) -> Finding:
    """The promised device is on its node until the end, and is the promised model."""
    for event in device.events("gpu_missing"):
        if "disturbed" in event.data:
            raise Disturbed(event.message, str(event.data["disturbed"]))
        if device.found:
            raise NotMeasured(
                f"{event.message}; and its node reported it: these records contradict each other"
            )
        return Finding(Outcome.FAIL, detail=event.message, remedy=str(event.data.get("next_step") or ""))
    for event in device.events("gpu_lost"):
        message = event.message.removeprefix(f"{device.subject} ")
        return Finding(Outcome.FAIL, detail=message, remedy=LOST, from_s=event.t_s)
    for event in device.events("gpu_taken"):
        raise Disturbed(event.message, TAKEN)
    if not device.found:
        return _absent(device)
    for kind in ("gpu_lost", "gpu_missing", "gpu_taken", "gpu_skipped"):
        device.require_placed(kind)
    wrong, step = _mismatch(device, device.identity)
    if wrong:
        return Finding(Outcome.FAIL, detail=wrong, remedy=step)
    _require_own_slot(device)
    _require_own_name(device)
    return _with_less_memory(device, device.identity) or _with_vbios(device)


def _with_vbios(device: DeviceEvidence) -> Finding:
    """It is the promised card; one of a server model also has the VBIOS that most equal cards have.

    Makers of desktop cards each have their own.
    """
    own = device.identity
    found = Finding(Outcome.PASS, detail=f"{own.name}, {own.uuid}")
    if own.vbios_version is None or own.brand not in DATA_CENTRE:
        return found
    alike = [one for one in device.evidence.recording.gpus.values() if one.name == own.name]
    versions = device.evidence.cached(
        ("vbios", own.name), lambda: Counter(one.vbios_version for one in alike if one.vbios_version)
    )
    usual, number = versions.most_common(1)[0]
    several = list(versions.values()).count(number) > 1
    if own.vbios_version == usual and not several:
        return found
    others = ", ".join(sorted(one for one in versions if one != own.vbios_version))
    detail = f"VBIOS {own.vbios_version}, while equal cards have {others}"
    return Finding(Outcome.WARN, detail=detail, remedy=FLASH, severity="config")


def _absent(device: DeviceEvidence) -> Finding:
    """A device that is not there, although no event reports it as missing."""
    if not looked_for(device.evidence):
        raise NotMeasured("the run ended before its GPUs were looked for")
    node = device.device.node
    here = node in device.evidence.recording.nodes
    if here and device.device.gpu.device == "cpu":
        return _without_workers(device)
    require_promised_then(device.evidence, device.subject if here else node)
    if here:
        return Finding(Outcome.FAIL, detail=f"{node} answered without it")
    step = f"bring its node back first: see cluster.nodes_present of {node}"
    return Finding(Outcome.FAIL, detail=f"its node {node} is not in the cluster", remedy=step)


def _without_workers(device: DeviceEvidence) -> Finding:
    """A CPU that no worker reports, though its node is there: whose doing that is, its losses say."""
    others = device.lost_to_others()
    if others is not None and all("disturbed" in one.data for one in device.events(*LOSSES)):
        raise others
    cause = device.cause()
    if not cause:
        raise NotMeasured("none of its workers started")
    return Finding(Outcome.FAIL, detail=cause, remedy="see cluster.no_timeouts")


def _mismatch(device: DeviceEvidence, found: GpuIdentity) -> tuple[str, str]:
    """The difference from the promise in words, and the next step; empty if there is none."""
    gpu = device.device.gpu
    place = _place(device)
    if found.device != gpu.device:
        return f"promised a {gpu.device} device, found {found.name} ({found.device})", ""
    if gpu.uuid is not None and found.uuid != gpu.uuid:
        step = f'put that card back, or write uuid = "{found.uuid}" at {place} if this is the intended one'
        return f"promised the card {gpu.uuid}, found {found.uuid}", step
    if gpu.sku not in ("unknown", found.sku):
        sku = found.sku or "unknown"
        step = f'put that card in, or write sku = "{sku}" at {place} if this is the intended one'
        return f"promised {gpu.sku}, found {found.name} ({found.sku or 'of no known SKU'})", step
    twins = [one for one in device.evidence.subjects_by_uuid.get(found.uuid, ()) if one != device.subject]
    if twins:
        return f"the same card is also {', '.join(twins)}", "give each of them its own card with `uuid`"
    return "", ""


def _require_own_slot(device: DeviceEvidence) -> None:
    """NotMeasured if another card of its node has the same PCI bus id: one of the two records is wrong."""
    bus = device.identity.pci_bus_id
    for other in device.neighbours if bus else ():
        if other.found and other.identity.pci_bus_id == bus and other.identity.uuid != device.identity.uuid:
            raise NotMeasured(f"{other.subject} has its PCI bus id, {bus}: which card was read is not known")


def _require_own_name(device: DeviceEvidence) -> None:
    """NotMeasured if the card has the name of another model than the one that it was taken for."""
    own = device.identity
    sku = device.evidence.loaded.skus.get(own.sku or "")
    if own.sku is not None and sku is not None and match_sku(own.name, {own.sku: sku}) is None:
        raise NotMeasured(f"it was taken for a {own.sku}, and NVML calls it {own.name}")


def _place(device: DeviceEvidence) -> str:
    """The place in the profile that promises the device, such as `nodes[0].gpus[0]`."""
    return device.evidence.loaded.written(f"{device.device.key}.sku").removesuffix(".sku")


def _with_less_memory(device: DeviceEvidence, found: GpuIdentity) -> Finding | None:
    """The failure of a card that shows too little memory; earlier recordings have no limit of it."""
    share = device.optional_limit(GPU_MEMORY_SHARE)
    promised_gib, found_gib = _promised_gib(device), found.memory_total_mib / MIB_PER_GIB
    if share is None or found_gib >= share.value * promised_gib:
        return None
    return Finding(
        Outcome.FAIL,
        detail=f"promised {promised_gib:g} GiB of memory, found {found_gib:.1f} on {found.name}",
        source=f"{share.value:g} of the promised memory, {share.source}",
        remedy=f"{LESS}; if so much is intended, write memory_gib = {found_gib:.2f} at {_place(device)}",
        severity="rma",
    )


def _promised_gib(device: DeviceEvidence) -> float:
    """The memory that the profile states, else that of the promised model; 0 if neither is known."""
    sku, stated = device.device.sku, device.device.gpu.memory_gib
    if sku is None:
        return 0.0
    found_here = device.evidence.loaded.sources.get(f"{device.device.key}.memory_gib") == AUTO
    return sku.memory_gib if stated is None or found_here else stated


@Criterion(
    "inventory.foreign_memory",
    title="foreign memory",
    unit="MiB",
    direction="at_most",
    limit="what the plan leaves free: the card's memory less the driver's reserve, the workers' memory, and "
    "a CUDA context and workspaces for each. More than `limits.foreign_memory_warn_mib` warns, on a card "
    "without a display",
    limits=(FOREIGN_MEMORY_WARN_MIB,),
    severity="config",
    remedy=FREE_IT,
    surroundings=True,
    unmeasured="others hold more than the plan leaves free, so that the card was not loaded; or NVML does "
    "not report the card's memory use before the run",
    applies_to_cpu=False,
)
def foreign_memory(device: DeviceEvidence) -> Finding:
    """Other processes leave enough of the card's memory for the planned workers."""
    foreign = device.foreign_memory
    if foreign is None or foreign.used_mib is None:
        raise NotMeasured("the memory in use before the run was not read")
    detail = holders_at(device, foreign.t_s) or _holders(foreign.pids)
    loaded = device.evidence.loaded
    workers = device.evidence.judged_plan.workers_of(device.subject)
    room = room_of(workers, device.identity, foreign)
    free = Limit(room.most_mib, f"free beside the plan of {loaded.file}")
    if not room.holds(foreign.used_mib):
        raise Disturbed(f"{foreign.used_mib:.0f} MiB: {detail}; {room.breakdown}", FREE_IT)
    warn = device.limit(FOREIGN_MEMORY_WARN_MIB)
    if foreign.used_mib > warn.value and device.identity.display_active is not True:
        return Finding(Outcome.WARN, foreign.used_mib, warn, detail, KEPT)
    return pass_or_fail(foreign.used_mib, free, good=True)


def _holders(pids: tuple[int, ...] | None) -> str:
    if pids is None:
        return "held by processes that this user may not list"
    if not pids:
        return "held by no process that the driver names"
    return f"held by pid {', '.join(map(str, pids))}"


FAULTS = (
    FaultKind(
        "gpu-missing",
        "the driver does not list the card; of equal ones without a `uuid` the last is missing",
        ("inventory.gpus_present",),
    ),
    FaultKind(
        "memory-missing",
        "the card shows seven eighths of its model's memory",
        ("inventory.gpus_present",),
    ),
    FaultKind(
        "vbios-differs",
        "the card has another VBIOS than its equals",
        ("inventory.gpus_present",),
        ends="warns",
        lacks=no_peer,
    ),
    FaultKind(
        "gpu-hidden",
        "CUDA_VISIBLE_DEVICES of Ray hides the card; of equal ones without a `uuid` the last is hidden",
        ("inventory.gpus_present",),
        ends="not measured",
    ),
    FaultKind(
        "gpu-lost",
        "the card falls off the bus: Xid 79, and GPU_IS_LOST from then on",
        ("inventory.gpus_present", "health.xid"),
        keys=FROM,
        defaults=MID,
        duties=DEVICE_DUTIES,
    ),
    FaultKind(
        "foreign-memory",
        "a foreign process holds memory of the card; to= is in MiB",
        ("inventory.foreign_memory",),
        ends="not measured",
        keys=("to",),
    ),
)
