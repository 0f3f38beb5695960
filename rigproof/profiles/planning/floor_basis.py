"""How tight a floor may be: the basis of the SKU file's figure, and how a rate falls with the power limit."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rigproof.profiles.kinds.figures import FigureKind
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.planning.planning import device_plan
from rigproof.profiles.tables.base import LimitKey
from rigproof.profiles.tables.limits import LIMITS
from rigproof.profiles.tables.sku import Figure, PowerPoint, Sku

FLOOR_MEASURED_SHARE = LIMITS.key(lambda limits: limits.floor_measured_share)
FLOOR_SIMILAR_SHARE = LIMITS.key(lambda limits: limits.floor_similar_share)
FLOOR_UNKNOWN_SHARE = LIMITS.key(lambda limits: limits.floor_unknown_share)
FLOOR_PRINTED_SHARE = LIMITS.key(lambda limits: limits.floor_printed_share)


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of a measurement here. `torch` is None before a run, when it is not known yet."""

    precision: str
    size: int  # M = N = K, or the trained model's width
    workers: int
    torch: str | None  # with or without the part after major.minor
    batch: int | None = None


@dataclass(frozen=True, slots=True)
class FloorBasis:
    """A figure of the SKU file that a floor is made from, and the reason in words.

    `share` is the limit that says which share of the figure is the floor.
    """

    figure: Figure
    share: LimitKey[float | None]
    reason: str
    shares_device: bool  # its workers share the device, and the figure is one worker's


def floor_basis(sku: Sku, kind: FigureKind, here: Conditions, cards_needed: int) -> FloorBasis | None:
    """The SKU file's figure of this kind, or what stands in for it; None if neither gives a floor here.

    A figure that was measured on fewer than `cards_needed` cards does not count as measured well.
    """
    figure = sku.steady.figure(kind.name)
    stands_in = bool(kind.stand_in) and (figure is None or figure.precision not in (None, here.precision))
    if stands_in:
        figure = sku.steady.of_products(here.precision)
    if figure is None:
        return None
    smaller = here.size < (figure.size or 0) or (here.batch or 0) < (figure.batch or 0)
    if kind.larger == "no_floor" and smaller:
        return None
    shares_device = here.workers > (figure.workers or 1)
    if figure.cards is None:
        return FloorBasis(figure, FLOOR_PRINTED_SHARE, "printed or reached by others", shares_device)
    if kind.larger == "printed" and smaller:
        return FloorBasis(figure, FLOOR_PRINTED_SHARE, "measured with a larger model or batch", shares_device)
    reason = f"measured on {figure.cards} card{'' if figure.cards == 1 else 's'}"
    differs = differences(figure, here)
    if stands_in:
        differs.insert(0, kind.stand_in)
    if differs:
        reason += f" ({', '.join(differs)})"
    well = figure.cards >= cards_needed and not differs and here.workers == 1
    return FloorBasis(figure, FLOOR_MEASURED_SHARE if well else FLOOR_SIMILAR_SHARE, reason, shares_device)


def planned_basis(kind: FigureKind, device: PromisedDevice, loaded: LoadedRig) -> FloorBasis | None:
    """The basis of a floor before a run, with the torch and the trained model of the figure's measurement."""
    plan, cards = device_plan(loaded, device), device.limits.floor_cards
    if device.sku is None or cards is None:
        return None
    stated = device.sku.steady.figure(kind.name)
    size = plan.gemm_size
    if kind.own_size:
        if stated is None:
            return None
        size = stated.size or size
    workers = plan.workers if loaded.kinds.of_figure(kind).all_workers else 1
    batch = None if stated is None else stated.batch
    return floor_basis(device.sku, kind, Conditions(kind.precision, size, workers, None, batch), cards)


def major_minor(version: str) -> str:
    """The first two numbers of a version: `2.11` of `2.11.0+cu130`."""
    return ".".join(version.split("+", maxsplit=1)[0].split(".")[:2])


def differences(figure: Figure, here: Conditions) -> list[str]:
    """The differences from the figure's own measurement, in words."""
    found = []
    if figure.size != here.size:
        found.append(f"at size {figure.size}, here {here.size}")
    if figure.batch not in (None, here.batch):
        found.append(f"at batch {figure.batch}, here {here.batch}")
    if figure.workers != here.workers:
        found.append(f"with {figure.workers} worker{'' if figure.workers == 1 else 's'}, here {here.workers}")
    if here.torch is not None and figure.torch != major_minor(here.torch):
        found.append(f"with torch {figure.torch}, here {major_minor(here.torch) or 'unknown'}")
    return found


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
