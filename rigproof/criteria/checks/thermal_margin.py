"""How far is the card from slowing itself down, by its own account?"""

from rigproof.criteria.criterion import Criterion, Finding, Limit, NotApplicable, NotMeasured, pass_or_fail
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.series import Readings
from rigproof.profiles.kinds.stages import DUTIES
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.records.verdict import Outcome
from rigproof.simulation.faults.kinds import PART, TIMES, FaultKind

FIELD, WHAT = "thermal_margin_c", "thermal margin"
MOVED_C = 5.0  # of the core: the margin of the same die moves too
BEYOND = "hotter than its maker allows in use"
IN_USE = Limit(0.0, "0 is the highest temperature in use, by NVML's T.Limit")


@Criterion(
    "thermal.margin",
    title="margin to slowdown",
    unit="°C",
    direction="at_least",
    limit="the margin at which the card slows down, as NVML reports it (T.Limit), or `slowdown_margin_c` of "
    "the SKU file. Below 0, where the highest temperature in use is exceeded, it warns",
    severity="reseat",
    remedy="clean the heatsink and raise the fan curve; if the core reads cool, have the heatsink remounted",
    unmeasured="too few readings under load, or a margin that stands still while the core's temperature "
    "moves; not applicable on a card whose driver reports none, as before Ada, unless its SKU file states "
    "`slowdown_margin_c`",
    applies_to_cpu=False,
    needs=("continuous",),
    duties=DUTIES,
)
def margin(device: DeviceEvidence) -> Finding:
    """The card's hottest part stays away from the temperature at which the card slows itself down.

    The margin is the card's own figure: 0 at the highest temperature in use, negative beyond. It counts the
    hottest sensor of the die, of which no other reading tells.
    """
    readings = device.readings(FIELD)
    limit = _limit(device)
    if not readings:
        _excuse(device)
    lowest_c = readings.lowest
    if limit is not None and lowest_c < limit.value:
        from_s, length_s = _stretch(device, readings, limit.value)
        return pass_or_fail(lowest_c, limit, good=False, from_s=from_s, length_s=length_s)
    for stage in device.evidence.stages_with(*DUTIES):
        device.require_readings(device.worked_window(stage), FIELD, WHAT)
    _require_moving(device, readings)
    if limit is None:
        return Finding(Outcome.NO_LIMIT, lowest_c, detail="NVML reports no margin of the slowdown")
    if lowest_c < 0:
        from_s, length_s = _stretch(device, readings, 0)
        return Finding(Outcome.WARN, lowest_c, IN_USE, BEYOND, from_s=from_s, length_s=length_s)
    return pass_or_fail(lowest_c, limit, good=True)


def _limit(device: DeviceEvidence) -> Limit | None:
    reported = device.identity.slowdown_margin_c
    if reported is not None:
        return Limit(reported, "NVML's T.Limit of the slowdown")
    sku = device.device.sku
    stated = None if sku is None else sku.temperature.slowdown_margin_c
    return None if stated is None else Limit(stated, device.sku_file)


def _excuse(device: DeviceEvidence) -> None:
    """Without any reading: NotApplicable if the driver has none and the SKU file does not promise it."""
    if _limit(device) is None and device.samples and not device.events("nvml_error", "gpu_lost", "timeout"):
        raise NotApplicable(f"this card's driver reports no {WHAT}")
    raise NotMeasured(f"no {WHAT} was read; check `nvidia-smi -q -d TEMPERATURE` on {device.device.node}")


def _stretch(device: DeviceEvidence, readings: Readings, limit_c: float) -> tuple[float, float]:
    """When the margin was below it first, and until when the last time, as a length in s."""
    below = readings.times_s[readings.values < limit_c]
    step_s = 1 / device.evidence.rate_hz
    return float(below[0]), float(below[-1] - below[0]) + step_s


def _require_moving(device: DeviceEvidence, readings: Readings) -> None:
    core = device.readings("core_temperature_c")
    if readings.lowest == readings.highest and core and core.highest - core.lowest >= MOVED_C:
        raise NotMeasured(
            f"the {WHAT} reads {readings.lowest:g} °C during the whole run, while the core's temperature "
            "moved: the sensor is frozen"
        )


def _unpromised(_loaded: LoadedRig, device: PromisedDevice) -> str:
    stated = device.sku is not None and device.sku.temperature.slowdown_margin_c is not None
    return "" if stated else "its driver reports no thermal margin"


FAULTS = (
    FaultKind(
        "hot-spot",
        "a part of the die gets hot while the core reads cool; to= is how far over the highest temperature "
        "in use, °C",
        ("thermal.margin",),
        keys=(*TIMES, "to"),
        defaults=PART,
        duties=DUTIES,
        lacks=_unpromised,
    ),
)
