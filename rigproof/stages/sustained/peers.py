"""Is one GPU slower than the others of its SKU, even if within its floor?"""

from rigproof.criteria.criterion import Finding, NotApplicable, NotMeasured, compared, criterion
from rigproof.criteria.effects import BROKEN, WORKER_LOST, WRONG_RESULTS, Also
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.rates import (
    PeerGroup,
    median_of_others,
    peer_group,
    rates_by_group,
    sustained_rate,
    with_peers,
    work_of,
)
from rigproof.criteria.evidence.strangers import slowed_by
from rigproof.stages.sustained.faults import NO_RATE, SLOW_CARD


@criterion(
    "throughput.peer_outlier",
    title="against its peers",
    scope="device",
    unit="%",
    direction="at_least",
    limit="`limits.peer_share`, of the median of the sustained rates of the other GPUs of the same SKU with "
    "the same number of workers, matrix size, precision and enforced power limit. Promised if the "
    "profile has another such GPU",
    severity="isolate",
    remedy="compare its clock, temperature and power with the others', then swap it with one: if it stays "
    "slow, the card is at fault",
    unmeasured="the device has no sustained rate, or none of its peers has one; not applicable if no peer "
    "has its power limit",
    also=Also(
        fails=(*SLOW_CARD, "clock-locked", *BROKEN, *WORKER_LOST, *WRONG_RESULTS),
        unmeasured=(*NO_RATE, "stranger-computes", "stranger-computes:after=5%"),
    ),
    stages=("sustained",),
    applies_to_cpu=False,
    among=with_peers,
    rate=True,
    explained=slowed_by,
)
def peer_outlier(device: DeviceEvidence) -> Finding:
    """No GPU is a straggler that all others would wait for."""
    own = sustained_rate(device).tflops
    group = peer_group(device)
    assert group is not None  # a device that has a rate was found, and a promised one has work to compare
    rates = rates_by_group(device.evidence)[group]
    if len(rates) < 2:
        _raise_without_peers(device, group)
    middle = median_of_others(rates, own)
    if middle <= 0:
        raise NotMeasured("the rate of most of its peers is zero; there is nothing to compare")
    share = 100 * own / middle
    limit = device.limit("peer_share").times(100)
    others = "the other one" if len(rates) == 2 else f"the median of {len(rates) - 1} others"
    detail = f"{own:.1f} TFLOP/s, {others} of {device.device.sku_stem} {middle:.1f}"
    return compared(share, limit, good=share >= limit.value, detail=detail)


def _raise_without_peers(device: DeviceEvidence, group: PeerGroup) -> None:
    """Raise why there are none: no rate, which others report, or other power limits, which are intended."""
    work = work_of(device.evidence.loaded, device.device)
    for one in device.evidence.devices:
        if work_of(device.evidence.loaded, one.device) == work and peer_group(one) is None:
            raise NotMeasured(f"{one.subject}, its peer, has no sustained rate")
    others = f"no other {device.device.sku_stem} with the same work"
    if any(other != group and other[0] == group[0] for other in rates_by_group(device.evidence)):
        raise NotApplicable(f"{others} has its power limit and precision")
    raise NotMeasured(f"{others} has a sustained rate")
