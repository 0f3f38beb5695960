"""The clock, power and rate of a simulated card for the work of a moment. Pure.

Work takes power in proportion to the clock (an H200: 914 W at 1980 MHz, 693 W at 1470); if that exceeds
the enforced limit, the clock falls until it fits. The rate follows the clock.
"""

from dataclasses import dataclass

from rigproof.profiles.planning.floor_basis import power_scale
from rigproof.profiles.tables.limits import Limits
from rigproof.profiles.tables.sku import Sku
from rigproof.simulation.silicon.cooling import HW_THERMAL, Acting
from rigproof.simulation.timetable import FILLING, Work

# nvmlClocksEventReason*
IDLE, LOCKED, POWER_CAP, BRAKE = 0x1, 0x2, 0x4, 0x80
IDLE_POWER_SHARE, IDLE_CLOCK_SHARE = 0.08, 0.16  # of the default limit; of the highest clock
# Of the default limit: a card that processes hold without work, at its highest clock, with no clock event
# reason. Measured on H200s: 121 to 127 W of 700 W, 1980 MHz. GeForce cards are assumed to go idle.
HELD_POWER_SHARE = 0.175
CAP_SHARE = 0.99  # of the enforced limit: the draw at the power cap. Measured: 687 to 697 W of 700 W
# Each `Work` was measured on H200s, which keep 74 % of their clock at the power cap, and 67 % of their
# printed rate. A card that keeps more of its rate keeps more of its clock: tensor cores reach 97 % of what
# that allows.
H200_CAP_CLOCK, HIGHEST_CAP_CLOCK, TENSOR_EFFICIENCY = 0.735, 0.94, 0.97
UNMEASURED_SHARE = 0.85  # of the printed peak: the steady rate of products that nobody has measured
RATE_OF_MORE_CLOCK = 0.55  # an H200 before the power cap applies: 1.35 of the clock, 1.19 of the rate
IDLE_NOISE, STUCK_NOISE = 0.008, 0.0004
# Shares of the highest clock, by default, under clock-stuck, clock-drops-idle and clock-locked.
STUCK_SHARE, DROPPED_SHARE, LOCKED_SHARE = 0.45, 0.6, 0.5
USED_PERCENT = 71.0  # by default under gpu-half-used
FULLY_USED = 0.99  # utilisation under uninterrupted load


@dataclass(frozen=True, slots=True)
class Pace:
    """How a card runs. `clock`: as a share of its highest; `speed`: its rate as a share of a healthy card's.

    `busy`: the share of the time in which kernels run.
    """

    clock: float
    reasons: int
    power_w: float
    speed: float
    busy: float


@dataclass(frozen=True, slots=True)
class Noise:
    """One draw for each, of standard deviation 1; 0 for no noise."""

    power: float
    clock: float


class Governor:
    """The governor of a card of that SKU under that power limit."""

    def __init__(self, sku: Sku, power_limit_w: float, clock_max_mhz: float, limits: Limits) -> None:
        self._default_w = sku.power_limit_w
        self._limit_w = power_limit_w
        self._clock_max_mhz = clock_max_mhz
        self._scale = power_scale(sku, power_limit_w / sku.power_limit_w)
        self._squeeze = (1 - _cap_clock(sku)) / (1 - H200_CAP_CLOCK)
        self._stays_awake = "memory_temperature" not in sku.unsupported_sensors
        self._least_working_w = (limits.working_power_w or (0.3 * sku.power_limit_w, 0.0))[0]

    @property
    def idle_w(self) -> float:
        """Power without any process."""
        return IDLE_POWER_SHARE * self._default_w

    def resting(self, noise: Noise, *, held: bool) -> Pace:
        """The pace without work; `held`: processes hold the card."""
        if held and self._stays_awake:
            return Pace(1.0, 0, HELD_POWER_SHARE * self._default_w * (1 + IDLE_NOISE * noise.power), 1.0, 0.0)
        return Pace(IDLE_CLOCK_SHARE, IDLE, self.idle_w * (1 + IDLE_NOISE * noise.power), 1.0, 0.0)

    def working(
        self, work: Work, noise: Noise, hot: tuple[float, int], acting: Acting, *, boosted: bool
    ) -> Pace:
        """The pace under that work. `hot`: the share of the clock kept because of heat, and its reasons.

        `boosted`: the power cap does not apply yet.
        """
        healthy, reasons = self._governed(work)
        clock = min(1.0, healthy * (1 + work.clock_noise * noise.clock)) if reasons else healthy
        full_w = self._default_w * work.power / self._at_default(work)  # at the highest clock
        if boosted:
            clock, reasons, full_w = 1.0, 0, self._default_w * FILLING.power
        clock, speed, reasons = self._slowed(clock * hot[0], healthy, reasons | hot[1], noise, acting)
        busy = self._busy(acting)
        power_w = min(full_w * clock, self._limit_w * CAP_SHARE)
        power_w = max(self.idle_w, power_w * busy / FULLY_USED)
        low = acting("power-out-of-range")
        if low is not None:
            given_w = low.to or 0.5 * self._least_working_w
            power_w, speed = given_w, speed * min(1.0, given_w / power_w)
        over = acting("power-over-limit")
        if over is not None:  # the regulator reads too low, and lets too much power through
            power_w = self._limit_w * (1 + (over.by or 0.0))
        power_w *= 1 + work.power_noise * noise.power
        return Pace(clock, reasons, power_w, speed * busy / FULLY_USED, busy)

    def _at_default(self, work: Work) -> float:
        """The clock under that work at the default limit, as a share of this card's highest."""
        return 1 - (1 - work.clock) * self._squeeze

    def _governed(self, work: Work) -> tuple[float, int]:
        """The clock under the power limit, and the reasons for it.

        Work that reaches the default limit follows the SKU's power curve under a lower one.
        """
        clock = self._at_default(work)
        full_w, cap_w = self._default_w * work.power / clock, self._limit_w * CAP_SHARE
        if full_w <= cap_w:
            return 1.0, 0
        if full_w <= self._default_w * CAP_SHARE:
            return cap_w / full_w, POWER_CAP
        return clock * self._scale, POWER_CAP

    def _slowed(
        self, clock: float, healthy: float, reasons: int, noise: Noise, acting: Acting
    ) -> tuple[float, float, int]:
        """Clock, speed and reasons under the faults that act."""
        for name, reason in (("thermal-throttle", HW_THERMAL), ("power-brake", BRAKE)):
            fault = acting(name)
            if fault is not None:
                clock, reasons = clock * (1 - (fault.by or 0.0)), reasons | reason
        for name, share, reason in (
            ("clock-locked", LOCKED_SHARE, reasons | LOCKED),
            ("clock-drops-idle", DROPPED_SHARE, IDLE),
            ("clock-stuck", STUCK_SHARE, 0),
        ):
            fault = acting(name)
            if fault is not None:
                clock = fault.to / self._clock_max_mhz if fault.to else share
                clock, reasons = clock * (1 + STUCK_NOISE * noise.clock), reason
        more = clock / healthy - 1
        speed = 1 + (more * RATE_OF_MORE_CLOCK if more > 0.1 else more)
        for name in ("straggler", "throughput-sag"):
            fault = acting(name)
            speed *= 1 - (fault.by or 0.0) if fault is not None else 1.0
        return clock, speed, reasons

    def _busy(self, acting: Acting) -> float:
        half = acting("gpu-half-used")
        return FULLY_USED if half is None else min(100.0, half.to or USED_PERCENT) / 100


def unmeasured_tflops(sku: Sku, precision: str) -> float:
    """The steady rate of a precision that was never measured, TFLOP/s.

    On tensor cores no more of the printed peak than in 16 bit: it is the same clock.
    """
    share = UNMEASURED_SHARE if precision == "fp32" else min(UNMEASURED_SHARE, _rate_share(sku))
    return share * float(getattr(sku.peak_tflops, precision) or 0.0)


def _cap_clock(sku: Sku) -> float:
    """The share of its clock that a card of that SKU keeps in 16-bit GEMMs at its default limit."""
    return min(HIGHEST_CAP_CLOCK, max(H200_CAP_CLOCK, _rate_share(sku) / TENSOR_EFFICIENCY))


def _rate_share(sku: Sku) -> float:
    """The share of its printed rate that a card of that SKU reaches in 16-bit GEMMs."""
    peaks = {"bf16": sku.peak_tflops.bf16, "fp16": sku.peak_tflops.fp16}
    rates = [(sku.steady.of_products(precision), peak) for precision, peak in peaks.items()]
    return max((steady.value / peak for steady, peak in rates if steady and peak), default=UNMEASURED_SHARE)
