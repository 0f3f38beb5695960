"""Is a device's own memory as fast as its data sheet says, or as that of its peers?"""

import math
from collections.abc import Hashable, Iterator, Mapping

from rigproof.criteria.criterion import Criterion, Finding, Limit, NotMeasured, pass_or_fail
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.floors import CHAMPION_SHARE, Measured, floor_of, torch_of
from rigproof.criteria.evidence.rates import peers_of
from rigproof.criteria.evidence.rounds import FEWEST_ROUNDS, Rounds
from rigproof.criteria.evidence.slowed import slowed_by
from rigproof.profiles.planning.floor_basis import FLOOR_MEASURED_SHARE, FLOOR_SIMILAR_SHARE, Conditions
from rigproof.profiles.planning.planning import MIB_PER_GIB
from rigproof.profiles.tables.limits import LIMITS
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, count_of, figure
from rigproof.stages.bandwidth.stage import COPY, FIGURES, KIND, STAGE
from rigproof.stages.tables import StageTable, rates

FLOOR_PRINTED_SHARE = LIMITS.key(lambda limits: limits.floor_printed_share)
PEER_SHARE = LIMITS.key(lambda limits: limits.peer_share)

UNIT = "GB/s"


@Criterion(
    "memory.bandwidth",
    title="memory bandwidth",
    unit=UNIT,
    direction="at_least",
    limit="for each operation the floor in the rig profile; else the highest of `limits.champion_share` of "
    "this GPU's champion (docs/champions.md), of a share of the SKU file's figure, by its evidence "
    "(`limits.floor_measured_share`, `limits.floor_similar_share`), both scaled to the enforced power "
    "limit, and of `limits.peer_share` of the median of the other cards of its model in the run, with as "
    "much memory and ECC as it has, scaled down in the same way; for copies also of "
    "`limits.floor_printed_share` of the printed bandwidth; else none. The operation that is lowest relative "
    "to its floor is shown. None for the CPU as the device, whose memory everything on the host uses",
    limits=(CHAMPION_SHARE, FLOOR_MEASURED_SHARE, FLOOR_SIMILAR_SHARE, PEER_SHARE, FLOOR_PRINTED_SHARE),
    severity="isolate",
    remedy="close other programs on the card, check its memory clock (`nvidia-smi -q -d CLOCK`); if it stays "
    "slow, claim the warranty",
    unmeasured="too few verified rounds of an operation, or a rate above `limits.ceiling_share` of the "
    "printed bandwidth",
    idling="not measured",
    figures=tuple(FIGURES.values()),
    stages=(STAGE,),
    rate=True,
    caused_by_others=slowed_by,
)
def bandwidth(device: DeviceEvidence) -> Finding:
    """Verified writes, reads, copies and triads in the device's own memory.

    The rate is bytes read and written over time by the device's own clock, without the slowest tenth of the
    rounds.
    """
    rounds = {operation: operation_rounds(device, operation) for operation in FIGURES}
    rates = {operation: own.rate() for operation, own in rounds.items()}
    detail = ", ".join(f"{operation} {figure(rate, UNIT)}" for operation, rate in rates.items())
    if device.is_cpu:
        return Finding(Outcome.NO_LIMIT, rates[COPY], detail=f"{detail}; everything on the host uses it")
    limit = device.silicon.highest_gbps
    most = math.inf if limit is None else limit.value
    measured = {operation: _measured(device, operation, one, most) for operation, one in rounds.items()}
    floors = _floors(device, measured)
    kept = tuple(measured[one].rate(rate, floors.get(one)) for one, rate in rates.items())
    if not floors:
        detail = f"{detail}; no figure is known for this model"
        return Finding(Outcome.NO_LIMIT, rates[COPY], detail=detail, rates=kept)
    lowest = min(floors, key=lambda operation: rates[operation] / floors[operation].value)
    rate, floor = rates[lowest], floors[lowest]
    good = rate >= floor.value
    others = ", ".join(f"{one} {figure(rates[one], UNIT)}" for one in rates if one != lowest)
    detail = "; ".join(filter(None, [f"{lowest}, the others: {others}", "" if good else device.cause()]))
    spans = () if good else rounds[lowest].unbroken(device.evidence.kinds)
    return pass_or_fail(rate, floor, good=good, detail=detail, rates=kept, over=spans)


def operation_rounds(device: DeviceEvidence, operation: str) -> Rounds:
    """Measured, verified rounds of one operation. Raises NotMeasured if there are too few."""
    done = device.possible(STAGE).having(operation=operation).verified.measured
    if len(done) < FEWEST_ROUNDS:
        device.evidence.stage(STAGE)
        raise device.unmeasured(f"{count_of(len(done), 'verified rounds')} of {operation}")
    return done


def _measured(device: DeviceEvidence, operation: str, rounds: Rounds, most: float) -> Measured:
    """One operation. NotMeasured if its rounds do not all state the same size of the buffers."""
    sizes = rounds.distinct_labels("size")
    size = sizes.pop() if len(sizes) == 1 else None
    if not isinstance(size, int):
        raise NotMeasured("its rounds do not state the size of the buffers")
    kind = FIGURES[operation]
    here = Conditions(kind.precision, size, 1, torch_of(device))
    return Measured(kind, here, {**kind.labels, "size": size}, most=most)


def _floors(device: DeviceEvidence, measured: Mapping[str, Measured]) -> dict[str, Limit]:
    """The floors by operation; operations without one are left out."""
    floors: dict[str, Limit] = {}
    for operation, one in measured.items():
        others = (_printed_floor(device) if operation == COPY else None, _peer_floor(device, operation))
        floor = floor_of(device, one, *(other for other in others if other is not None))
        if isinstance(floor, Limit):
            floors[operation] = floor
    return floors


def _printed_floor(device: DeviceEvidence) -> Limit | None:
    """A share of the printed bandwidth; None without a SKU file."""
    sku = device.device.sku
    if sku is None:
        return None
    share = device.limit(FLOOR_PRINTED_SHARE)
    source = f"{share.value:g} of the printed {figure(sku.memory_bandwidth_gbps, UNIT)}; {device.sku_file}"
    return Limit(share.value * sku.memory_bandwidth_gbps, source)


def _peer_floor(device: DeviceEvidence, operation: str) -> Limit | None:
    """A share of what the other cards of its model reach; None without any, or without that limit."""

    def group(one: DeviceEvidence) -> tuple[Hashable, float] | None:
        try:
            rate = operation_rounds(one, operation).rate()
        except NotMeasured:
            return None
        found = one.identity
        return (found.name, round(found.memory_total_mib / MIB_PER_GIB), found.ecc_enabled), rate

    share = device.optional_limit(PEER_SHARE)
    peers = None if share is None else peers_of(device, ("memory", operation), group)
    if share is None or peers is None:
        return None
    source = f"{share.value:g} of {peers.in_words} of {device.identity.name}; {share.source}"
    return Limit(share.value * peers.middle, source)


CRITERIA = (bandwidth,)


def tables(recording: Recording) -> Iterator[StageTable]:
    """One row per device with the rate of each operation."""
    note = "Bytes read and written, by the device's own clock; each round's result was verified."
    yield rates(recording, KIND, section="Memory bandwidth", title="Bandwidth", note=note)
