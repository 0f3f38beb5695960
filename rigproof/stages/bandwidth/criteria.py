"""Is a device's own memory as fast as its data sheet says, or as that of its peers?"""

import math
from collections.abc import Mapping
from statistics import median

from rigproof.criteria.criterion import Finding, Limit, NotMeasured, compared, criterion
from rigproof.criteria.effects import WITHOUT_WORK, Also
from rigproof.criteria.evidence.floors import Measured, floor_of, torch_of
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.strangers import slowed_by
from rigproof.criteria.evidence.subjects import DeviceEvidence
from rigproof.profiles.planning.evidence import Conditions
from rigproof.records.verdict import Outcome, figure
from rigproof.stages.bandwidth.settings import COPY, FIGURES, GB, STAGE

FEWEST_ROUNDS = 3  # of an operation: fewer are single readings
UNIT = "GB/s"


@criterion(
    "memory.bandwidth",
    scope="device",
    unit=UNIT,
    limit="for each operation the floor in the rig profile; else the highest of `limits.champion_share` of "
    "this GPU's champion (docs/champions.md) and of a share of the SKU file's figure, by its evidence "
    "(`limits.floor_measured_share`, `limits.floor_similar_share`), both scaled to the enforced power limit; "
    "for copies also of `limits.floor_printed_share` of the printed bandwidth, or, for a card without a SKU "
    "file, of `limits.peer_share` of the median of the other cards of its model in the run; else none. The "
    "operation that is lowest against its floor is shown. None for the CPU as the device, whose memory "
    "everything on the host uses",
    remedy="close other programs on the card, check its memory clock (`nvidia-smi -q -d CLOCK`) and its "
    "temperature; a card that stays slow when it is cold and alone is a case for the warranty",
    unmeasured="too few verified rounds of an operation; a rate that is more than "
    "`limits.ceiling_share` of the printed bandwidth",
    also=Also(unmeasured=(*WITHOUT_WORK, "gpu-idle")),
    figures=tuple(FIGURES.values()),
    stages=(STAGE,),
    rate=True,
    explained=slowed_by,
)
def bandwidth(device: DeviceEvidence) -> Finding:
    """Verified writes, reads, copies and triads in the device's own memory.

    Bytes read and written over the time that they took by the device's own clock, without the slowest tenth
    of the rounds.
    """
    rounds = {operation: operation_rounds(device, operation) for operation in FIGURES}
    rates = {operation: one.rate() for operation, one in rounds.items()}
    detail = ", ".join(f"{operation} {figure(rate, UNIT)}" for operation, rate in rates.items())
    if device.is_cpu:
        return Finding(Outcome.NO_LIMIT, rates[COPY], detail=f"{detail}; everything on the host uses it")
    most = _require_possible(device, rates)
    measured = {operation: _measured(device, operation, one, most) for operation, one in rounds.items()}
    kept = tuple(measured[operation].rate(rate) for operation, rate in rates.items())
    floors = _floors(device, measured)
    if not floors:
        detail = f"{detail}; no figure is known of this model"
        return Finding(Outcome.NO_LIMIT, rates[COPY], detail=detail, rates=kept)
    lowest = min(floors, key=lambda operation: rates[operation] / floors[operation].value)
    rate, floor = rates[lowest], floors[lowest]
    good = rate >= floor.value
    detail = "; ".join(filter(None, [f"{lowest} is judged, of {detail}", "" if good else device.cause()]))
    return compared(rate, floor, good=good, detail=detail, rates=kept)


def operation_rounds(device: DeviceEvidence, operation: str) -> Rounds:
    """Measured, verified rounds of one operation. NotMeasured where they are too few."""
    done = device.rounds(STAGE)
    done = done.only(done.same("unit", GB) & done.labelled("operation", operation)).verified()
    done = done.only(done.same("phase", "measure"))
    if len(done) < FEWEST_ROUNDS:
        device.evidence.stage(STAGE)
        cause = device.cause()
        raise NotMeasured(f"{len(done)} verified rounds of {operation}" + (f": {cause}" if cause else ""))
    return done


def _require_possible(device: DeviceEvidence, rates: Mapping[str, float]) -> float:
    """The most that this memory can do at any clock, GB/s. NotMeasured where an operation is faster."""
    sku, share = device.device.sku, device.optional_limit("ceiling_share")
    if sku is None or share is None:
        return math.inf
    most = share.value * sku.memory_bandwidth_gbps
    for operation, rate in rates.items():
        if rate > most:
            raise NotMeasured(
                f"{operation} {figure(rate, UNIT)} are more than {figure(most, UNIT)}, {share.value:g} × the "
                f"printed bandwidth of {device.sku_file}: a measurement error, not a rate"
            )
    return most


def _measured(device: DeviceEvidence, operation: str, rounds: Rounds, most: float) -> Measured:
    """One operation. NotMeasured where its rounds do not state one size of the buffers."""
    sizes = rounds.distinct_labels("size")
    size = sizes.pop() if len(sizes) == 1 else None
    if not isinstance(size, int):
        raise NotMeasured("its rounds do not say how large the buffers were")
    kind = FIGURES[operation]
    here = Conditions(kind.precision, size, 1, torch_of(device))
    return Measured(kind, here, {**kind.labels, "size": size}, most=most)


def _floors(device: DeviceEvidence, measured: Mapping[str, Measured]) -> dict[str, Limit]:
    """By operation; those that nothing is known of are left out."""
    found: dict[str, Limit] = {}
    for operation, one in measured.items():
        others = _others(device) if operation == COPY else ()
        floor = floor_of(device, one, *others)
        if isinstance(floor, Limit):
            found[operation] = floor
    return found


def _others(device: DeviceEvidence) -> tuple[Limit, ...]:
    """Floors of copies beside the SKU file's figure: of what is printed, or of the peers."""
    sku = device.device.sku
    if sku is not None:
        share = device.limit("floor_printed_share")
        source = (
            f"{share.value:g} of the printed {figure(sku.memory_bandwidth_gbps, UNIT)}; {device.sku_file}"
        )
        return (Limit(share.value * sku.memory_bandwidth_gbps, source),)
    share = device.limit("peer_share")
    rates = [rate for subject, rate in _rates_of_model(device).items() if subject != device.subject]
    if not rates:
        return ()
    others = "the other one" if len(rates) == 1 else f"the median of {len(rates)} others"
    source = f"{share.value:g} of {others} of {device.identity.name}; {share.source}"
    return (Limit(share.value * median(rates), source),)


def _rates_of_model(device: DeviceEvidence) -> Mapping[str, float]:
    """Copies of all cards of this model in the run, by subject; those without a rate are left out."""

    def measured() -> dict[str, float]:
        found: dict[str, float] = {}
        for one in device.evidence.devices:
            if one.found and not one.is_cpu and one.identity.name == device.identity.name:
                try:
                    found[one.subject] = operation_rounds(one, COPY).rate()
                except NotMeasured:
                    continue
        return found

    return device.evidence.kept(("copies", device.identity.name), measured)


CRITERIA = (bandwidth,)
