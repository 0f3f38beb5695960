"""Is the PCIe link as wide and fast as card and slot allow?"""

from dataclasses import dataclass

import numpy as np

from rigproof.criteria.criterion import Criterion, Finding, Limit, NotMeasured, pass_or_fail
from rigproof.criteria.evidence.counters import growth
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.fed import idled, remedy_if_waited
from rigproof.criteria.evidence.link import (
    GENERATIONS,
    LANES,
    PCIE_GENERATION,
    PCIE_WIDTH,
    best_link,
    link_gbps,
    link_name,
    replays_allowed,
)
from rigproof.criteria.evidence.loads import Load, Piece, PieceReadings, over_loads
from rigproof.criteria.evidence.sensors import readings_by_piece
from rigproof.profiles.kinds.stages import DUTIES
from rigproof.profiles.tables.limits import LIMITS
from rigproof.records.measurements import GpuCounters
from rigproof.records.verdict import Outcome
from rigproof.simulation.faults.kinds import FROM, MID, TIMES, FaultKind, unreported

PCIE_BIT_ERROR_RATE = LIMITS.key(lambda limits: limits.pcie_bit_error_rate)

SHORTEST_S = 2.5  # the link is read once a second: two of its readings have no majority
LOW_SHARE = 0.2  # of a piece's readings: a sound link is down for a moment at most
FEWER_LANES = (
    "reseat card and riser, and see whether its slot has as many lanes; "
    "if it is meant, state `limits.pcie_width`"
)


@Criterion(
    "transfer.link",
    title="PCIe link",
    unit="GB/s",
    direction="at_least",
    limit="the nominal rate of the best link that NVML reports for card and slot together, or of "
    "`limits.pcie_generation` and `limits.pcie_width` if the rig states less; more replays than "
    "`limits.pcie_bit_error_rate` of the bits that such a link can carry warn",
    limits=(PCIE_GENERATION, PCIE_WIDTH, PCIE_BIT_ERROR_RATE),
    severity="reseat",
    remedy="reseat card and riser; see the BIOS; if it is meant, state "
    "`limits.pcie_width` or `limits.pcie_generation`",
    unmeasured="too few readings of the link under load, no figure for the best possible link, or a replay "
    "counter that was read only at one end of the run; not applicable if the SKU file lists `pcie` in "
    "`unsupported_sensors`. A card whose driver counts no replays, as in WSL2 and virtual machines, is "
    "judged by its link alone",
    idling="fails",
    needs=("continuous",),
    duties=DUTIES,
    applies_to_cpu=False,
)
def link(device: DeviceEvidence) -> Finding:
    """Under load the PCIe link has the generation and the width that card and slot allow.

    Judged by the highest value that at least half of the readings reached, in each stretch of measured work,
    short ones together and long ones in quarters: an idle link goes down to save power, which is no fault; if
    the card idled in such a stretch, that is activity.gpu_active's to report. A
    link that was down in over a fifth of the readings warns, and so do replays (packets sent again).
    """
    best_generation = best_link(device, "pcie_generation")
    best_width = best_link(device, "pcie_width")
    sources = dict.fromkeys((best_generation.source, best_width.source))
    best = (int(best_generation.value), int(best_width.value))
    limit = Limit(link_gbps(*best), " and ".join(sources))

    def at_work(found: Finding) -> bool:
        return found.remedy == FEWER_LANES or not idled(device, found.from_s, found.length_s)

    finding = over_loads(device, DUTIES, lambda load: _in_load(device, load, best, limit), at_work)
    if finding.outcome is Outcome.FAIL:
        return finding
    replays = _by_replays(device, limit, best)
    return finding if finding.outcome is Outcome.WARN else replays


def _in_load(device: DeviceEvidence, load: Load, best: tuple[int, int], limit: Limit) -> Finding:
    """The piece in which it was worst for half of the time; else the one in which it was down most often."""
    generations = _read(device, load, "pcie_generation", "PCIe generation", GENERATIONS)
    widths = _read(device, load, "pcie_width", "PCIe width", LANES)
    seen = list(zip(_seen(generations, best[0]), _seen(widths, best[1]), strict=True))
    # A link that is better than the owner expects does not make up for one that is worse.
    rates = [link_gbps(min(g.usual, best[0]), min(w.usual, best[1])) for g, w in seen]
    possible = f"where {link_name(*best)} is possible"
    low = [place for place, rate in enumerate(rates) if rate < limit.value]
    if low:
        worst = min(low, key=lambda one: (_by_idling(device, *seen[one], best[1]), rates[one]))
        generation, width = seen[worst]
        where = generation.piece
        detail = f"{link_name(generation.usual, width.usual)} {possible}"
        return pass_or_fail(
            rates[worst],
            limit,
            good=False,
            detail=detail,
            remedy=FEWER_LANES if width.usual < best[1] else _of_waiting(device, load, where),
            from_s=where.span.from_s,
            length_s=where.length_s,
        )
    generation, width = max(seen, key=lambda one: max(one[0].low_share, one[1].low_share))
    share = max(generation.low_share, width.low_share)
    if share <= LOW_SHARE:
        return pass_or_fail(limit.value, limit, good=True)
    lowest = link_name(generation.lowest, width.lowest)
    detail = (
        f"down to {lowest} in {share:.0%} of the readings from t={generation.piece.span.from_s:.0f} s on, "
    )
    return Finding(Outcome.WARN, limit.value, limit, detail + possible)


def _of_waiting(device: DeviceEvidence, load: Load, piece: Piece) -> str:
    """The remedy for a card that lowered its link while it waited to be fed; empty for any other."""
    waited = load.duty == "fed" and idled(device, piece.span.from_s, piece.length_s)
    return remedy_if_waited(device) if waited else ""


def _by_idling(device: DeviceEvidence, generation: "Seen", width: "Seen", lanes: int) -> bool:
    """Whether the device idled there, which lowers the generation of its link, but not its lanes."""
    piece = generation.piece
    return width.usual >= lanes and idled(device, piece.span.from_s, piece.length_s)


@dataclass(frozen=True, slots=True)
class Seen:
    """A piece's readings: the highest value that half of them reached, the lowest, how many were low."""

    piece: Piece
    usual: int
    lowest: int
    low_share: float


def _read(device: DeviceEvidence, load: Load, field: str, what: str, possible: range) -> PieceReadings:
    """NotMeasured if half of a piece's readings are values that no link has."""
    read = readings_by_piece(device, load, field, what, SHORTEST_S)
    least, most = read.upper_medians.min(), read.upper_medians.max()
    if least < possible[0] or most > possible[-1]:
        raise NotMeasured(f"the {what} reads {least:.0f} to {most:.0f}, which no link has")
    return read


def _seen(read: PieceReadings, best: int) -> list[Seen]:
    usual, lowest = (one.astype(np.intp).tolist() for one in (read.upper_medians, read.lowest))
    low_shares = [
        int((part < best).sum()) / count for part, count in zip(read.parts, read.counts.tolist(), strict=True)
    ]
    return list(map(Seen, read.pieces, usual, lowest, low_shares))


def _by_replays(device: DeviceEvidence, limit: Limit, best: tuple[int, int]) -> Finding:
    """The link is as it should be; its replays show whether it works without errors."""
    name = link_name(*best)
    good = pass_or_fail(limit.value, limit, good=True, detail=name)
    rate = device.optional_limit(PCIE_BIT_ERROR_RATE)
    if rate is None:  # a recording from before this limit existed
        return good
    before, after = device.counters("before"), device.counters("after")
    if all(one is not None and one.pcie_replays is None for one in (before, after)):
        return good._replace(detail=f"{name}; its replays are not counted")
    replays = growth(before, after, "pcie_replays", "PCIe replays")
    _require_rising(device, before, after)
    per_minute = replays / _minutes(before, after)
    allowed = replays_allowed(rate.value, *best)
    if per_minute <= allowed:
        return good
    detail = (
        f"{name}, but {per_minute:.0f} replays a minute, over {allowed:.3g}, which is {rate.value:g} of the "
        f"bits that such a link can carry ({rate.source})"
    )
    remedy = "clean the contacts, and reseat card and riser"
    return Finding(Outcome.WARN, limit.value, limit, detail, remedy, of_run=True)


def _require_rising(device: DeviceEvidence, before: GpuCounters | None, after: GpuCounters | None) -> None:
    """NotMeasured if the counter went back between two readings: then it is not known how far it had come."""
    read = device.readings("pcie_replays")
    ends = [[one.pcie_replays] if one is not None else [] for one in (before, after)]
    counts = np.asarray([*ends[0], *read.values, *ends[1]], np.float64)
    back = np.nonzero(np.diff(counts) < 0)[0]
    if len(back):
        place = int(back[0])
        raise NotMeasured(
            f"the counter of PCIe replays went back from {counts[place]:.0f} to {counts[place + 1]:.0f}"
        )


def _minutes(before: GpuCounters | None, after: GpuCounters | None) -> float:
    """Between two readings, but at least one: a few replays in a short run are no rate."""
    return 1.0 if before is None or after is None else max(1.0, (after.t_s - before.t_s) / 60)


NO_PCIE = unreported("pcie", "its link to the host is not PCIe")

FAULTS = (
    FaultKind(
        "pcie-degraded",
        "the link trained down; to= is the generation",
        ("transfer.link",),
        keys=(*TIMES, "to"),
        duties=DUTIES,
        lacks=NO_PCIE,
    ),
    FaultKind(
        "pcie-narrow",
        "the link lost lanes; to= is how many are left",
        ("transfer.link",),
        keys=(*TIMES, "to"),
        duties=DUTIES,
        lacks=NO_PCIE,
    ),
    FaultKind(
        "pcie-replays",
        "the link repeats packets",
        ("transfer.link",),
        ends="warns",
        keys=(*FROM, "to"),
        defaults=MID,
        duties=DUTIES,
        lacks=NO_PCIE,
    ),
)
