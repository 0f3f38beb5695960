"""How a card's rate falls with its power limit, by its SKU file."""

from collections.abc import Sequence
from itertools import pairwise

from rigproof.profiles.tables.sku import PowerPoint, Sku


def power_scale(sku: Sku, limit_share: float) -> float:
    """Steady rate at that share of the default power limit, as a share of the rate at the default.

    Piecewise linear through the SKU's measured points and (1, 1); proportional below the lowest point
    and if nothing was measured; 1 from the default upwards.
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
