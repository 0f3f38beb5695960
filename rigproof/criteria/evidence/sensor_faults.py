"""Faults of the readings themselves: what no check judges, because sensors.py finds that it is no reading."""

from rigproof.profiles.kinds.stages import DUTIES
from rigproof.simulation.faults.kinds import FROM, TIMES, FaultKind, Stages, Variant
from rigproof.simulation.faults.sensors import SENSORS

UNREAD = "Whoever is asked for a reading that does not come, or does not change, says so; nothing else does."
BY_POWER = (
    "Work alone does not show that a card was active: power has to say so too. Nor is the power cap a reason "
    "for a low clock where nobody knows what the card drew."
)
CORE, MEMORY = (Variant(f"field={part}_temperature", UNREAD) for part in ("core", "memory"))


def _steady(sensor: str, stage: str, stages: Stages) -> str:
    """Of one that repeats itself: what a healthy one would not do as well."""
    if SENSORS[sensor].steady:
        return f"a reading of {sensor} that stays the same is what a healthy card shows too"
    later = tuple(stages.values())[list(stages).index(stage) + 1 :]
    if sensor.endswith("temperature") and not {"bursts", "arms"} & set(later):
        return (
            f"after the {stage} stage the power never changes for so long that a healthy one would not stay "
            "the same too; take another --level or stage"
        )
    return ""


def _any_bits(sensor: str, _stage: str, _stages: Stages) -> str:
    return f"any {sensor} can be" if SENSORS[sensor].impossible is None else ""


def _power_alone(sensor: str, _stage: str, _stages: Stages) -> str:
    """Of one that is a little off: energy tells what power should read."""
    return "" if sensor == "power" else f"nothing else tells what {sensor} should read"


FAULTS = (
    FaultKind(
        "sensor-missing",
        "gpu",
        "a sensor that the card should have does not answer; field= says which",
        ("thermal.core_temperature",),
        ends="not measured",
        keys=(*TIMES, "field"),
        defaults={"field": "core_temperature"},
        duties=DUTIES,
        why=UNREAD,
        variants=(
            MEMORY,
            Variant("field=sm_clock", UNREAD),
            Variant("field=utilization", UNREAD),
            Variant(
                "field=clock_event_reasons",
                "A clock that the power cap lowers needs the reason to explain it.",
            ),
            Variant("field=power", BY_POWER),
        ),
    ),
    FaultKind(
        "sensor-frozen",
        "gpu",
        "a sensor repeats what it read when it froze; field= says which",
        ("power.draw",),
        ends="not measured",
        keys=(*FROM, "field"),
        defaults={"field": "power", "after": "30%"},
        duties=DUTIES,
        unseen=_steady,
        why=BY_POWER,
        variants=(CORE, MEMORY),
    ),
    FaultKind(
        "sensor-shifted",
        "gpu",
        "a sensor reads too little (by=15%), or late (by=5s); field= says which",
        ("power.draw",),
        ends="not measured",
        keys=(*TIMES, "by", "field"),
        defaults={"field": "power", "by": "15%", "after": "30%"},
        duties=("continuous", "fed"),  # told by the energy of ten steady seconds
        unseen=_power_alone,
        delays=True,
        why=BY_POWER,
    ),
    FaultKind(
        "sensor-impossible",
        "gpu",
        "a sensor reads what cannot be; field= says which, to= what",
        ("power.draw",),
        ends="not measured",
        keys=(*TIMES, "to", "field"),
        defaults={"field": "power", "after": "30%"},
        duties=DUTIES,
        unseen=_any_bits,
        why=BY_POWER,
        variants=(CORE, MEMORY, Variant("field=sm_clock", UNREAD)),
    ),
    FaultKind(
        "telemetry-gap",
        "gpu",
        "the card's samples are lost, and nobody says so",
        ("thermal.core_temperature", "thermal.throttle", "power.draw", "clock.ratio"),
        ends="not measured",
        keys=TIMES,
        defaults={"after": "81%", "for": "19%"},
        duties=DUTIES,
        why="Whatever is read of a card lacks the same stretch; its work goes on.",
    ),
)
