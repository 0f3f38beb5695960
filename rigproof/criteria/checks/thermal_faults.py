"""The faults that the criteria of thermal.py detect."""

from rigproof.profiles.kinds.stages import DEVICE_DUTIES, DUTIES
from rigproof.simulation.faults.kinds import FED, FROM, MID, PART, TIMES, FaultKind, unreported, unstated

SLOWED = "Above the highest temperature that its maker allows, a card lowers its clock."

FAULTS = (
    FaultKind(
        "overheat",
        "gpu",
        "the cooling fails: the core exceeds its limit; to= is the temperature at which it settles, °C",
        ("thermal.core_temperature",),
        keys=(*TIMES, "to"),
        defaults=PART,
        duties=DUTIES,
        least_s=1.25,  # of a card that is not hot yet; 30 % of a quick pattern stage are 1.2 s
    ),
    FaultKind(
        "heat-spike",
        "gpu",
        "the core loses its heatsink for a moment, and exceeds the temperature that is never allowed",
        ("thermal.core_temperature",),
        keys=(*TIMES, "to"),
        defaults={**MID, "for": "0.75"},
        duties=DUTIES,
        lacks=unstated("core_temperature_never_c"),
        brief=True,
    ),
    FaultKind(
        "early-heat",
        "gpu",
        "the cooling weakens: the core approaches its limit",
        ("thermal.core_temperature",),
        ends="warns",
        keys=(*TIMES, "to"),
        defaults=PART,
        duties=DUTIES,
        lacks=unstated("core_temperature_warn_c"),
        least_s=6.0,  # it is judged by means of 5 s where an absolute limit is stated, too
    ),
    FaultKind(
        "temperature-out-of-range",
        "gpu",
        "the core leaves the working range while the card is fed",
        ("thermal.core_temperature",),
        keys=("stage", "to"),
        duties=FED,
        lacks=unstated("working_temperature_c"),
    ),
    FaultKind(
        "memory-overheat",
        "gpu",
        "the memory exceeds its limit while the core is cool",
        ("thermal.memory_temperature",),
        keys=(*TIMES, "to"),
        defaults=PART,
        duties=DUTIES,
        lacks=unreported("memory_temperature", "its driver reports no such sensor"),
        least_s=3.0,
    ),
    FaultKind(
        "thermal-throttle",
        "gpu",
        "the driver lowers the clock because of heat (reason 0x40)",
        ("thermal.throttle",),
        keys=(*TIMES, "by"),
        defaults={"by": "40%"},
        duties=DEVICE_DUTIES,
    ),
    FaultKind(
        "hidden-throttle",
        "gpu",
        "the driver slows the card down too briefly for the samples; to= is how long in all, s",
        ("thermal.throttle",),
        ends="warns",
        keys=(*FROM, "to"),
        defaults=MID,
        duties=DUTIES,
    ),
    FaultKind(
        "power-brake",
        "gpu",
        "the power supply triggers the power brake (reason 0x80)",
        ("thermal.throttle",),
        keys=(*TIMES, "by"),
        defaults={"by": "5%", **PART},
        duties=DEVICE_DUTIES,
    ),
)
