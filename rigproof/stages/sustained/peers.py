"""Is one GPU slower than the others of its SKU, even if within its floor?"""

from typing import NoReturn

from rigproof.criteria.criterion import Criterion, Finding, NotApplicable, NotMeasured, pass_or_fail
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.rates import (
    of_sustained,
    peers_of,
    settled,
    sustained_rate,
    with_peers,
    work_of,
)
from rigproof.criteria.evidence.slowed import slowed_by
from rigproof.criteria.evidence.works import beside_peers
from rigproof.profiles.kinds.stages import DUTIES
from rigproof.profiles.tables.limits import LIMITS

STABILITY_WORST_WINDOW_SHARE = LIMITS.key(lambda limits: limits.stability_worst_window_share)
BEST_QUARTER_SHARE = LIMITS.key(lambda limits: limits.best_quarter_share)
PEER_SHARE = LIMITS.key(lambda limits: limits.peer_share)


@Criterion(
    "throughput.peer_outlier",
    title="against its peers",
    unit="%",
    direction="at_least",
    limit="`limits.peer_share`, of the median (of two in the middle the higher one) of the sustained rates "
    "of the other GPUs of the same SKU with the same number of workers, matrix size and precision, scaled "
    "down to this GPU's enforced power limit by the SKU file's curve. In each stage without a figure of its "
    "own, the time that such peers would have taken for this GPU's work, relative to its own, must be "
    "`limits.stability_worst_window_share` for those of its host, and `limits.best_quarter_share` for all. "
    "Promised if the profile has another "
    "such GPU",
    limits=(PEER_SHARE, STABILITY_WORST_WINDOW_SHARE, BEST_QUARTER_SHARE),
    severity="isolate",
    remedy="compare its clock, temperature and power with the others', then swap it with one: if it stays "
    "slow, the card is at fault",
    unmeasured="the device has no sustained rate, or none of its peers has one; not applicable if of "
    "this GPU and its peers only some report a power limit",
    idling="fails",
    stages=("sustained",),
    duties=DUTIES,
    applies_to_cpu=False,
    eligible=with_peers,
    rate=True,
    caused_by_others=slowed_by,
)
def peer_outlier(device: DeviceEvidence) -> Finding:
    """No GPU is a straggler that all others would wait for."""
    behind = _behind(device)
    if behind is not None:
        return behind
    own = sustained_rate(device).tflops
    peers = peers_of(device, "sustained rate", of_sustained)
    if peers is None:
        _raise_without_peers(device)
    if peers.middle <= 0:
        raise NotMeasured("the rate of most of its peers is zero; there is nothing to compare")
    share = 100 * own / peers.middle
    limit = device.limit(PEER_SHARE).times(100)
    detail = f"{own:.1f} TFLOP/s, {peers.in_words} of {device.device.sku_stem} {peers.middle:.1f}"
    good = share >= limit.value
    return pass_or_fail(share, limit, good=good, detail=detail, over=(settled(device)[0][:2],))


def _behind(device: DeviceEvidence) -> Finding | None:
    """The failure of another stage in which it is slower than its peers."""
    keys = {True: STABILITY_WORST_WINDOW_SHARE, False: BEST_QUARTER_SHARE}
    found = [
        (one, limit)
        for of_host, key in keys.items()
        if (limit := device.optional_limit(key)) is not None
        for one in beside_peers(device, of_host=of_host)
        if one.share < limit.value
    ]
    if not found:
        return None
    slowest, limit = min(found, key=lambda one: one[0].share / one[1].value)
    device.possible(slowest.stage)
    detail = f"{slowest.stage}, against {slowest.of}"
    span = device.evidence.whole_window(slowest.stage)
    when = {"from_s": span.from_s, "length_s": span.length_s}
    return pass_or_fail(100 * slowest.share, limit.times(100), good=False, detail=detail, **when)


def _raise_without_peers(device: DeviceEvidence) -> NoReturn:
    """Raise why there are none: no rate, which others report, or another precision, or an unknown limit."""
    work = work_of(device.evidence.loaded, device.device)
    for one in device.evidence.devices:
        if work_of(device.evidence.loaded, one.device) == work and of_sustained(one) is None:
            raise NotMeasured(f"{one.subject}, its peer, has no sustained rate")
    others = f"no other {device.device.sku_stem} with the same work"
    raise NotApplicable(f"{others} has its precision and reports a power limit as it does")
