"""One simulated card: rate, power, heat and clock over time, to first order.

The work of a moment (`timetable`) takes power, the driver chooses a clock (`governor`), and the power heats
the card (`cooling`). All of it runs in steps of STEP_S from the beginning of the run, with seeded noise, so
that every process computes the same. Faults act here, on the silicon; NVML reads the result.
"""

import math
import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from rigproof.profiles.loading.loaded import PromisedDevice
from rigproof.profiles.planning.floor_basis import power_scale
from rigproof.profiles.tables.sku import Sku
from rigproof.simulation import timetable
from rigproof.simulation.faults.injected import InjectedFault, StageWindow
from rigproof.simulation.silicon.cooling import Cooling, Heat
from rigproof.simulation.silicon.governor import IDLE, Governor, Noise, Pace, unmeasured_tflops
from rigproof.simulation.silicon.strangers import taken_share
from rigproof.simulation.timetable import Segment

STEP_S = 0.25
AVERAGED_S = 1.0  # time constant of the driver's power average
DEFAULT_LIMIT_C = 83.0  # if neither the rig nor the SKU states a limit
# NVML's highest SM clock, MHz; read from H100 and H200 SXM, and by others from A6000, B300, GH200, RTX 5080
# and RTX 6000 Ada; leads for all others.
CLOCK_MAX_MHZ = {
    "a100-sxm-40gb": 1410.0,
    "a100-sxm-80gb": 1410.0,
    "a10g": 1710.0,
    "a40": 1740.0,
    "a6000": 2100.0,
    "b200": 1965.0,
    "b300": 2032.0,
    "gh200": 1980.0,
    "h100-pcie": 1755.0,
    "h100-sxm": 1980.0,
    "h200-sxm": 1980.0,
    "l4": 2040.0,
    "l40s": 2520.0,
    "rtx-3070": 2100.0,
    "rtx-3090": 2100.0,
    "rtx-4090": 3105.0,
    "rtx-5080": 3090.0,
    "rtx-5090": 3090.0,
    "rtx-6000-ada": 3105.0,
    "rtx-pro-6000-server": 2494.0,
    "t4": 1590.0,
}
BOOST_SHARE = (
    0.81  # printed boost clock over NVML's highest; RTX 3090 2100, RTX 4090 3105, RTX 6000 Ada 3105 MHz
)
OTHER_CLOCK_MAX_MHZ = 1980.0  # if the SKU file states no boost clock
# Single readings deviate further than with normal noise: NVML's instant power of an H100 in the sustained
# stage has a standard deviation of 2 %, and readings 10 % over the median.
TAIL, FARTHEST = 0.06, 5.0
NAMESPACE = uuid.UUID("7d3f2c52-0c1e-4f7d-9a63-5b6a1c6f2f10")


@dataclass(frozen=True, slots=True)
class CardState:
    """The card from `t_s` on, for STEP_S. `energy_j`: energy used by then.

    `average_w` is its power as averaged by the driver; `speed` and `busy` as in `governor.Pace`.
    """

    t_s: float
    stage: str | None
    power_w: float
    average_w: float
    heat: Heat
    clock_mhz: float
    reasons: int
    energy_j: float
    speed: float
    busy: float

    @property
    def core_c(self) -> float:
        """Core temperature, °C."""
        return self.heat.core_c

    @property
    def memory_c(self) -> float:
        """Memory temperature, °C."""
        return self.heat.memory_c

    def energy_at(self, t_s: float) -> float:
        """Energy, J, used by a moment within this step."""
        return self.energy_j + self.power_w * max(0.0, t_s - self.t_s)


class SimulatedCard:
    """The simulated card for one promised GPU. `faults` are those that hit it.

    `work`: its segments in each stage, by the stage's name.
    """

    def __init__(
        self, device: PromisedDevice, sku: Sku, faults: Sequence[InjectedFault], *, rig: str, seed: int
    ) -> None:
        self.subject = device.subject
        self.index = device.index
        self.sku = sku
        self.faults = {fault.name: fault for fault in faults}
        self.limits = device.limits
        self.work: Mapping[str, Sequence[Segment]] = {}
        self.uuid = device.gpu.uuid or f"GPU-{uuid.uuid5(NAMESPACE, f'{rig}/{device.subject}')}"
        self.memory_mib = (device.gpu.memory_gib or sku.memory_gib) * 1024
        if "memory-missing" in self.faults:
            self.memory_mib *= 7 / 8
        self.default_w = sku.power_limit_w
        self.power_limit_w = self._power_limit_w()
        known_mhz = CLOCK_MAX_MHZ.get(device.sku_stem or "")
        printed_mhz = sku.boost_clock_mhz and sku.boost_clock_mhz / BOOST_SHARE
        self.clock_max_mhz = known_mhz or printed_mhz or OTHER_CLOCK_MAX_MHZ
        self.limit_c = (
            device.limits.core_temperature_c
            or sku.temperature.max_operating_c
            or sku.temperature.slowdown_c
            or DEFAULT_LIMIT_C
        )
        self.cooling = Cooling(self.limit_c, self.default_w, device.limits, sku.temperature)
        self._governor = Governor(sku, self.power_limit_w, self.clock_max_mhz, device.limits)
        self._random = random.Random(f"{seed}/{device.subject}/card")  # noqa: S311 - noise, not a secret
        idle_w = self._governor.idle_w
        self._states = [
            CardState(0.0, None, idle_w, idle_w, self.cooling.idle(idle_w), 0.0, IDLE, 0.0, 1.0, 0.0)
        ]

    def steady_tflops(self, precision: str) -> float:
        """The steady rate of a healthy card of this SKU under the enforced power limit, TFLOP/s.

        If it was never measured: as `unmeasured_tflops`.
        """
        steady = self.sku.steady.of_products(precision)
        rate = float(steady.value) if steady is not None else unmeasured_tflops(self.sku, precision)
        return rate * self.limit_scale

    @cached_property
    def limit_scale(self) -> float:
        """The fraction of a rate that remains under the enforced power limit."""
        return power_scale(self.sku, self.power_limit_w / self.default_w)

    def precisions(self) -> tuple[str, ...]:
        """The measured precisions that the SKU has."""
        return timetable.measured_precisions(self.sku)

    @property
    def half_precision(self) -> str:
        """The 16-bit precision that it works in."""
        return timetable.half_of(self.precisions())

    def acting(
        self, name: str, t_s: float, stages: Sequence[StageWindow], since_s: float | None = None
    ) -> InjectedFault | None:
        """The fault of that name, if it acts at this moment, or at any since `since_s`."""
        fault = self.faults.get(name)
        return fault if fault is not None and fault.acts(t_s, stages, since_s) else None

    def begun(self, name: str, t_s: float, stages: Sequence[StageWindow]) -> InjectedFault | None:
        """The fault of that name, if it has begun by this moment."""
        fault = self.faults.get(name)
        return fault if fault is not None and fault.begun(t_s, stages) else None

    def at(self, t_s: float, stages: Sequence[StageWindow]) -> CardState:
        """The state at a moment, which must not precede the beginning of the latest stage known so far."""
        while self._states[-1].t_s < t_s:
            self._states.append(self._next(self._states[-1], stages))
        return self._states[min(len(self._states) - 1, max(0, int(t_s / STEP_S)))]

    def speed_over(self, from_s: float, to_s: float, stages: Sequence[StageWindow]) -> float:
        """The card's mean speed between two moments."""
        self.at(to_s, stages)
        first = max(0, int(from_s / STEP_S))
        states = self._states[first : max(first + 1, math.ceil(to_s / STEP_S))]
        return sum(state.speed for state in states) / len(states)

    def _next(self, before: CardState, stages: Sequence[StageWindow]) -> CardState:
        t_s = before.t_s + STEP_S
        stage = _running(t_s, stages)
        pace = self._pace(t_s, stage, stages, before.heat)
        works = bool(self.faults) and pace.busy > 0
        acting = partial(self.acting, t_s=t_s, stages=stages) if works else None
        return CardState(
            t_s=t_s,
            stage=None if stage is None else stage.name,
            power_w=pace.power_w,
            average_w=before.average_w + (pace.power_w - before.average_w) * STEP_S / AVERAGED_S,
            heat=self.cooling.after(STEP_S, before.heat, pace.power_w, acting),
            clock_mhz=pace.clock * self.clock_max_mhz,
            reasons=pace.reasons,
            energy_j=before.energy_j + before.power_w * STEP_S,
            speed=pace.speed,
            busy=pace.busy,
        )

    def _pace(self, t_s: float, stage: StageWindow | None, stages: Sequence[StageWindow], heat: Heat) -> Pace:
        """The card's pace from that moment on."""
        noise = Noise(self._noise(), self._noise())
        if self.acting("gpu-idle", t_s, stages) is not None:
            return self._governor.resting(noise, held=False)
        into_s = 0.0 if stage is None else t_s - stage.start_s
        segment = None if stage is None else timetable.at(self.work[stage.name], into_s)
        if segment is None:
            return self._governor.resting(noise, held=bool(stages))
        acting = partial(self.acting, t_s=t_s, stages=stages) if self.faults else _nothing
        boosted = into_s < segment.from_s + segment.boost_s
        pace = self._governor.working(segment.work, noise, self.cooling.slowed(heat), acting, boosted=boosted)
        taken = taken_share(self.faults, t_s, stages)
        return pace if not taken else replace(pace, speed=pace.speed * (1 - taken))

    def _noise(self) -> float:
        normal = self._random.gauss(0, 1)
        return max(-FARTHEST, min(FARTHEST, normal + TAIL * normal**3))

    def _power_limit_w(self) -> float:
        """The enforced limit: the default within the rig's range, or what a fault sets."""
        allowed = self.limits.power_limit_w
        healthy_w = self.default_w
        if allowed is not None:
            healthy_w = min(max(healthy_w, allowed[0]), allowed[1])
        capped, off = self.faults.get("power-capped"), self.faults.get("power-limit-off")
        if capped is not None:
            return capped.to or 0.85 * healthy_w
        if off is not None:
            return off.to or 0.8 * (allowed[0] if allowed is not None else healthy_w)
        return healthy_w


def _nothing(_name: str) -> None:
    """A card without faults: none acts."""


def _running(t_s: float, stages: Sequence[StageWindow]) -> StageWindow | None:
    """The stage that loads the card at this moment."""
    for stage in reversed(stages):
        if stage.start_s <= t_s:
            return stage if t_s <= stage.start_s + stage.length_s else None
    return None
