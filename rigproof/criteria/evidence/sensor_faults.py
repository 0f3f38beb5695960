"""Faults of the readings themselves: no check judges these readings, because sensors.py rejects them."""

from rigproof.profiles.kinds.stages import DUTIES
from rigproof.simulation.faults.kinds import FROM, TIMES, FaultKind, Stages
from rigproof.simulation.faults.sensors import SENSORS


def _steady(sensor: str, stage: str, stages: Stages) -> str:
    """Why a frozen sensor cannot be detected; empty if a healthy one would change."""
    if SENSORS[sensor].steady:
        return f"{sensor} also stays the same on a healthy card"
    later = tuple(stages.values())[list(stages).index(stage) + 1 :]
    if sensor.endswith("temperature") and not {"bursts", "arms"} & set(later):
        return (
            f"after the {stage} stage the power does not change for long enough: a healthy sensor could stay "
            "the same too; choose another --hw-level or stage"
        )
    return ""


def _any_bits(sensor: str, _stage: str, _stages: Stages) -> str:
    return f"any value of {sensor} is possible" if SENSORS[sensor].impossible is None else ""


def _power_alone(sensor: str, _stage: str, _stages: Stages) -> str:
    """Why a small error cannot be detected; empty for power, which the energy counter shows."""
    return "" if sensor == "power" else f"nothing else shows what {sensor} should read"


FAULTS = (
    FaultKind(
        "sensor-missing",
        "gpu",
        "a sensor that the card should have does not answer; field= says which sensor",
        ("thermal.core_temperature",),
        ends="not measured",
        keys=(*TIMES, "field"),
        defaults={"field": "core_temperature"},
        duties=DUTIES,
    ),
    FaultKind(
        "sensor-frozen",
        "gpu",
        "a sensor freezes and repeats its last value; field= says which sensor",
        ("power.draw",),
        ends="not measured",
        keys=(*FROM, "field"),
        defaults={"field": "power", "after": "20%"},
        duties=DUTIES,
        unseen=_steady,
        least_s=11.0,  # ten seconds of one value, and a sample on each side
    ),
    FaultKind(
        "sensor-shifted",
        "gpu",
        "a sensor reads too low (by=15%) or late (by=5s); field= says which sensor",
        ("power.draw",),
        ends="not measured",
        keys=(*TIMES, "by", "field"),
        defaults={"field": "power", "by": "15%", "after": "30%"},
        duties=("continuous", "fed"),  # detected by the energy of ten steady seconds
        unseen=_power_alone,
        delays=True,
        least_s=12.0,
    ),
    FaultKind(
        "sensor-impossible",
        "gpu",
        "a sensor reads an impossible value; field= says which sensor, to= the value",
        ("power.draw",),
        ends="not measured",
        keys=(*TIMES, "to", "field"),
        defaults={"field": "power", "after": "30%"},
        duties=DUTIES,
        unseen=_any_bits,
    ),
    FaultKind(
        "telemetry-gap",
        "gpu",
        "the card's samples are lost without any event",
        ("thermal.core_temperature", "thermal.throttle", "power.draw", "clock.ratio"),
        ends="not measured",
        keys=TIMES,
        defaults={"after": "81%", "for": "19%"},
        duties=DUTIES,
        least_s=2.2,
    ),
)
