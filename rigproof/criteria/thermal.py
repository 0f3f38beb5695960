"""Does it stay cool enough, and does it run without being slowed down for heat?"""

from rigproof.criteria.criterion import Finding, Limit, NotMeasured, compared, criterion
from rigproof.criteria.reasons import THROTTLE, names_of
from rigproof.criteria.sensors import moving_readings
from rigproof.criteria.series import Reading, readings
from rigproof.criteria.subjects import DeviceEvidence
from rigproof.profiles.models import TemperatureLimits
from rigproof.records.verdict import Outcome


@criterion(
    "thermal.core_temperature",
    scope="device",
    unit="°C",
    limit="`limits.core_temperature_c` of the rig; else NVML's GPU_MAX, else its SLOWDOWN; else the SKU "
    "file's",
    remedy="clean the heatsink or raise the fan curve",
    unmeasured="too few readings under load, or a frozen sensor",
    faults=("overheat",),
    applies_to_cpu=False,
    stages=("sustained",),
)
def core_temperature(device: DeviceEvidence) -> Finding:
    """The GPU's core never gets hotter than its limit, at any moment of the run."""
    identity, documented = device.identity, _documented(device)
    limits = [
        device.optional_limit("core_temperature_c"),
        _reported(identity.temperature_gpu_max_c, "NVML GPU_MAX"),
        _reported(identity.temperature_slowdown_c, "NVML SLOWDOWN"),
        _reported(documented.max_operating_c, device.sku_file),
        _reported(documented.slowdown_c, device.sku_file),
    ]
    return _hottest(device, "core_temperature_c", "core temperature", limits)


@criterion(
    "thermal.memory_temperature",
    scope="device",
    unit="°C",
    limit="`limits.memory_temperature_c` of the rig; else NVML's MEM_MAX; else the SKU file's",
    remedy="check airflow over the card's backplate; dried-out thermal pads on its memory are the usual "
    "cause",
    unmeasured="too few readings under load, or a frozen sensor; not required on a card whose driver "
    "reports none",
    faults=("memory-overheat",),
    applies_to_cpu=False,
    stages=("sustained",),
)
def memory_temperature(device: DeviceEvidence) -> Finding:
    """The GPU's memory never gets hotter than its limit, at any moment of the run."""
    if _has_no_memory_sensor(device):
        raise NotMeasured("this card's driver reports no memory temperature", required=False)
    limits = [
        device.optional_limit("memory_temperature_c"),
        _reported(device.identity.temperature_memory_max_c, "NVML MEM_MAX"),
        _reported(_documented(device).memory_max_c, device.sku_file),
    ]
    return _hottest(device, "memory_temperature_c", "memory temperature", limits)


def _has_no_memory_sensor(device: DeviceEvidence) -> bool:
    """It never answered, and the SKU file says so; or there is no SKU file and NVML knows no limit."""
    samples = device.samples
    if not samples or any(sample.memory_temperature_c is not None for sample in samples):
        return False
    if device.device.sku is not None:
        return device.lacks_sensor("memory_temperature_c")
    return device.identity.temperature_memory_max_c is None


def _documented(device: DeviceEvidence) -> TemperatureLimits:
    """The SKU file's degrees; none where there is no SKU file."""
    sku = device.device.sku
    return TemperatureLimits() if sku is None else sku.temperature


def _reported(value_c: float | None, source: str) -> Limit | None:
    """A limit ≤ 0 is no limit."""
    return Limit(value_c, source) if value_c is not None and value_c > 0 else None


def _hottest(device: DeviceEvidence, field: str, what: str, limits: list[Limit | None]) -> Finding:
    """Compare the highest reading of the whole run with the first limit that there is."""
    limit = next((one for one in limits if one is not None), None)
    pairs = readings(device.samples, field)
    hottest_c = max((value for _, value in pairs), default=None)
    if limit is not None and hottest_c is not None and hottest_c > limit.value:
        over = [pair for pair in pairs if pair[1] > limit.value]
        return compared(
            hottest_c, limit, good=False, from_s=over[0][0], length_s=_time_over_s(device, pairs, limit.value)
        )
    moving_readings(device, device.evidence.loaded_window("sustained"), field, what)
    assert hottest_c is not None
    if limit is None:
        return Finding(Outcome.NO_LIMIT, hottest_c, detail=f"no limit of the {what} is known")
    return compared(hottest_c, limit, good=True)


def _time_over_s(device: DeviceEvidence, pairs: list[Reading], limit_c: float) -> float:
    """How long it was over the limit: each reading stands until the next one, or for one step of the grid."""
    step_s = 1 / (device.evidence.loaded.rig.sampling.rate_hz or 1.0)
    ends = [t_s for t_s, _ in pairs[1:]] + [pairs[-1][0] + step_s]
    return sum(
        min(end_s - t_s, 2 * step_s)
        for (t_s, value), end_s in zip(pairs, ends, strict=True)
        if value > limit_c
    )


@criterion(
    "thermal.throttle",
    scope="device",
    unit="%",
    limit="`limits.throttle_share` of the samples under load; power cap (0x4) and idle (0x1) do not count",
    remedy="cool the card if heat is the reason; check power plugs and power supply if it is the power brake",
    unmeasured="clock-event reasons were not read often enough under load",
    faults=("thermal-throttle", "power-brake"),
    applies_to_cpu=False,
    stages=("sustained",),
)
def throttle(device: DeviceEvidence) -> Finding:
    """The driver does not slow the GPU down for heat, for a hardware fault or for the power supply."""
    window = device.evidence.loaded_window("sustained")
    samples = device.loaded_samples(window)
    known = [sample for sample in samples if sample.clock_event_reasons is not None]
    slowed = [sample for sample in known if (sample.clock_event_reasons or 0) & THROTTLE]
    limit = device.limit("throttle_share").times(100)
    share = 100 * len(slowed) / len(known) if known else 0.0
    if share > limit.value:
        seen = 0
        for sample in slowed:
            seen |= (sample.clock_event_reasons or 0) & THROTTLE
        detail = f"{names_of(seen)} in {len(slowed)} of {len(known)} samples"
        return compared(share, limit, good=False, detail=detail, from_s=slowed[0].t_s)
    device.loaded_readings(window, "clock_event_reasons", "clock-event reason")
    return compared(share, limit, good=True)
