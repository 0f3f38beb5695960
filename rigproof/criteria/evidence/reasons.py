"""NVML's clock-event reasons: why a GPU's clock is below what it could be.

Bits of `nvmlClocksEventReasons*` in nvml.h. They are tested with `&`: several can be set at once.
"""

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


def names_of(reasons: int) -> str:
    """The set bits in words, with their values: `HW thermal slowdown (0x40), power cap (0x4)`."""
    return ", ".join(f"{name} ({bit:#x})" for bit, name in NAMES.items() if reasons & bit)
