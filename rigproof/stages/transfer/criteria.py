"""Does data get to the card and back as fast as its PCIe link can carry it, and unchanged?"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np

from rigproof.criteria.criterion import Criterion, Finding, Limit, NotApplicable, NotMeasured, pass_or_fail
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.floors import CHAMPION_SHARE, Measured, NoFloor, floor_of, torch_of
from rigproof.criteria.evidence.link import (
    FIELDS,
    link_at_most,
    link_gbps,
    link_in,
    link_name,
    link_under_load,
)
from rigproof.criteria.evidence.rounds import FEWEST_ROUNDS, Rounds
from rigproof.criteria.evidence.slowed import slowed_by
from rigproof.profiles.planning.floor_basis import Conditions
from rigproof.profiles.tables.limits import LIMITS
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, count_of, figure
from rigproof.stages.tables import NO_RATE, StageTable, rate_of, verified_rounds
from rigproof.stages.transfer.stage import ALONE, BOTH, D2H, FIGURES, H2D, KIND, MEANINGS, STAGE, TOGETHER

FLOOR_X16_GBPS = KIND.key(lambda own: own.floor_x16_gbps)
TOGETHER_SHARE = KIND.key(lambda own: own.together_share)
BEST_QUARTER_SHARE = LIMITS.key(lambda limits: limits.best_quarter_share)
CEILING_SHARE = LIMITS.key(lambda limits: limits.ceiling_share)
BOTH_SHARE = KIND.key(lambda own: own.both_share)
BOTH_CHAMPION_SHARE = KIND.key(lambda own: own.both_champion_share)

FEWEST_FALLEN = 2  # directions: a busy moment of the host slows one of them
UNIT = "GB/s"
TITLES = {H2D: "host to card", D2H: "card to host", BOTH: "both ways"}
ON_CPU = "the CPU has no link of its own: what it copies stays in the host's memory"
FLOOR = (
    "`stages.transfer.floor_x16_gbps` for the generation that the link has under load, in proportion to its "
    "lanes{both}; or, if that is higher, `limits.champion_share`{less} of this GPU's champion "
    "(docs/champions.md); "
    "a floor in the rig profile stands alone. Later, in company, a direction "
    "keeps `limits.best_quarter_share` of its rate alone, or of what GPUs of the host with the same link "
    "keep: one that does not warns, two fail. No floor if the link cannot be read. While all GPUs of the "
    "host transfer, `stages.transfer.together_share` of the rate alone, if the rig states that"
)
STAYS_DOWN = (
    "the link goes down between loads and does not come up for transfers: switch ASPM off in the BIOS, then "
    "reseat card and riser"
)
LIMITS_OF_ONE = (FLOOR_X16_GBPS, CHAMPION_SHARE, BEST_QUARTER_SHARE, TOGETHER_SHARE, CEILING_SHARE)
LIMITS_OF_BOTH = (*LIMITS_OF_ONE, BOTH_SHARE, BOTH_CHAMPION_SHARE)
BOTH_FLOORS = " (`stages.transfer.both_share` of it for each direction)"
LESS = " (or `stages.transfer.both_champion_share`, if less)"


@dataclass(frozen=True, slots=True)
class Found:
    """What was measured of a direction: alone and with all others of the host."""

    alone: float
    together: float
    mib: int
    others: int  # other devices of the host that transferred meanwhile
    absent: str = ""  # one that was to transfer meanwhile and did not

    @property
    def best(self) -> float:
        """What the link carries: company makes no transfer faster, and a host has its busy moments."""
        return max(self.alone, self.together)

    @property
    def ratio(self) -> float:
        """What is left of the rate when all transfer."""
        return self.together / self.alone


def _judged(direction: str, device: DeviceEvidence) -> Finding:
    if device.is_cpu:
        raise NotApplicable(ON_CPU)
    if (wrong := _wrong(direction, device)) is not None:
        return wrong
    found = _found(device, direction)
    link = link_under_load(device, STAGE)
    _require_possible(device, direction, found.best)
    kind = FIGURES[direction]
    conditions = Conditions(kind.precision, found.mib, 1, torch_of(device))
    labels = {**kind.labels, "mib": found.mib}
    done = Measured(
        kind, conditions, labels, champion_share=BOTH_CHAMPION_SHARE if direction == BOTH else None
    )
    floor = floor_of(device, done, *_link_floors(device, direction, link))
    rates = (done.rate(found.best, floor),)
    detail = ", ".join(filter(None, ("" if link is None else link_name(*link), _in_company(found))))

    def failed_together(share: Limit, before: str) -> Finding:
        limit = share.times(found.alone, f" of the {figure(found.alone, UNIT)} alone{before}")
        over = _spans(device, direction, TOGETHER)
        return pass_or_fail(found.together, limit, good=False, detail=detail, rates=rates, over=over)

    share = device.optional_limit(TOGETHER_SHARE)
    if share is not None:
        if found.absent:
            raise NotMeasured(f"{found.absent} did not transfer {direction} at the same time")
        if found.others and found.ratio < share.value:
            return failed_together(share, "")
    if isinstance(floor, NoFloor):
        why = "no floor: the generation and width of its link are not known"
        detail = "; ".join(filter(None, (detail, why)))
        return Finding(Outcome.NO_LIMIT, found.best, detail=detail, rates=rates)
    good = found.best >= floor.value
    fallen = _fallen(device) if good else {}
    if direction in fallen:
        lost = failed_together(fallen[direction], ", before")
        return lost if len(fallen) >= FEWEST_FALLEN else lost._replace(outcome=Outcome.WARN)
    if good and found.alone < floor.value:
        detail += f"; {figure(found.alone, UNIT)} alone, so something else was busy then"
    here = None if good else link_in(device, STAGE)
    down = here is not None and link is not None and link_gbps(*here) < link_gbps(*link)
    if down and here is not None:
        detail = f"{link_name(*here)} under its own transfers, {detail} in other stages"
    cause = "" if good else device.cause()
    return pass_or_fail(
        found.best,
        floor,
        good=good,
        detail="; ".join(filter(None, (detail, cause))),
        remedy=STAYS_DOWN if down else "",
        rates=rates,
        over=() if good else _spans(device, direction, ALONE, TOGETHER),
    )


def _spans(device: DeviceEvidence, direction: str, *companies: str) -> list[tuple[float, float]]:
    """When the transfers of a direction were measured, run time."""
    kinds = device.evidence.kinds
    return [span for one in companies for span in arm(device, direction, one).unbroken(kinds)]


def _found(device: DeviceEvidence, direction: str) -> Found:
    return device.cached(("transfers", direction), lambda: measured(device, direction))


def _fallen(device: DeviceEvidence) -> dict[str, Limit]:
    """The directions whose later rate, in company, is far below that alone, and the share that it must reach.

    What several GPUs share of a link, those with the same link lose alike.
    """
    share = device.optional_limit(BEST_QUARTER_SHARE)
    if share is None:
        return {}
    fallen = {}
    for direction in MEANINGS:
        try:
            found = _found(device, direction)
            kept = _least_kept_by_others(device, direction) if found.others else 1.0
        except NotMeasured:
            continue
        if found.ratio < share.value * kept:
            fallen[direction] = share.times(kept)
    return fallen


def _least_kept_by_others(device: DeviceEvidence, direction: str) -> float:
    """The least share that another GPU of the host, with the same link, keeps in company; 0 without one."""
    own = link_under_load(device, STAGE)
    alike = [one for one in device.neighbours if not one.is_cpu and link_under_load(one, STAGE) == own]
    return min((min(1.0, _found(one, direction).ratio) for one in alike), default=0.0)


def _in_company(found: Found) -> str:
    if not found.others:
        return ""
    who = f"all {found.others + 1} GPUs" if found.others > 1 else "both GPUs"
    return f"{figure(found.together, UNIT)} ({found.ratio:.2f} of it) with {who} of the host at once"


def _wrong(direction: str, device: DeviceEvidence) -> Finding | None:
    """The failure if what arrived differed from what was sent."""
    for event in device.events("wrong_result"):
        if event.stage == STAGE and event.data.get("direction") == direction:
            return Finding(
                Outcome.FAIL,
                detail=event.message,
                source="what arrives is what was sent",
                remedy="do not train on this card: reseat it and its riser, then test it in another slot",
                from_s=event.t_s,
            )
    return None


def measured(device: DeviceEvidence, direction: str) -> Found:
    """What was measured of a direction. NotMeasured if there are too few verified rounds, alone or not."""
    alone = _only_alone(device, arm(device, direction, ALONE))
    _require_enough(device, alone, direction, "alone")
    together, others, absent = _in_time_with_others(device, direction)
    _require_enough(device, together, direction, "with all GPUs of the host")
    sizes = alone.distinct_labels("mib")
    mib = sizes.pop() if len(sizes) == 1 else None
    if not isinstance(mib, int):
        raise NotMeasured("its rounds do not state how much they copied at a time")
    return Found(alone.rate(), together.rate(), mib, others, absent)


def arm(device: DeviceEvidence, direction: str, company: str) -> Rounds:
    """The measured, verified rounds of a direction, alone or together."""
    return device.rounds(STAGE).having(direction=direction, company=company).verified.measured


def _require_enough(device: DeviceEvidence, rounds: Rounds, direction: str, how: str) -> None:
    if len(rounds) >= FEWEST_ROUNDS:
        return
    device.evidence.stage(STAGE)
    missed = device.events("turn_missed")
    why = f"{count_of(len(rounds), 'verified rounds')} of {direction} {how}"
    if missed and how == "alone":
        raise NotMeasured(f"{why}: it {missed[0].message}")
    raise device.unmeasured(why)


def _in_time_with_others(device: DeviceEvidence, direction: str) -> tuple[Rounds, int, str]:
    """Its rounds with all GPUs of the host, between the others' first and last ones.

    With the number of others, and one that shares too few rounds, if there is one: it is no company.
    """
    rounds, others, absent = arm(device, direction, TOGETHER), 0, ""
    for other in (one for one in device.neighbours if not one.is_cpu):
        theirs = arm(other, direction, TOGETHER)
        shared = np.zeros(len(rounds), np.bool_)
        if len(theirs):
            shared = (rounds.t_s > theirs.begins_s.min()) & (rounds.begins_s < theirs.t_s.max())
        if shared.sum() < FEWEST_ROUNDS:
            absent = other.subject
            continue
        rounds, others = rounds.only(shared), others + 1
    return rounds, others, absent


def _only_alone(device: DeviceEvidence, rounds: Rounds) -> Rounds:
    """The rounds during which no other device of the host was in a round."""
    begins_s, ends_s = rounds.begins_s, rounds.t_s
    alone = np.ones(len(rounds), np.bool_)
    for other in device.neighbours:
        theirs = other.all_rounds.only(other.all_rounds.same("stage", STAGE))
        for begin_s, end_s in zip(theirs.begins_s.tolist(), theirs.t_s.tolist(), strict=True):
            alone &= (ends_s <= begin_s) | (begins_s >= end_s)
    return rounds.only(alone)


def _require_possible(device: DeviceEvidence, direction: str, rate: float) -> None:
    """NotMeasured if it is faster than the best link that card and slot can have.

    Not the best one that the rig states: a card may sit in a better slot than it was promised.
    """
    share = device.optional_limit(CEILING_SHARE)
    generation, width = (link_at_most(device, name) for name in FIELDS)
    if generation is None or width is None:
        return  # not even the best link is known
    best = link_gbps(generation, width)
    if share is not None and rate > share.value * _ways(direction) * best:
        raise NotMeasured(
            f"{figure(rate, UNIT)} is more than {share.value:g} × the "
            f"{figure(_ways(direction) * best, UNIT)} that the best link of card and slot carries: a "
            "measurement error"
        )


def _ways(direction: str) -> int:
    return 2 if direction == BOTH else 1


def _link_floors(device: DeviceEvidence, direction: str, link: tuple[int, int] | None) -> tuple[Limit, ...]:
    """The floor of such a link; none if it is not known."""
    if link is None:
        return ()
    generation, width = link
    x16_gbps = getattr(device.stated(FLOOR_X16_GBPS)[0], f"gen{generation}", None)
    if x16_gbps is None:
        return ()
    file = device.source_of(f"{FLOOR_X16_GBPS}.gen{generation}")
    limit = Limit(x16_gbps * width / 16, f"the floor of {link_name(*link)}; {file}")
    if direction != BOTH:
        return (limit,)
    share = device.limit(BOTH_SHARE)
    return (Limit(2 * share.value * limit.value, f"{share.value:g} of twice {limit.source}"),)


def _criterion(direction: str) -> Criterion:
    judge, both = partial(_judged, direction), direction == BOTH
    judge.__doc__ = (
        f"Verified copies {MEANINGS[direction]}. Each GPU of a host transfers alone, one after the other, "
        "then all at once. The better of the two rates is judged, each without the slowest tenth of the "
        "rounds: what a link carries in company it carries alone too. What is left of the rate in company is "
        "reported: GPUs behind one PCIe switch share its lanes. Anything that arrives changed fails."
    )
    return Criterion(
        f"transfer.{direction}",
        title=TITLES[direction],
        unit=UNIT,
        direction="at_least",
        limit=FLOOR.format(both=BOTH_FLOORS if both else "", less=LESS if both else ""),
        limits=LIMITS_OF_BOTH if both else LIMITS_OF_ONE,
        severity="reseat",
        remedy="see transfer.link and transfer.errors first; then try a slot of the CPU's own, without IOMMU "
        "translation and ASPM",
        unmeasured="too few verified rounds, alone or with all GPUs of the host; alone also if another GPU "
        "transferred meanwhile; or a rate that no link of this card and slot can carry, over "
        "`limits.ceiling_share` of its nominal rate. Not applicable to "
        "the CPU as the device",
        idling="not measured",
        figures=(FIGURES[direction],),
        stages=(STAGE,),
        rate=True,
        caused_by_others=slowed_by,
    )(judge)


CRITERIA = tuple(map(_criterion, MEANINGS))


def tables(recording: Recording) -> Iterator[StageTable]:
    """One row per device: each direction alone, together, and the ratio; a dash without verified rounds."""
    rows = []
    for subject, verified in verified_rounds(recording, STAGE):
        if len(measured := verified.measured):
            rows.append((subject, *(cell for one in MEANINGS for cell in _cells(measured, one))))
    columns = ((f"{one} alone, {UNIT}", f"all at once, {UNIT}", "ratio") for one in MEANINGS)
    yield StageTable(
        section="Transfers",
        title="Transfers",
        columns=("Device", *chain.from_iterable(columns)),
        rows=tuple(rows),
        note="Pinned memory, by the device's own clock; what arrived was verified each time. GPUs behind "
        "one PCIe switch share its lanes, so a ratio below 1 is no fault by itself.",
    )


def _cells(rounds: Rounds, direction: str) -> tuple[str, str, str]:
    alone, together = (rounds.having(direction=direction, company=one) for one in (ALONE, TOGETHER))
    ratio = f"{together.rate() / alone.rate():.2f}" if len(alone) and len(together) else NO_RATE
    return rate_of(alone), rate_of(together), ratio
