"""What NVML is to say of a simulated card at a moment: its state, and what faults do to its sensors."""

from collections.abc import Sequence
from typing import Any

from rigproof.simulation.card import CardState, SimulatedCard
from rigproof.simulation.faults.injected import StageWindow
from rigproof.simulation.nvml_model import SimulatedGpu, SimulatedProcess

FOREIGN_PID = 4711
IDLE_MEMORY_MIB = 1.0  # of a card without a context
IDLE_PCIE_GENERATION = 1  # a link without traffic goes down to save power
CORRECTED_PER_S = 2.0  # of the fault ecc-corrected-rate
REPLAYS_PER_S = 20.0  # of the fault pcie-replays
# The fields of SimulatedGpu that a named sensor is.
SENSORS = {
    "core_temperature": ("core_temperature_c",),
    "memory_temperature": ("memory_temperature_c",),
    "power": ("power_w", "power_average_w", "power_usage_w"),
    "sm_clock": ("sm_clock_mhz",),
    "utilization": ("utilization_percent",),
    "clock_event_reasons": ("clock_event_reasons",),
}


def idle_gpu(card: SimulatedCard, name: str, *, foreign_mib: float) -> SimulatedGpu:
    """The card as NVML lists it before any load; what its SKU's driver does not answer is None."""
    missing = card.sku.unsupported_sensors
    limits = card.sku.temperature
    generation = card.sku.pcie_generation or 4
    major, _, minor = (card.sku.compute_capability or "8.0").partition(".")
    has_ecc, has_remap = "ecc" not in missing, "row_remap" not in missing
    gpu = SimulatedGpu(
        uuid=card.uuid,
        name=name,
        pci_bus_id=f"00000000:{card.index + 1:02X}:00.0",
        compute_capability=(int(major), int(minor or 0)),
        memory_total_mib=card.memory_mib,
        memory_used_mib=IDLE_MEMORY_MIB + foreign_mib,
        power_limit_w=card.power_limit_w,
        power_limit_default_w=card.default_w,
        sm_clock_max_mhz=int(card.clock_max_mhz),
        temperature_gpu_max_c=int(limits.max_operating_c or card.limit_c + 5),
        temperature_slowdown_c=int(limits.slowdown_c or card.limit_c + 8),
        temperature_shutdown_c=int(limits.shutdown_c or card.limit_c + 15),
        temperature_memory_max_c=None if "memory_temperature" in missing else int(limits.memory_max_c or 95),
        pcie_generation_max=int(generation),
        pcie_generation=IDLE_PCIE_GENERATION,
        ecc_enabled=True if has_ecc else None,
        ecc_corrected=0 if has_ecc else None,
        ecc_uncorrected=0 if has_ecc else None,
        remapped_correctable=0 if has_remap else None,
    )
    if foreign_mib:
        gpu.processes = [SimulatedProcess(FOREIGN_PID, foreign_mib)]
    return gpu


def show(
    card: SimulatedCard, gpu: SimulatedGpu, t_s: float, stages: Sequence[StageWindow], held_mib: float
) -> CardState:
    """Let NVML's `gpu` read as the card is at `t_s`; `held_mib` is what our workers hold of its memory.

    The driver's list of processes may name them too, or nobody of them.
    """
    state = card.at(t_s, stages)
    missing = card.sku.unsupported_sensors
    loaded = state.stage is not None and card.acting("gpu-idle", t_s, stages) is None
    core_c, memory_c = _temperatures(card, state, t_s, stages)
    listed_mib = sum(process.used_mib or 0.0 for process in gpu.processes or ())
    power_w = state.power_w if (given := _working_power(card, state)) is None else given
    values: dict[str, Any] = {
        "core_temperature_c": round(core_c),
        "memory_temperature_c": None if "memory_temperature" in missing else round(memory_c),
        "power_w": power_w,
        "power_average_w": power_w * 0.999,
        "power_usage_w": power_w * 0.999,
        "sm_clock_mhz": round(_clock_mhz(card, state)),
        "utilization_percent": _utilization(card, state, loaded=loaded),
        "clock_event_reasons": _reasons(card, state),
        "energy_j": state.energy_j,
        "memory_clock_mhz": gpu.memory_clock_max_mhz if loaded else 405,
        "memory_used_mib": IDLE_MEMORY_MIB + max(held_mib, listed_mib),
        "pcie_generation": gpu.pcie_generation_max if loaded else IDLE_PCIE_GENERATION,
        **_counters(card, t_s, stages),
    }
    degraded = card.faults.get("pcie-degraded")
    if degraded is not None:
        values["pcie_generation"] = int(degraded.to or 1)
    for name in ("sensor-missing", "sensor-frozen"):
        fault = card.faults.get(name)
        for sensor in SENSORS[fault.field or ""] if fault is not None else ():
            values[sensor] = None if name == "sensor-missing" else getattr(gpu, sensor)
    for sensor, value in values.items():
        setattr(gpu, sensor, value)
    if card.begun("gpu-lost", t_s, stages):
        gpu.lost = True
    return state


def _temperatures(
    card: SimulatedCard, state: CardState, t_s: float, stages: Sequence[StageWindow]
) -> tuple[float, float]:
    core_c, memory_c = state.core_c, state.memory_c
    hot = card.acting("overheat", t_s, stages)
    if hot is not None:
        core_c = hot.to or max(card.limit_c, card.limits.core_temperature_never_c or 0.0) + 4
    spike = card.faults.get("heat-spike")
    window = spike.window(stages) if spike is not None else None
    if spike is not None and window is not None and 0 <= t_s - window[0] < 0.6:
        core_c = spike.to or (card.limits.core_temperature_never_c or card.limit_c) + 2
    near = card.acting("early-heat", t_s, stages)
    if near is not None:
        core_c = near.to or (card.limits.core_temperature_warn_c or card.limit_c) + 1
    off = card.faults.get("temperature-out-of-range")
    if off is not None and state.stage == "feeding":
        core_c = off.to or (card.limits.working_temperature_c or (50.0, 0.0))[0] - 8
    memory_hot = card.acting("memory-overheat", t_s, stages)
    if memory_hot is not None:
        limit_c = card.limits.memory_temperature_c or card.sku.temperature.memory_max_c or 95.0
        memory_c = memory_hot.to or limit_c + 3
    return core_c, memory_c


def _working_power(card: SimulatedCard, state: CardState) -> float | None:
    fault = card.faults.get("power-out-of-range")
    if fault is None or state.stage != "feeding":
        return None
    low_w = (card.limits.working_power_w or (0.3 * card.default_w, 0.0))[0]
    return (fault.to or 0.5 * low_w) * state.power_w / card.power_limit_w


def _clock_mhz(card: SimulatedCard, state: CardState) -> float:
    fault = card.faults.get("clock-drops-idle")
    if fault is None or state.stage != "feeding":
        return state.clock_mhz
    return (fault.to or 0.6 * card.clock_max_mhz) + state.clock_mhz % 3


def _reasons(card: SimulatedCard, state: CardState) -> int:
    return 0x1 if "clock-drops-idle" in card.faults and state.stage == "feeding" else state.reasons


def _utilization(card: SimulatedCard, state: CardState, *, loaded: bool) -> int:
    half = card.faults.get("gpu-half-used")
    if half is not None and state.stage == "feeding":
        return int(half.to or 71)
    return 99 if loaded else 0


def _counters(card: SimulatedCard, t_s: float, stages: Sequence[StageWindow]) -> dict[str, Any]:
    """Counters climb from the begin of their fault on, and stay."""
    values: dict[str, Any] = {}

    def since(name: str) -> float | None:
        fault = card.begun(name, t_s, stages)
        window = fault.window(stages) if fault is not None else None
        return None if window is None else t_s - window[0]

    if since("ecc-uncorrected") is not None:
        values["ecc_uncorrected"] = 1
    climbing_s = since("ecc-corrected-rate")
    if climbing_s is not None:
        values["ecc_corrected"] = 1 + int(climbing_s * CORRECTED_PER_S)
    if since("row-remap-pending") is not None:
        values |= {"remap_pending": True, "remapped_uncorrectable": 1}
    if since("row-remap-failed") is not None:
        values |= {"remap_failed": True, "remapped_uncorrectable": 1}
    repeating_s = since("pcie-replays")
    if repeating_s is not None:
        most = card.faults["pcie-replays"].to
        values["pcie_replays"] = int(most or 1 + repeating_s * REPLAYS_PER_S)
    return values
