"""The least that a device must reach of a figure, and the evidence that it is based on.

A floor in the rig profile stands alone. Otherwise it is the highest of: `limits.champion_share` of this GPU's
own champion; a share of the SKU file's figure, as large as its evidence allows, scaled to the enforced power
limit; and, if there is no such figure, `limits.floor_unknown_share` of what the architecture does at the
measured clock.

A champion applies to the same work (the labels of its rounds, processes) under the power limit at which it
was measured. Under a lower limit it is scaled down as the SKU file's figure is; under a higher one it says
too little to be a floor.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter

import numpy as np

from rigproof.criteria.criterion import Finding, Limit, NotMeasured, pass_or_fail
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.power_limits import share_left
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.sensors import require_possible
from rigproof.criteria.evidence.windows import Window
from rigproof.profiles.kinds.figures import FigureKind
from rigproof.profiles.planning.floor_basis import (
    FLOOR_MEASURED_SHARE,
    FLOOR_PRINTED_SHARE,
    FLOOR_SIMILAR_SHARE,
    FLOOR_UNKNOWN_SHARE,
    Conditions,
    floor_basis,
    power_scale,
)
from rigproof.profiles.tables.base import LimitKey
from rigproof.profiles.tables.limits import LIMITS
from rigproof.profiles.tables.sku import Sku, tflops
from rigproof.records.champions import ChampionRate, same_power
from rigproof.records.measurements import FigureRate, Labels
from rigproof.records.verdict import Outcome, count_of, figure

CHAMPION_SHARE = LIMITS.key(lambda limits: limits.champion_share)
FLOOR_CARDS = LIMITS.key(lambda limits: limits.floor_cards)
FLOOR_SHARING_SHARE = LIMITS.key(lambda limits: limits.floor_sharing_share)
SAMPLE_COVERAGE_SHARE = LIMITS.key(lambda limits: limits.sample_coverage_share)

FLOORS = (
    "the floor in the rig profile; else the higher one of `limits.champion_share` of this GPU's champion, "
    "scaled down from a higher power limit than the enforced one (docs/champions.md), and of a share of "
    "the SKU file's figure, by its evidence (`limits.floor_measured_share`, `limits.floor_similar_share`, "
    "`limits.floor_printed_share`), scaled to the workers and the enforced power limit; else "
    "`limits.floor_unknown_share` of what the architecture does at the clock that was measured; else none, "
    "and the figure becomes the baseline. More than the silicon can do at its highest clock is not "
    "measured"
)
FLOOR_LIMITS = (
    CHAMPION_SHARE,
    FLOOR_MEASURED_SHARE,
    FLOOR_SIMILAR_SHARE,
    FLOOR_PRINTED_SHARE,
    FLOOR_UNKNOWN_SHARE,
)
SLOW = (
    "close other programs on the card, check its power limit and cooling, and compare with its last good run"
)
NO_CEILING = "the most that this card can do is not known, so no rate is too high"


@dataclass(frozen=True, slots=True)
class NoFloor:
    """There is no floor, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class Measured:
    """The work whose rate is judged: which figure it is, how it is measured, and in which rounds.

    `labels`: those of its rounds that a champion must share. `most`: no device of this kind is faster, if the
    figure is not a rate of arithmetic. `champion_share`: what is asked of a champion, if that is
    less than `limits.champion_share`.
    """

    figure: FigureKind
    here: Conditions
    labels: Labels = field(default_factory=dict)
    rounds: Rounds | None = None  # None: the clock says nothing about its rate
    most: float = math.inf
    champion_share: LimitKey[float | None] | None = None

    @classmethod
    def of(
        cls, device: DeviceEvidence, figure: FigureKind, precision: str, *, workers: int, rounds: Rounds
    ) -> "Measured":
        """Products of the planned size."""
        planned = device.evidence.plan.workers_of(device.subject)
        here = Conditions(precision, planned[0].gemm_size, workers, torch_of(device))
        labels: Labels = {"precision": precision, "size": here.size}
        return cls(figure, here, labels, rounds)

    def rate(self, value: float, floor: Limit | NoFloor | None) -> FigureRate:
        """This rate, as one that can become a champion, with the floor that it was held against."""
        least = floor.value if isinstance(floor, Limit) else None
        return FigureRate(self.figure.name, value, self.figure.unit, self.labels, self.here.workers, least)


def torch_of(device: DeviceEvidence) -> str:
    """The torch version of its workers; empty if none reported one, or if they differ."""
    found = {worker.torch_version for worker in device.workers}
    return found.pop() if len(found) == 1 else ""


def floor_of(device: DeviceEvidence, done: Measured, *others: Limit) -> Limit | NoFloor:
    """The floor, in the figure's unit; `others` are candidates besides the champion's and the SKU file's.

    NotMeasured if a limit or a reading that it is based on is missing.
    """
    own = getattr(device.device.gpu.floors, done.figure.name)
    if own is not None:
        return Limit(own, device.source_of(f"floors.{done.figure.name}"))
    from_file = sku_floor(device, done)
    last = _silicon_floor(device, done) if from_file is None else from_file
    found = (_champion_floor(device, done), last, *others)
    known = [one for one in found if isinstance(one, Limit)]
    if not known and isinstance(last, NoFloor):
        return last
    return max(known, key=attrgetter("value"))


# Champions


def _champion_floor(device: DeviceEvidence, done: Measured) -> Limit | None:
    kept = _champions(device, done)
    share = device.optional_limit(CHAMPION_SHARE)
    if not kept or share is None:
        return None
    own = None if done.champion_share is None else device.optional_limit(done.champion_share)
    if own is not None and own.value < share.value:
        share = own
    now_w = device.identity.power_limit_w
    same = [one for one in kept if not done.figure.scaled or same_power(one.power_limit_w, now_w)]
    if same:
        best = max(same, key=attrgetter("value"))
        return _of_champion(best.value, best, share)
    return _scaled_champion(device, kept, share)


def _champions(device: DeviceEvidence, done: Measured) -> list[ChampionRate]:
    """This GPU's champions for the same work, without rates that it cannot have reached.

    The CPU has none: its rate depends on what else runs on it.
    """
    if device.is_cpu:
        return []
    kept = device.evidence.champions.get(device.identity.uuid, {}).get(done.figure.name, ())
    if not kept:
        return []
    ceiling = device.silicon.ceiling(done.here.precision) if done.figure.counts_work else None
    most = done.most if ceiling is None else ceiling.value
    work = (done.figure.unit, done.labels, done.here.workers)
    return [one for one in kept if (one.unit, one.labels, one.workers) == work and one.value <= most]


def _of_champion(value: float, champion: ChampionRate, share: Limit, note: str = "") -> Limit:
    source = f"this GPU's champion (run {champion.run_id}{note}) × {share.value:g} of {share.source}"
    return Limit(value * share.value, source)


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
    scale = share_left(device, then_w)
    note = f" at {then_w:.0f} W, scaled to {now_w:.0f} W"
    return None if scale is None else _of_champion(champion.value * scale, champion, share, note)


# The SKU file


def sku_floor(device: DeviceEvidence, done: Measured) -> Limit | None:
    """A share of the SKU file's figure, by its evidence; None if the file has none for this work."""
    sku, gpu = device.device.sku, device.identity
    if sku is None:
        return None
    powers_w = (gpu.power_limit_default_w, gpu.power_limit_w)
    key = ("sku floor", device.device.sku_stem, done.figure.name, done.here, *powers_w)
    return device.cached(key, lambda: _sku_floor(device, sku, done))


def _sku_floor(device: DeviceEvidence, sku: Sku, done: Measured) -> Limit | None:
    evidence = floor_basis(sku, done.figure, done.here, int(device.limit(FLOOR_CARDS).value))
    if evidence is None:
        return None
    share = device.limit(evidence.share).value
    source = f"{share:g} of {figure(evidence.figure.value, done.figure.unit)}, {evidence.reason}"
    value = evidence.figure.value * share
    if not done.figure.scaled:
        return Limit(value, f"{source}; {device.sku_file}")
    if evidence.shares_device:
        sharing = device.limit(FLOOR_SHARING_SHARE).value
        value *= sharing
        source += f", × {sharing:g} for {count_of(done.here.workers, 'workers')} on the device"
    default_w = device.identity.power_limit_default_w or sku.power_limit_w
    enforced_w = device.identity.power_limit_w
    if enforced_w is not None and enforced_w < default_w:
        value *= power_scale(sku, enforced_w / default_w)
        source += f", scaled to {enforced_w:.0f} W of {default_w:.0f} W"
    return Limit(value, f"{source}; {device.sku_file}")


# The architecture


def _silicon_floor(device: DeviceEvidence, done: Measured) -> Limit | NoFloor:
    if device.is_cpu or done.rounds is None or not done.figure.architecture:
        return NoFloor("no floor: no figure is known for this work on such a device")
    silicon, precision = device.silicon, done.here.precision
    if silicon.is_vgpu:
        return NoFloor("no floor: this is a vGPU, and its share of the card is not reported")
    fma = silicon.lowest_fma(precision)
    if fma is None:
        which = f"compute capability {silicon.capability}" if silicon.capability else "its architecture"
        return NoFloor(f"no floor: {which} is not known for {precision}")
    if silicon.sms is None:
        raise NotMeasured("no worker reported how many SMs this card has, which its floor is based on")
    share = device.limit(FLOOR_UNKNOWN_SHARE)
    clock_mhz = _median_clock_mhz(device, done.rounds)
    most = tflops(fma[0], silicon.sms, clock_mhz)
    return Limit(
        share.value * most,
        f"{share.value:g} of {figure(most, 'TFLOP/s')}, what {silicon.sms} SMs do at the measured "
        f"{clock_mhz:.0f} MHz ({fma[1]}); {share.source}",
    )


def _median_clock_mhz(device: DeviceEvidence, rounds: Rounds) -> float:
    """The median SM clock while these rounds ran. NotMeasured if it was read too rarely."""
    require_possible(device, "sm_clock_mhz", "SM clock")
    stretches = [Window(*pair) for pair in rounds.unbroken(device.evidence.kinds)]
    found = [one for stretch in stretches for one in device.recorded("sm_clock_mhz", stretch).values.tolist()]
    rate_hz = device.evidence.rate_hz
    due = rate_hz * sum(stretch.length_s for stretch in stretches)
    if not found or len(found) < device.limit(SAMPLE_COVERAGE_SHARE).value * due:
        raise NotMeasured(f"only {len(found)} of the {due:.0f} readings of the SM clock due under load")
    return float(np.median(found))


def against(
    device: DeviceEvidence, rate: float, measured: Measured, *others: Limit, over: Rounds | None = None
) -> Finding:
    """Compare a rate with its floor; without one it becomes the baseline, and the detail says why.

    `others` are candidates for the floor besides those of champion and SKU file. `over`: the rounds whose
    mean rate it is.
    """
    floor = floor_of(device, measured, *others)
    bounded = device.is_cpu or not measured.figure.counts_work
    unbounded = not bounded and device.silicon.ceiling(measured.here.precision) is None
    notes = [NO_CEILING] if unbounded else []
    host_paced = measured.rounds is not None and measured.rounds.host_paced
    rates = (measured.rate(rate, floor)._replace(host_paced=host_paced),)
    if isinstance(floor, NoFloor):
        baseline = "its host set the pace, so this is no baseline" if host_paced else "this is its baseline"
        detail = "; ".join([floor.why, baseline, *notes])
        return Finding(Outcome.NO_LIMIT, rate, detail=detail, rates=rates)
    good = rate >= floor.value
    detail = "; ".join(filter(None, ["" if good else device.cause(), *notes]))
    spans = () if good or over is None else over.unbroken(device.evidence.kinds)
    return pass_or_fail(rate, floor, good=good, detail=detail, rates=rates, over=spans)
