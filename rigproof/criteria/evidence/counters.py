"""What NVML counts and states of a card: errors, and the reasons why its clock is below what it could be.

Bits of `nvmlClocksEventReasons*` in nvml.h are tested with `&`: several can be set at once.
"""

from collections.abc import Mapping

from rigproof.criteria.criterion import NotRead
from rigproof.records.measurements import GpuCounters
from rigproof.records.verdict import figure

NAMES = {
    0x1: "idle",
    0x2: "application clocks setting",
    0x4: "power cap",
    0x8: "HW slowdown",
    0x10: "sync boost",
    0x20: "SW thermal slowdown",
    0x40: "HW thermal slowdown",
    0x80: "HW power brake",
    0x100: "display clocks setting",
}
# Heat, hardware slowdown and power brake: DCGM fails on these.
THERMAL, POWER_BRAKE = 0x20 | 0x40, 0x80
THROTTLE = 0x8 | THERMAL | POWER_BRAKE
POWER_CAP = 0x4
# Application clocks and display clocks: set by a user.
SET_BY_USER = 0x2 | 0x100
# Reasons that explain a low clock under load. Idle does not: a loaded GPU is not idle.
EXPLAINS_LOW_CLOCK = POWER_CAP | SET_BY_USER | 0x10 | THROTTLE
# The counters of GpuCounters, by the bit of their reason.
COUNTERS = {
    0x4: "power_capped_s",
    0x10: "sync_boost_s",
    0x20: "sw_thermal_s",
    0x40: "hw_thermal_s",
    0x80: "power_brake_s",
}


def growth(before: GpuCounters | None, after: GpuCounters | None, field: str, what: str) -> int:
    """By how much a counter grew during the run. NotRead if either reading is missing or it went down."""
    values = []
    for moment, one in (("before", before), ("after", after)):
        value = None if one is None else getattr(one, field)
        if value is None:
            raise NotRead(f"{what} were not counted {moment} the load")
        values.append(int(value))
    if values[1] < values[0]:
        raise NotRead(
            f"the counter of {what} went back from {values[0]} to {values[1]}: it was reset during the run"
        )
    return values[1] - values[0]


def names_of(reasons: int) -> str:
    """The set bits in words, with their values: `HW thermal slowdown (0x40), power cap (0x4)`."""
    return ", ".join(f"{name} ({bit:#x})" for bit, name in NAMES.items() if reasons & bit)


def counted_s(before: GpuCounters | None, after: GpuCounters | None) -> dict[int, float]:
    """How long each reason held during the run, s, by its bit; without those that NVML does not count."""
    found = {}
    for bit, name in COUNTERS.items():
        was, now = (None if one is None else getattr(one, name) for one in (before, after))
        if was is not None and now is not None and now >= was:
            found[bit] = now - was
    return found


def durations_text(by_reason: Mapping[int, float]) -> str:
    """`power cap 61 s, HW thermal slowdown 0.40 s`; empty if there was no reason for any time."""
    return ", ".join(f"{NAMES[bit]} {figure(seconds, 's')}" for bit, seconds in by_reason.items() if seconds)
