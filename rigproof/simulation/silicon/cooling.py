"""The temperatures of a simulated card, and how it protects itself, to first order.

The die follows the power within a second or two, the heatsink within a dozen, and the memory follows the die.
A fault removes the cooling; the temperature then rises, and the card slows itself down.
"""

from collections.abc import Callable
from dataclasses import dataclass

from rigproof.profiles.tables.limits import Limits
from rigproof.profiles.tables.sku import TemperatureLimits
from rigproof.simulation.faults.injected import InjectedFault

Acting = Callable[[str], InjectedFault | None]

AMBIENT_C = 27.0
UNDER_LIMIT_C = 14.0  # a well-cooled card stays this far below its rig's limit
# Time constants. Measured on H200s: from 37 to 50 °C within a second of load, 57 after two, 64 after thirty.
DIE_TIME_S, SINK_TIME_S, MEMORY_TIME_S = 1.0, 12.0, 20.0
DIE_SHARE = 0.5  # of the whole rise, between heatsink and die
MEMORY_OVER_CORE_C = -8.0  # of HBM under GEMMs, measured on H200s and H100s: 52 to 57 beside 62 to 65 °C
WITHOUT_COOLING_S = 1.0  # time constant of a die, or of memory, that is not cooled
# Where a fault takes a core at full power by default: over the rig's limit, over the absolute limit, over the
# warning, below the working range; and the memory over its limit.
OVER_LIMIT_C, OVER_NEVER_C, OVER_WARNING_C = 4.0, 2.0, 2.0
UNDER_RANGE_C, MEMORY_OVER_C = 8.0, 3.0
# NVML: over GPU_MAX, or over the memory's maximum, the driver lowers the clock step by step (0x20); from
# SLOWDOWN on the hardware halves it (0x40). nvmlClocksEventReasonSwThermalSlowdown, …HwThermalSlowdown.
SW_THERMAL, HW_THERMAL = 0x20, 0x40
LOWER_PER_C, LOWEST, HALVED = 0.03, 0.5, 0.5
MEMORY_MAX_C = 95.0  # if the SKU file states none
# How far the card's own limits are above its rig's, if the SKU file states none.
MARGIN_MAX_C, MARGIN_SLOWDOWN_C, MARGIN_SHUTDOWN_C = 5.0, 8.0, 15.0


@dataclass(frozen=True, slots=True)
class Heat:
    """Temperatures, °C."""

    core_c: float
    sink_c: float
    memory_c: float


class Cooling:
    """The cooling of a card whose rig allows `limit_c`, and whose default power limit is `default_w`."""

    def __init__(
        self, limit_c: float, default_w: float, limits: Limits, documented: TemperatureLimits
    ) -> None:
        self._rise_c_per_w = (limit_c - UNDER_LIMIT_C - AMBIENT_C) / default_w
        never_c, warn_c = limits.core_temperature_never_c, limits.core_temperature_warn_c
        self.hot_c = documented.max_operating_c or limit_c + MARGIN_MAX_C
        self.slowdown_c = documented.slowdown_c or limit_c + MARGIN_SLOWDOWN_C
        self.shutdown_c = documented.shutdown_c or limit_c + MARGIN_SHUTDOWN_C
        self.memory_hot_c = documented.memory_max_c or MEMORY_MAX_C
        # Where the core settles under each fault without a given figure.
        self._settles_c = {
            "heat-spike": (never_c or limit_c) + OVER_NEVER_C,
            "overheat": max(limits.core_temperature_c or self.hot_c, never_c or 0.0) + OVER_LIMIT_C,
            "early-heat": (warn_c or limit_c) + OVER_WARNING_C,
            "temperature-out-of-range": (limits.working_temperature_c or (50.0, 0.0))[0] - UNDER_RANGE_C,
        }
        self._memory_settles_c = (limits.memory_temperature_c or self.memory_hot_c) + MEMORY_OVER_C

    def idle(self, power_w: float) -> Heat:
        """The temperatures after a long rest."""
        core_c = AMBIENT_C + self._rise_c_per_w * power_w
        return Heat(core_c, AMBIENT_C + (1 - DIE_SHARE) * (core_c - AMBIENT_C), core_c)

    def after(self, step_s: float, before: Heat, power_w: float, acting: Acting | None) -> Heat:
        """The temperatures a step later, at that power. `acting`: the current faults; None if idle."""
        die_c = DIE_SHARE * self._rise_c_per_w * power_w
        sink_c = before.sink_c
        sink_c += (AMBIENT_C + self._rise_c_per_w * power_w - die_c - sink_c) * step_s / SINK_TIME_S
        target_c, time_s = sink_c + die_c, DIE_TIME_S
        for name, default_c in self._settles_c.items() if acting is not None else ():
            fault = acting(name) if acting is not None else None
            if fault is not None:
                sink_c = max(AMBIENT_C, (fault.to or default_c) - die_c)
                target_c = sink_c + die_c
                time_s = step_s if name == "heat-spike" else WITHOUT_COOLING_S  # a spike: no heatsink contact
                break
        core_c = before.core_c + (target_c - before.core_c) * min(1.0, step_s / time_s)
        target_c, time_s = core_c + MEMORY_OVER_CORE_C, MEMORY_TIME_S
        hot = acting("memory-overheat") if acting is not None else None
        if hot is not None:
            target_c, time_s = hot.to or self._memory_settles_c, WITHOUT_COOLING_S
        return Heat(core_c, sink_c, before.memory_c + (target_c - before.memory_c) * step_s / time_s)

    def slowed(self, heat: Heat) -> tuple[float, int]:
        """The share of its clock that a card this hot keeps, and the clock event reasons for it."""
        over_c = max(heat.core_c - self.hot_c, heat.memory_c - self.memory_hot_c)
        share, reasons = 1.0, 0
        if over_c > 0:
            share, reasons = max(LOWEST, 1 - LOWER_PER_C * over_c), SW_THERMAL
        if heat.core_c >= self.slowdown_c:
            share, reasons = share * HALVED, reasons | HW_THERMAL
        return share, reasons
