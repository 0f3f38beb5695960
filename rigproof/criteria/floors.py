"""The least TFLOP/s that a device must reach, and where that figure comes from.

In this order: the rig's profile; `limits.champion_share` of this GPU's own champion; the SKU's steady rate
times its `floor_share`, scaled to the enforced power limit; none.
"""

from collections.abc import Sequence
from itertools import pairwise

from rigproof.criteria.criterion import Limit
from rigproof.criteria.subjects import DeviceEvidence
from rigproof.profiles.models import PowerPoint, Sku


def floor_of(device: DeviceEvidence, criterion: str, floor_key: str, precision: str) -> Limit | None:
    """The floor, TFLOP/s. `floor_key` is its name in the profile's `floors`, `precision` the SKU's column."""
    own = getattr(device.device.gpu.floors, floor_key)
    if own is not None:
        return Limit(own, device.source_of(f"floors.{floor_key}"))
    best = device.evidence.champions.get(device.identity.uuid, {}).get(criterion)
    share = device.optional_limit("champion_share")
    if best is not None and share is not None:
        return Limit(best * share.value, f"this GPU's champion × {share.value:g} of {share.source}")
    return _sku_floor(device, precision)


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


def power_scale(sku: Sku, limit_share: float) -> float:
    """Steady rate at that share of the default power limit, as a share of the rate at the default.

    Piecewise linear through the SKU's measured points and (1, 1); in proportion below the lowest point
    and where nothing was measured; 1 from the default upwards.
    """
    if limit_share >= 1:
        return 1.0
    points = _with_ends(sku.power_curve)
    for (low_x, low_y), (high_x, high_y) in pairwise(points):
        if limit_share <= high_x:
            return low_y + (high_y - low_y) * (limit_share - low_x) / (high_x - low_x)
    return 1.0


def _with_ends(curve: Sequence[PowerPoint]) -> list[tuple[float, float]]:
    inner = {point.limit_share: point.rate_share for point in curve if point.limit_share < 1}
    return [(0.0, 0.0), *sorted(inner.items()), (1.0, 1.0)]
