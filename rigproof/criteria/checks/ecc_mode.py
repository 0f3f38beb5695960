"""Does the card correct and count memory errors at all?"""

from rigproof.criteria.criterion import Criterion, Finding, NotApplicable, NotMeasured
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.profiles.tables.limits import LIMITS
from rigproof.records.verdict import Outcome
from rigproof.simulation.faults.kinds import FaultKind, unreported

ECC_OFF = LIMITS.key(lambda limits: limits.ecc_off)

RESTART = "restart the machine: ECC is on from then"
KEEP_ON = "switch it on again before the next restart: `sudo nvidia-smi -i GPU -e 1`"


@Criterion(
    "health.ecc_mode",
    title="ECC mode",
    limit="on, unless `limits.ecc_off` is true; a mode that the next restart switches off warns",
    limits=(ECC_OFF,),
    severity="config",
    remedy="switch it on with `sudo nvidia-smi -i GPU -e 1` and restart the machine, or write "
    "`limits.ecc_off = true` if it is off deliberately",
    unmeasured="NVML did not report the mode; not applicable if the SKU file lists `ecc` in "
    "`unsupported_sensors`, nor on an unknown card that has no ECC or has it switched off",
    applies_to_cpu=False,
)
def ecc_mode(device: DeviceEvidence) -> Finding:
    """Memory errors are corrected and counted: ECC is on, and stays on after the next restart."""
    enabled, pending = device.identity.ecc_enabled, device.identity.ecc_pending
    if enabled:
        if pending is False:
            detail = "ECC is on, but the next restart switches it off"
            return Finding(Outcome.WARN, detail=detail, remedy=KEEP_ON, source="NVML's pending ECC mode")
        return Finding(Outcome.PASS, detail="ECC is on")
    _require_promise(device)
    off, file = device.stated(ECC_OFF)
    if off:
        return Finding(Outcome.PASS, detail="ECC is off, as the profile states", source=file)
    if pending:
        return Finding(Outcome.FAIL, detail="ECC is off until the next restart", remedy=RESTART)
    return Finding(Outcome.FAIL, detail="ECC is switched off: no memory error is corrected or counted")


def _require_promise(device: DeviceEvidence) -> None:
    """Require a card that should have ECC, and whose driver reports the mode."""
    reported = device.identity.ecc_enabled is not None
    if device.device.sku is None and (reported or not device.events("nvml_error", "gpu_lost", "timeout")):
        state = "is switched off" if reported else "is not reported"
        raise NotApplicable(f"ECC {state}, and no SKU file promises it")
    if device.lacks_sensor("ecc"):
        raise NotApplicable(f"this card has no ECC, as {device.sku_file} says")
    if not reported:
        raise NotMeasured("NVML does not report the ECC mode")


FAULTS = (
    FaultKind(
        "ecc-off",
        "ECC is switched off",
        ("health.ecc_mode",),
        lacks=unreported("ecc", "its driver counts no ECC errors"),
    ),
)
