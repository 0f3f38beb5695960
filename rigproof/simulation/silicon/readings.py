"""NVML's readings of a simulated card at a moment, broken sensors included, and those of its PCIe link."""

from collections.abc import Sequence
from typing import Any

from rigproof.records.samples import PcieErrors
from rigproof.simulation.faults.injected import StageWindow
from rigproof.simulation.faults.kinds import SENSORS
from rigproof.simulation.nvml.model import SimulatedGpu, SimulatedLink, SimulatedProcess
from rigproof.simulation.silicon.card import CardState, SimulatedCard
from rigproof.simulation.silicon.cooling import HW_THERMAL
from rigproof.telemetry.nvml.protocol import Brand, ComputeMode, FabricState

FOREIGN_PID = 4711
VBIOS, OTHER_VBIOS = "96.00.A5.00.1A", "96.00.A5.00.03"
IDLE_MEMORY_MIB = 1.0  # of a card without a context
# HBM's readings vary: 53 to 58 °C with a core at 63 to 64, at constant load (two H200, level standard).
MEMORY_VARIES_C, MOST_VARIATION_C = 50.0, 2.0
CLOCK_STEP_MHZ = 15  # NVIDIA's SM clocks are multiples of it
FAN_LEAST, FAN_FROM_C, FAN_PER_C = 30, 50.0, 1.6  # a fan's curve: percent, and from which temperature on
CORRECTED_PER_S = 2.0  # of the fault ecc-corrected-rate
REPLAYS_PER_S = 20.0  # of the faults pcie-replays and pcie-errors
HOT_SPOT_C = 2  # beyond the slowdown: of the fault hot-spot
SPARE_BANKS = 3072  # with all their spare rows: read from an H200
HIDDEN_S = 2.0  # counted by the fault hidden-throttle
REPLAYED = 3  # packets of an NVLink: of the faults nvlink-replays and nvlink-crc
# What NVML reports from the beginning of a fault on.
DEFECTS: dict[str, dict[str, Any]] = {
    "row-remap-pending": {"remap_pending": True, "remapped_uncorrectable": 1},
    "row-remap-failed": {"remap_failed": True, "remapped_uncorrectable": 1},
    "spare-rows-used": {"remap_spares": (SPARE_BANKS - 1, 0, 0, 0, 1)},
    "sram-errors": {"sram_threshold_exceeded": True},
    "repair-pending": {"channel_repair_pending": True},
}
# The fields of SimulatedGpu behind each named sensor.
FIELDS = {
    "core_temperature": ("core_temperature_c",),
    "memory_temperature": ("memory_temperature_c",),
    "power": ("power_w", "power_average_w", "power_usage_w"),
    "sm_clock": ("sm_clock_mhz",),
    "utilization": ("utilization_percent",),
    "clock_event_reasons": ("clock_event_reasons",),
}


def idle_gpu(card: SimulatedCard, name: str, *, foreign_mib: float) -> SimulatedGpu:
    """The card as NVML lists it before any load; what its driver does not support is None."""
    missing = card.sku.unsupported_sensors
    generation = card.sku.pcie_generation or OTHER_GENERATION
    major, _, minor = (card.sku.compute_capability or "8.0").partition(".")
    has_ecc, has_remap = "ecc" not in missing, "row_remap" not in missing
    counts_ecc = has_ecc and "ecc-off" not in card.faults
    gpu = SimulatedGpu(
        uuid=card.uuid,
        name=name,
        brand=Brand.GEFORCE_RTX if "GeForce" in name else Brand.NVIDIA,
        pci_bus_id=f"00000000:{card.index + 1:02X}:00.0",
        compute_capability=(int(major), int(minor or 0)),
        memory_total_mib=card.memory_mib,
        memory_used_mib=IDLE_MEMORY_MIB + foreign_mib,
        power_limit_w=card.power_limit_w,
        power_limit_default_w=card.default_w,
        sm_clock_max_mhz=int(card.clock_max_mhz),
        temperature_gpu_max_c=int(card.cooling.hot_c),
        temperature_slowdown_c=int(card.cooling.slowdown_c),
        temperature_shutdown_c=int(card.cooling.shutdown_c),
        slowdown_margin_c=_slowdown_margin_c(card),
        temperature_memory_max_c=None if "memory_temperature" in missing else int(card.cooling.memory_hot_c),
        pcie_generation_max=int(generation),
        pcie_generation=IDLE_GENERATION,
        pcie_width=WIDTH,
        pcie_width_max=WIDTH,
        compute_mode=ComputeMode.PROHIBITED if "compute-prohibited" in card.faults else ComputeMode.DEFAULT,
        persistence="persistence-off" not in card.faults,
        mig_enabled=True if "mig-on" in card.faults else None,
        vbios_version=OTHER_VBIOS if "vbios-differs" in card.faults else VBIOS,
        ecc_enabled=counts_ecc if has_ecc else None,
        ecc_corrected=0 if counts_ecc else None,
        ecc_uncorrected=0 if counts_ecc else None,
        remapped_correctable=0 if has_remap else None,
        remap_spares=(SPARE_BANKS, 0, 0, 0, 0) if has_remap else None,
        sram_threshold_exceeded=False if has_ecc else None,
        channel_repair_pending=False if has_ecc else None,
        inforom_valid="inforom-corrupt" not in card.faults,
        nvlinks=[SimulatedLink(active="nvlink-down" not in card.faults) for _ in range(nvlinks_of(card))]
        or None,
        fabric_state=_fabric_state(card, int(major)),
        fan_percent=FAN_LEAST if "GeForce" in name else None,  # the chassis cools the others
    )
    if foreign_mib:
        gpu.processes = [SimulatedProcess(FOREIGN_PID, foreign_mib)]
    return gpu


def nvlinks_of(card: SimulatedCard) -> int:
    """The NVLinks of the card: as many as its rig states, else its SKU file."""
    stated = card.limits.nvlinks
    return (card.sku.nvlinks or 0) if stated is None else stated


def _slowdown_margin_c(card: SimulatedCard) -> int | None:
    stated = card.sku.temperature.slowdown_margin_c
    return None if stated is None else int(stated)


def _fabric_state(card: SimulatedCard, major: int) -> int | None:
    """NVML reports a fabric from Hopper on."""
    if card.sku.nvlinks is None or major < 9:
        return None
    return FabricState.IN_PROGRESS if "fabric-not-started" in card.faults else FabricState.COMPLETED


def show(
    card: SimulatedCard, gpu: SimulatedGpu, t_s: float, stages: Sequence[StageWindow], held_mib: float
) -> CardState:
    """Set NVML's `gpu` to the card's state at `t_s`; `held_mib` is the memory that our workers hold.

    The driver's list of processes may or may not include them.
    """
    state = card.at(t_s, stages)
    awake = state.stage is not None and card.acting("gpu-idle", t_s, stages) is None
    generation, width = link_of(card, t_s, stages)
    if not awake:
        generation = min(generation, IDLE_GENERATION)
    listed_mib = sum(process.used_mib or 0.0 for process in gpu.processes or ())
    values: dict[str, Any] = {
        **_sensed(card, state),
        "energy_j": state.energy_at(t_s),
        "fan_percent": None if gpu.fan_percent is None else _fan_percent(state.core_c),
        "memory_clock_mhz": gpu.memory_clock_max_mhz if awake else 405,
        "memory_used_mib": IDLE_MEMORY_MIB + max(held_mib, listed_mib),
        "pcie_generation": generation,
        "pcie_width": width,
        **_counters(card, t_s, stages),
    }
    if gpu.slowdown_margin_c is not None:
        hot = card.acting("hot-spot", t_s, stages)
        margin_c = round(card.cooling.hot_c - state.core_c)
        if hot is not None and state.busy:
            margin_c = gpu.slowdown_margin_c - HOT_SPOT_C if hot.to is None else -round(hot.to)
        values["thermal_margin_c"] = margin_c
    if card.faults:
        values |= _misread(card, gpu, values, t_s, stages)
    for sensor, value in values.items():
        setattr(gpu, sensor, value)
    _count_reasons(card, gpu, state, t_s, stages)
    if card.begun("gpu-lost", t_s, stages):
        gpu.lost = True
    if card.faults:
        _hurt_links(card, gpu, t_s, stages)
    return state


def _count_reasons(
    card: SimulatedCard, gpu: SimulatedGpu, state: CardState, t_s: float, stages: Sequence[StageWindow]
) -> None:
    """Add the time since the last reading to each reason that holds now."""
    passed_s = max(0.0, t_s - gpu.shown_s)
    gpu.shown_s = t_s
    for reason in (0x4, 0x10, 0x20, 0x40, 0x80):
        if state.reasons & reason:
            gpu.slowed_s[reason] = gpu.slowed_s.get(reason, 0.0) + passed_s
    hidden = card.begun("hidden-throttle", t_s, stages)
    if hidden is not None:
        gpu.slowed_s[HW_THERMAL] = hidden.to or HIDDEN_S


def _hurt_links(card: SimulatedCard, gpu: SimulatedGpu, t_s: float, stages: Sequence[StageWindow]) -> None:
    """What has happened to the NVLinks by then."""
    down, replays, crc, sick = (
        card.begun(name, t_s, stages)
        for name in ("nvlink-inactive", "nvlink-replays", "nvlink-crc", "fabric-unhealthy")
    )
    links = gpu.nvlinks or []
    if down is not None:
        links[int(down.to or 0) % len(links)].active = False
    if replays is not None:
        links[0].replays = int(replays.to or REPLAYED)
    if crc is not None:
        links[0].crc_errors = REPLAYED
    if sick is not None:
        gpu.fabric_health = int(sick.to or 0)


def _fan_percent(core_c: float) -> int:
    return round(max(FAN_LEAST, min(100.0, FAN_LEAST + FAN_PER_C * (core_c - FAN_FROM_C))))


def _sensed(card: SimulatedCard, state: CardState) -> dict[str, Any]:
    """The readings of healthy sensors."""
    has_memory = "memory_temperature" not in card.sku.unsupported_sensors
    variation_c = MEMORY_VARIES_C * (state.power_w - state.average_w) / card.default_w
    memory_c = state.memory_c + max(-MOST_VARIATION_C, min(MOST_VARIATION_C, variation_c))
    return {
        "core_temperature_c": round(state.core_c),
        "memory_temperature_c": round(memory_c) if has_memory else None,
        "power_w": state.power_w,
        "power_average_w": state.average_w,
        "power_usage_w": state.average_w,
        "sm_clock_mhz": CLOCK_STEP_MHZ * round(state.clock_mhz / CLOCK_STEP_MHZ),
        "utilization_percent": round(100 * state.busy),
        "clock_event_reasons": state.reasons,
    }


def _misread(
    card: SimulatedCard, gpu: SimulatedGpu, values: dict[str, Any], t_s: float, stages: Sequence[StageWindow]
) -> dict[str, Any]:
    """The readings of broken sensors instead."""
    misread: dict[str, Any] = {}
    for name in ("sensor-missing", "sensor-frozen", "sensor-shifted", "sensor-impossible"):
        lookup = card.begun if name == "sensor-frozen" else card.acting  # a frozen sensor stays frozen
        fault = lookup(name, t_s, stages)
        for sensor in FIELDS[fault.field or ""] if fault is not None else ():
            assert fault is not None
            if name == "sensor-missing":
                misread[sensor] = None
            elif name == "sensor-frozen":
                misread[sensor] = getattr(gpu, sensor)
            elif name == "sensor-impossible":
                value = fault.to or SENSORS[fault.field or ""].impossible or 0.0
                misread[sensor] = value if fault.field == "power" else round(value)
            elif fault.late_s is not None:
                misread[sensor] = _sensed(card, card.at(max(0.0, t_s - fault.late_s), stages))[sensor]
            else:
                misread[sensor] = values[sensor] * (1 - (fault.by or 0.0))
    return misread


def _counters(card: SimulatedCard, t_s: float, stages: Sequence[StageWindow]) -> dict[str, Any]:
    """Counters, which rise from the beginning of their fault on, and never fall."""
    values: dict[str, Any] = {}
    if not card.faults:
        return values

    def since(name: str) -> float | None:
        fault = card.begun(name, t_s, stages)
        window = fault.window(stages) if fault is not None else None
        return None if window is None else t_s - window[0]

    if since("ecc-uncorrected") is not None:
        values["ecc_uncorrected"] = 1
    climbing_s = since("ecc-corrected-rate")
    if climbing_s is not None:
        values["ecc_corrected"] = 1 + int(climbing_s * CORRECTED_PER_S)
    for name, shown in DEFECTS.items():
        if since(name) is not None:
            values |= shown
    if since("recovery-wanted") is not None:
        values["recovery_action"] = int(card.faults["recovery-wanted"].to or 1)
    for name in ("pcie-replays", "pcie-errors"):
        repeating_s = since(name)
        if repeating_s is not None:
            most = card.faults[name].to if name == "pcie-replays" else None
            values["pcie_replays"] = int(most or 1 + repeating_s * REPLAYS_PER_S)
    return values


IDLE_GENERATION = 1  # a link without traffic slows down to save power
WIDTH, NARROW = 16, 4  # lanes; under the fault pcie-narrow
OTHER_GENERATION = 4  # of a card whose SKU file states none
CORRECTABLE_PER_S = 100.0  # of the fault pcie-errors: half a second has more than a minute may have


def link_of(card: SimulatedCard, t_s: float, stages: Sequence[StageWindow]) -> tuple[int, int]:
    """Generation and width of the link under load."""
    generation, width = int(card.sku.pcie_generation or OTHER_GENERATION), WIDTH
    degraded = card.acting("pcie-degraded", t_s, stages)
    narrow = card.acting("pcie-narrow", t_s, stages)
    if degraded is not None:
        generation = int(degraded.to or 1)
    if narrow is not None:
        width = int(narrow.to or NARROW)
    return generation, width


def pcie_errors(card: SimulatedCard, t_s: float, subject: str, stages: Sequence[StageWindow]) -> PcieErrors:
    """The errors since boot, which only grow; the port sees those that the card reports, and as many."""
    climbing = card.begun("pcie-errors", t_s, stages)
    window = climbing.window(stages) if climbing is not None else None
    correctable = 0 if window is None else 1 + int(CORRECTABLE_PER_S * (t_s - window[0]))
    lost = int(card.begun("pcie-uncorrected", t_s, stages) is not None)
    port = f"0000:00:{card.index + 1:02x}.0"
    return PcieErrors(t_s, subject, 0, lost, correctable, port, 0, 0, correctable)
