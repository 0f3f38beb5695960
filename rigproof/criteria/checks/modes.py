"""Is the driver set up so that several CUDA programs can use the whole card?"""

from rigproof.criteria.checks.inventory import DATA_CENTRE
from rigproof.criteria.criterion import Criterion, Finding, NotApplicable, NotMeasured
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.records.verdict import Outcome
from rigproof.simulation.faults.kinds import FaultKind, unreported

SOURCE = "NVML's modes"
NO_MIG = "switch MIG off: `sudo nvidia-smi -i GPU -mig 0`; rigproof loads and judges whole cards"
STAY_OFF = "switch MIG off again before the next reset: `sudo nvidia-smi -i GPU -mig 0`"
DEFAULT = "set the default mode: `sudo nvidia-smi -i GPU -c 0`"
PERSIST = (
    "start `nvidia-persistenced`, or `sudo nvidia-smi -pm 1`: else the driver starts anew for each program"
)


@Criterion(
    "inventory.modes",
    title="driver modes",
    limit="MIG is off and the compute mode is the default one. An exclusive mode only warns where the "
    "plan has no more than one worker for the card; so do MIG that the next reset switches on, and "
    "persistence mode that is off on a data-centre card",
    remedy=DEFAULT,
    severity="config",
    unmeasured="a query of this GPU failed and its compute mode is not known; not applicable if the driver "
    "reports no mode at all",
    applies_to_cpu=False,
)
def modes(device: DeviceEvidence) -> Finding:
    """No mode of the driver keeps programs from the card or splits it up."""
    identity = device.identity
    if identity.mig_enabled:
        return Finding(Outcome.FAIL, detail="MIG is on: the card is split up", remedy=NO_MIG, source=SOURCE)
    if identity.compute_mode is None:
        _require_answers(device)
    elif identity.compute_mode == "prohibited":
        detail = "its compute mode lets no program use CUDA"
        return Finding(Outcome.FAIL, detail=detail, source=SOURCE)
    elif identity.compute_mode != "default":
        detail = f"its compute mode is {identity.compute_mode.replace('_', ' ')}: one process at a time"
        several = len(device.planned_workers) > 1
        return Finding(Outcome.FAIL if several else Outcome.WARN, detail=detail, source=SOURCE)
    if identity.mig_pending:
        detail = "the next reset of the GPU switches MIG on"
        return Finding(Outcome.WARN, detail=detail, remedy=STAY_OFF, source=SOURCE)
    if identity.persistence is False and identity.brand in DATA_CENTRE:
        detail = "persistence mode is off"
        return Finding(Outcome.WARN, detail=detail, remedy=PERSIST, source=SOURCE)
    return Finding(Outcome.PASS, detail=f"compute mode {identity.compute_mode or 'not reported'}")


def _require_answers(device: DeviceEvidence) -> None:
    """A driver that reports no compute mode must at least not have failed to."""
    if device.events("nvml_error", "gpu_lost", "timeout"):
        raise NotMeasured("its compute mode was not read")
    if device.identity.mig_enabled is None and device.identity.persistence is None:
        raise NotApplicable("the driver reports no modes of this card")


FAULTS = (
    FaultKind("mig-on", "MIG is switched on", ("inventory.modes",)),
    FaultKind("compute-prohibited", "the compute mode lets no program use the card", ("inventory.modes",)),
    FaultKind(
        "persistence-off",
        "persistence mode is off",
        ("inventory.modes",),
        ends="warns",
        lacks=unreported("ecc", "it is no data-centre card"),
    ),
)
