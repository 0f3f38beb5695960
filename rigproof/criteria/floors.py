"""The least TFLOP/s that a device must reach, and where that figure comes from.

In this order: the rig's profile; `limits.champion_share` of this GPU's own champion; the SKU's steady rate
times its `floor_share`, scaled to the enforced power limit; none.

A champion holds for the work that it did (precision, size, processes) and under the power limit that it was
measured with. Under a lower one it is scaled down as the SKU
file is, and then never lowers that file's floor; under a higher one it says too little to be a floor.
"""

from collections.abc import Sequence
from operator import attrgetter, itemgetter

from rigproof.criteria.criterion import Limit
from rigproof.criteria.subjects import DeviceEvidence
from rigproof.profiles.power_curve import power_scale
from rigproof.records.champions import ChampionRate, same_power

ONE_WORKER = "throughput.gemm_"  # of each device, in the gemm stage


def floor_of(device: DeviceEvidence, criterion: str, floor_key: str, precision: str) -> Limit | None:
    """The floor, TFLOP/s. `floor_key` is its name in the profile's `floors`, `precision` the SKU's column."""
    own = getattr(device.device.gpu.floors, floor_key)
    if own is not None:
        return Limit(own, device.source_of(f"floors.{floor_key}"))
    kept = _champions(device, criterion, precision)
    share = device.optional_limit("champion_share")
    from_sku = _sku_floor(device, precision)
    if not kept or share is None:
        return from_sku
    same = [one for one in kept if same_power(one.power_limit_w, device.identity.power_limit_w)]
    if same:
        best = max(same, key=attrgetter("tflops"))
        return _of_champion(best.tflops, best, share)
    scaled = _scaled_champion(device, kept, share)
    return max((one for one in (scaled, from_sku) if one is not None), key=attrgetter("value"), default=None)


def _champions(device: DeviceEvidence, criterion: str, precision: str) -> list[ChampionRate]:
    """Those of this GPU that did the same work. The CPU has none: its rate follows who else runs on it."""
    if device.is_cpu:
        return []
    planned = device.evidence.plan.workers_of(device.subject)
    work = (precision, planned[0].gemm_size, 1 if criterion.startswith(ONE_WORKER) else len(planned))
    kept = device.evidence.champions.get(device.identity.uuid, {}).get(criterion, ())
    return [one for one in kept if (one.precision, one.size, one.workers) == work]


def _of_champion(tflops: float, champion: ChampionRate, share: Limit, note: str = "") -> Limit:
    source = f"this GPU's champion (run {champion.run_id}{note}) × {share.value:g} of {share.source}"
    return Limit(tflops * share.value, source)


def _scaled_champion(device: DeviceEvidence, kept: Sequence[ChampionRate], share: Limit) -> Limit | None:
    """The champion of the nearest higher power limit, scaled to the enforced one."""
    now_w = device.identity.power_limit_w
    higher = [
        (one.power_limit_w, one)
        for one in kept
        if now_w is not None and one.power_limit_w is not None and one.power_limit_w > now_w
    ]
    if now_w is None or not higher:
        return None
    then_w, champion = min(higher, key=itemgetter(0))
    default_w = device.identity.power_limit_default_w or then_w
    scale = now_w / then_w
    if device.device.sku is not None and then_w <= default_w:  # above the default no curve tells the rate
        scale = power_scale(device.device.sku, now_w / default_w) / power_scale(
            device.device.sku, then_w / default_w
        )
    note = f" at {then_w:.0f} W, scaled to {now_w:.0f} W"
    return _of_champion(champion.tflops * min(1.0, scale), champion, share, note)


def _sku_floor(device: DeviceEvidence, precision: str) -> Limit | None:
    sku = device.device.sku
    steady = getattr(sku.steady_tflops, precision, None) if sku is not None else None
    if sku is None or steady is None:
        return None
    default_w = device.identity.power_limit_default_w or sku.power_limit_w
    enforced_w = device.identity.power_limit_w
    if enforced_w is None or enforced_w >= default_w:
        return Limit(steady * sku.floor_share, device.sku_file)
    share = power_scale(sku, enforced_w / default_w)
    return Limit(
        steady * sku.floor_share * share,
        f"{device.sku_file}, scaled to {enforced_w:.0f} W of {default_w:.0f} W",
    )
