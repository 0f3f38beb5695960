"""Has the fabric manager of an NVSwitch host set the card up?"""

from rigproof.criteria.criterion import Criterion, Finding, NotApplicable, NotMeasured, NotRead, gravest
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.profiles.kinds.stages import DUTIES
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.records.measurements import GpuCounters
from rigproof.records.verdict import Outcome
from rigproof.simulation.faults.kinds import FROM, MID, FaultKind

COMPLETED, NOT_SUPPORTED = "completed", "not_supported"  # of NVML's FabricState, in lower case
SOURCE = "NVML's fabric state"
START = (
    "start the fabric manager, in the driver's own version: `sudo systemctl enable --now "
    "nvidia-fabricmanager`; in a virtual machine the host runs it"
)
ASK = (
    "see `journalctl -u nvidia-fabricmanager` and the fabric in `nvidia-smi -q`; then reset all GPUs of the "
    "host (`nvidia-smi -r`)"
)
# NVML_GPU_FABRIC_HEALTH_MASK_*: what each two-bit field says at 1 (true), and whether that fails.
DEGRADED, UNHEALTHY = "its NVLinks run at reduced bandwidth", "a route of its NVLinks is unhealthy"
TRUE = 1
FLAGS = (
    (0, DEGRADED, Outcome.FAIL),
    (4, UNHEALTHY, Outcome.FAIL),
    (2, "a route of its NVLinks is being recovered", Outcome.WARN),
    (6, "its NVLinks recover from an access timeout", Outcome.WARN),
)
CONFIGURATION_SHIFT, CONFIGURATION_NONE = 8, 1  # four bits: 0 not supported, 1 nothing incorrect


@Criterion(
    "health.fabric",
    title="NVLink fabric",
    limit="NVML reports that the fabric is completed, with success, at full bandwidth, with healthy routes "
    "and no incorrect configuration; a recovery in progress warns",
    severity="reset",
    remedy=ASK,
    unmeasured="the state was reported before the load and not after it, or a query of this GPU failed; not "
    "applicable if the driver reports no fabric (a card or host without NVSwitches), or none of the card's "
    "NVLinks is active (a virtual machine with one GPU)",
    applies_to_cpu=False,
    needs=("continuous",),
)
def fabric(device: DeviceEvidence) -> Finding:
    """On a host with NVSwitches the fabric manager runs, and has admitted this GPU to the NVLink fabric.

    Without it CUDA does not start, or NVLinks that look active carry nothing and all traffic goes over PCIe.
    """
    before, after = device.counters("before"), device.counters("after")
    both = [one for one in (before, after) if one is not None]
    read = [one for one in both if one.fabric_state not in (None, NOT_SUPPORTED)]
    if not read:
        if before is None or device.events("nvml_error", "gpu_lost", "timeout"):
            raise NotMeasured("the state of the NVLink fabric was not read")
        raise NotApplicable("the driver reports no NVLink fabric for this card")
    if read[-1].fabric_state != COMPLETED and not any(read[-1].nvlinks or ()):
        raise NotApplicable("none of its NVLinks is active, so it needs no fabric")
    worst = gravest(map(_trouble, read))
    if worst is not None and worst.outcome is Outcome.FAIL:
        return worst
    if after is None or after.fabric_state is None:
        raise NotRead("the state of the NVLink fabric was not read after the load")
    return worst or Finding(Outcome.PASS, detail="completed", source=SOURCE)


def _trouble(read: GpuCounters) -> Finding | None:
    """The failure or warning that one reading tells of; None if all is well."""
    when = f"{read.moment} the load"
    if read.fabric_state != COMPLETED:
        state = (read.fabric_state or "").replace("_", " ")
        detail = f"the NVLink fabric is not set up, its state is “{state}” {when}"
        return Finding(Outcome.FAIL, detail=detail, remedy=START, source=SOURCE, severity="config")
    if read.fabric_status:
        detail = f"the fabric manager did not admit this GPU: NVML code {read.fabric_status} {when}"
        return Finding(Outcome.FAIL, detail=detail, source=SOURCE)
    health = read.fabric_health or 0
    found = [
        Finding(outcome, detail=f"{what} {when}", source=SOURCE)
        for shift, what, outcome in FLAGS
        if health >> shift & 0x3 == TRUE
    ]
    wrong = health >> CONFIGURATION_SHIFT & 0xF
    if wrong > CONFIGURATION_NONE:
        detail = f"the fabric is configured incorrectly {when} (NVML's value {wrong})"
        found.append(Finding(Outcome.FAIL, detail=detail, source=SOURCE))
    return gravest(found)


def _without_fabric(_loaded: LoadedRig, device: PromisedDevice) -> str:
    """NVML reports a fabric from Hopper on."""
    sku = device.sku
    major = int((sku.compute_capability or "0").partition(".")[0]) if sku is not None else 0
    return "" if sku is not None and sku.nvlinks and major >= 9 else "its driver reports no NVLink fabric"


FAULTS = (
    FaultKind(
        "fabric-not-started",
        "the fabric manager does not run: the NVLink fabric is never set up",
        ("health.fabric",),
        lacks=_without_fabric,
    ),
    FaultKind(
        "fabric-unhealthy",
        "NVML reports trouble of the NVLink fabric; to= is its mask: 1 reduced bandwidth, 4 a recovery",
        ("health.fabric",),
        keys=(*FROM, "to"),
        defaults={**MID, "to": "1"},
        duties=DUTIES,
        lacks=_without_fabric,
    ),
)
