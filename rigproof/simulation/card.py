"""One simulated card: rate, power, heat and clock over time, to first order.

A stage asks for power; the enforced limit cuts it; the core warms towards the temperature of that power with
a time constant, the memory follows; the clock is what the power leaves. All of it runs in steps of STEP_S
from the begin of the run, with seeded noise, so that whoever computes it gets the same.
"""

import random
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from rigproof.profiles.loaded import PromisedDevice
from rigproof.profiles.models import Sku
from rigproof.profiles.power_curve import power_scale
from rigproof.simulation.faults.injected import InjectedFault, StageWindow
from rigproof.simulation.strangers import taken_share

STEP_S = 0.25
AMBIENT_C = 27.0
UNDER_LIMIT_C = 14.0  # a well-cooled card stays so far under what its rig allows
DEFAULT_LIMIT_C = 83.0  # of a card of which nobody says one
CORE_TIME_S, MEMORY_TIME_S = 12.0, 20.0  # time constants of a heatsink and of memory; measured: 10 to 15 s
MEMORY_OVER_CORE_C = 8.0
IDLE_POWER_SHARE, IDLE_CLOCK_SHARE = 0.08, 0.16  # of the default limit; of the highest clock
# Of the highest clock: at the default limit's cap; where the work needs less power than the cap leaves.
LOADED_CLOCK_SHARE, FREE_CLOCK_SHARE = 0.94, 0.98
WANTED_SHARE = 1.1  # of the default limit: what a stage of GEMMs would draw if no cap held it
CAP_SHARE = 0.97  # of the enforced limit: what a card at its cap draws
# Of the power that a stage of GEMMs takes. Training and generation leave some of it.
DEMAND = {"gemm": 1.0, "sustained": 1.0, "training": 0.9, "feeding": 0.8, "sharing": 1.0}
POWER_NOISE, CLOCK_NOISE = 0.008, 0.004
IDLE, POWER_CAP, THERMAL, BRAKE = 0x1, 0x4, 0x40, 0x80  # nvmlClocksEventReason*
NAMESPACE = uuid.UUID("7d3f2c52-0c1e-4f7d-9a63-5b6a1c6f2f10")


@dataclass(frozen=True, slots=True)
class CardState:
    """The card at one moment. `speed` is its rate, of what a healthy one does under the same power limit."""

    t_s: float
    stage: str | None
    power_w: float
    core_c: float
    memory_c: float
    clock_mhz: float
    reasons: int
    energy_j: float
    speed: float


class SimulatedCard:
    """The card in the place of one promised GPU. `faults` are those that hit it."""

    def __init__(
        self, device: PromisedDevice, sku: Sku, faults: Sequence[InjectedFault], *, rig: str, seed: int
    ) -> None:
        self.subject = device.subject
        self.index = device.index
        self.sku = sku
        self.faults = {fault.name: fault for fault in faults}
        self.limits = device.limits
        self.uuid = device.gpu.uuid or f"GPU-{uuid.uuid5(NAMESPACE, f'{rig}/{device.subject}')}"
        self.memory_mib = (device.gpu.memory_gib or sku.memory_gib) * 1024
        self.default_w = sku.power_limit_w
        self.power_limit_w = self._power_limit_w()
        self.clock_max_mhz = 2100.0 if "memory_temperature" in sku.unsupported_sensors else 1980.0
        self.limit_c = (
            device.limits.core_temperature_c
            or sku.temperature.max_operating_c
            or sku.temperature.slowdown_c
            or DEFAULT_LIMIT_C
        )
        self._random = random.Random(f"{seed}/{device.subject}/card")  # noqa: S311 - noise, not a secret
        self._states = [
            CardState(0.0, None, self._idle_w, AMBIENT_C + 8, AMBIENT_C + 10, 0.0, IDLE, 0.0, 1.0)
        ]

    @property
    def _idle_w(self) -> float:
        return IDLE_POWER_SHARE * self.default_w

    def steady_tflops(self, precision: str) -> float:
        """What a healthy card of this SKU keeps up under the enforced power limit, TFLOP/s.

        Where nobody has measured it: 85 % of the printed peak.
        """
        steady = getattr(self.sku.steady_tflops, precision, None)
        peak = getattr(self.sku.peak_tflops, precision, None)
        rate = float(steady or 0.85 * (peak or 0.0))
        return rate * power_scale(self.sku, self.power_limit_w / self.default_w)

    def precisions(self) -> tuple[str, ...]:
        """Those that the SKU has, of the four that are measured."""
        names = ("fp32", "tf32", "fp16", "bf16")
        return tuple(name for name in names if getattr(self.sku.peak_tflops, name) is not None)

    @property
    def half_precision(self) -> str:
        """The 16-bit one that it works in."""
        return "bf16" if "bf16" in self.precisions() else "fp16"

    def acting(self, name: str, t_s: float, stages: Sequence[StageWindow]) -> InjectedFault | None:
        """The fault of that name, where it acts at this moment."""
        fault = self.faults.get(name)
        return fault if fault is not None and fault.acts(t_s, stages) else None

    def begun(self, name: str, t_s: float, stages: Sequence[StageWindow]) -> InjectedFault | None:
        """The fault of that name, where it has begun by this moment."""
        fault = self.faults.get(name)
        return fault if fault is not None and fault.begun(t_s, stages) else None

    def at(self, t_s: float, stages: Sequence[StageWindow]) -> CardState:
        """The state at a moment not before the begin of the latest stage that was known so far."""
        while self._states[-1].t_s < t_s:
            self._states.append(self._next(self._states[-1], stages))
        return self._states[min(len(self._states) - 1, max(0, int(t_s / STEP_S)))]

    def _next(self, before: CardState, stages: Sequence[StageWindow]) -> CardState:
        t_s = before.t_s + STEP_S
        stage = _running(t_s, stages)
        demand = 0.0 if stage is None else DEMAND[stage.name]
        if self.acting("gpu-idle", t_s, stages):
            demand = 0.02
        speed, clock_share, reasons = self._pace(t_s, stages, demand)
        power_w = self._power_w(t_s, stages, demand, clock_share)
        target_c = AMBIENT_C + (self.limit_c - UNDER_LIMIT_C - AMBIENT_C) * power_w / self.default_w
        core_c = before.core_c + (target_c - before.core_c) * STEP_S / CORE_TIME_S
        memory_c = before.memory_c + (core_c + MEMORY_OVER_CORE_C - before.memory_c) * STEP_S / MEMORY_TIME_S
        return CardState(
            t_s=t_s,
            stage=None if stage is None else stage.name,
            power_w=power_w,
            core_c=core_c,
            memory_c=memory_c,
            clock_mhz=clock_share * self.clock_max_mhz,
            reasons=reasons,
            energy_j=before.energy_j + power_w * STEP_S,
            speed=speed,
        )

    def _pace(self, t_s: float, stages: Sequence[StageWindow], demand: float) -> tuple[float, float, int]:
        """Rate of a healthy card's, clock of the highest, and the driver's reasons for it."""
        if demand < 0.1:
            return 1.0, IDLE_CLOCK_SHARE, IDLE
        noise = self._random.gauss(0, CLOCK_NOISE)
        clock, reasons = self._governed(demand)
        clock, speed = clock * (1 + noise), 1.0 + noise / 2
        for name in ("straggler", "throughput-sag"):
            fault = self.acting(name, t_s, stages)
            speed *= 1 - (fault.by or 0.0) if fault is not None else 1.0
        for name, reason in (("thermal-throttle", THERMAL), ("power-brake", BRAKE)):
            fault = self.acting(name, t_s, stages)
            if fault is not None:
                clock, speed, reasons = clock * (1 - (fault.by or 0)), speed * (1 - (fault.by or 0)), reason
        stuck = self.acting("clock-stuck", t_s, stages)
        if stuck is not None:
            share = (stuck.to or 0.45 * self.clock_max_mhz) / self.clock_max_mhz * (1 + noise / 10)
            clock, speed, reasons = share, speed * share / LOADED_CLOCK_SHARE, 0
        speed *= 1 - taken_share(self.faults, t_s, stages)
        return speed, min(1.0, clock), reasons

    def _governed(self, demand: float) -> tuple[float, int]:
        """Clock, of the highest, and the reasons that the power limit leaves at this demand.

        At the cap the clock falls with the limit as the rate does, by the SKU's power curve.
        """
        if WANTED_SHARE * demand * self.default_w <= self.power_limit_w * CAP_SHARE:
            return FREE_CLOCK_SHARE, 0
        return LOADED_CLOCK_SHARE * power_scale(self.sku, self.power_limit_w / self.default_w), POWER_CAP

    def _power_w(self, t_s: float, stages: Sequence[StageWindow], demand: float, clock_share: float) -> float:
        noise = 1 + self._random.gauss(0, POWER_NOISE)
        if demand < 0.1:
            return self._idle_w * noise * (1 + demand)
        over = self.acting("power-over-limit", t_s, stages)
        if over is not None:
            return self.power_limit_w * (1 + (over.by or 0.0)) * noise
        slowed = min(1.0, clock_share / self._governed(demand)[0])
        wanted_w = self.default_w * WANTED_SHARE * demand * slowed
        return min(min(wanted_w, self.power_limit_w * CAP_SHARE) * noise, self.power_limit_w)

    def _power_limit_w(self) -> float:
        """As somebody set it: the default, or what a fault says."""
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


def _running(t_s: float, stages: Sequence[StageWindow]) -> StageWindow | None:
    """The stage that loads the card at this moment."""
    for stage in reversed(stages):
        if stage.start_s <= t_s:
            return stage if t_s <= stage.start_s + stage.length_s else None
    return None
