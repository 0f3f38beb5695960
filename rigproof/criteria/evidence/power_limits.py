"""The power limit in force on a card, as NVML reports it. A laptop's moves with Dynamic Boost."""

import math

import numpy as np

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.sensors import require_possible
from rigproof.criteria.evidence.windows import Window
from rigproof.profiles.planning.floor_basis import power_scale


def enforced_power_w(device: DeviceEvidence) -> float:
    """The one at the start; NotMeasured if NVML does not report it."""
    limit_w = device.identity.power_limit_w
    if limit_w is None or not 0 < limit_w < math.inf:
        raise NotMeasured("NVML does not report the enforced power limit")
    return limit_w


def share_left(device: DeviceEvidence, then_w: float | None) -> float | None:
    """The share that this card's limit leaves of a rate measured under the limit `then_w`; at most 1.

    By the SKU file's curve, which ends at the default limit; else in proportion to the limits, which is less
    than cards keep. None if only one of the limits is known.
    """
    now_w, then_w = _known(device.identity.power_limit_w), _known(then_w)
    if now_w is None or then_w is None:
        return 1.0 if now_w is then_w else None
    default_w = device.identity.power_limit_default_w or then_w
    sku = device.device.sku
    if sku is None or then_w > default_w:
        return min(1.0, now_w / then_w)
    return min(1.0, power_scale(sku, now_w / default_w) / power_scale(sku, then_w / default_w))


def _known(limit_w: float | None) -> float | None:
    return limit_w if limit_w is not None and 0 < limit_w < math.inf else None


def has_no_power_limit(device: DeviceEvidence) -> bool:
    """Whether the card cannot report one."""
    return device.lacks_sensor("power_limit_w")


def enforced_power_within(device: DeviceEvidence, window: Window) -> float | None:
    """W, the median of the limits read in a window, else the one at the start; None if there is none."""
    limit_w = device.identity.power_limit_w
    if not keeps_power_limit(device):
        limit_w = device.cached(("power limit", window), lambda: _median_limit_w(device, window))
    return _known(limit_w)


def keeps_power_limit(device: DeviceEvidence) -> bool:
    """Whether every power limit that was read is the one at the start; NotMeasured if one is impossible."""

    def keeps() -> bool:
        require_possible(device, "power_limit_w", "power limit")
        read = device.readings("power_limit_w")
        return not read or read.lowest == read.highest == device.identity.power_limit_w

    return device.cached("keeps power limit", keeps)


def _median_limit_w(device: DeviceEvidence, window: Window) -> float | None:
    read = device.readings("power_limit_w", window).values
    return float(np.median(read)) if len(read) else device.identity.power_limit_w
