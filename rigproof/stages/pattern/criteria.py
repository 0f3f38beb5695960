"""Does a device's memory keep what is written to it, and is it as fast when it is hot?"""

import math
from collections.abc import Iterator, Sequence

from rigproof.criteria.criterion import Criterion, Finding, Limit, NotApplicable, NotMeasured, pass_or_fail
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.slowed import slowed_by
from rigproof.criteria.evidence.strangers import holders_at
from rigproof.profiles.planning.planning import MIB_PER_GIB
from rigproof.records.measurements import Event
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, figure
from rigproof.stages.pattern.stage import (
    COLD,
    HOT,
    KIND,
    MEANINGS,
    OPERATIONS,
    STAGE,
    PatternSettings,
    VramError,
    bits_in_words,
    bits_of,
    in_common,
    patterns_with,
)
from rigproof.stages.tables import StageTable, rate_of, verified_rounds

TESTED_SHARE = KIND.key(lambda own: own.tested_share)
HOT_SHARE = KIND.key(lambda own: own.hot_share)

ROUNDING_MIB = 1.0  # the memory is taken in whole blocks
FEWEST_PROBES = 3  # passes of reading, cold or hot: fewer would be single readings
SAME = Limit(0, "every word is read as it was written")
SENSOR = "memory_temperature_c"
STUCK = "have the card replaced: its memory has a defect there"
FORGETS = "have the card checked: its memory loses what it holds"
MISREAD = "run again; have the card checked if it comes back: single words were read wrong"


@Criterion(
    "memory.pattern",
    title="memory patterns",
    unit="words",
    direction="at_most",
    limit="none may be wrong, in any pass. Each pattern is written, compared word by word, inverted and "
    "compared again; a wrong word is read once more: wrong again is hard, right is soft. Of what was free "
    "before (or the cap of `memory.fraction_share`) and of what the GPU's workers fill, at least "
    "`stages.pattern.tested_share` must have been tested",
    limits=(TESTED_SHARE,),
    severity="rma",
    remedy=STUCK,
    unmeasured="less memory was tested, a pattern of the level has no verified pass, or a pass did not "
    "compare every word or did not find the word that is changed on purpose before it; what the passes "
    "found was not reported, or otherwise than their rounds say; or a wrong word is of no device of the rig "
    "or of the run",
    idling="not measured",
    stages=(STAGE,),
)
def pattern(device: DeviceEvidence) -> Finding:
    """The device's memory, nearly full, keeps what is written to it.

    For the CPU as the device a small part of the host's memory is tested.
    """
    wrong = [one for one in device.events("wrong_result") if one.stage == STAGE]
    errors = device.records(VramError, STAGE)
    if wrong or errors:
        return _failed(device, wrong, errors)
    tested = _tested(device)
    rounds = device.rounds(STAGE)
    _require_passes(device, rounds)
    device.require_placed(VramError)
    compares = rounds.only(rounds.labelled("operation", "invert", "check"))
    _require_told(_results(device), compares)
    return pass_or_fail(0, SAME, good=True, detail=f"{tested}, {len(compares)} passes compared it")


def _failed(device: DeviceEvidence, wrong: Sequence[Event], errors: Sequence[VramError]) -> Finding:
    """Where the first wrong word is, and what all of them have in common."""
    numbers = [event.data.get("words") for event in (*wrong, *_results(device))]
    numbers += [event.data.get("most") for event in _results(device)]
    most = max([1, *(one for one in numbers if isinstance(one, int))])
    moments = [*(one.t_s for one in wrong), *(one.t_s for one in errors)]
    if not errors:
        return pass_or_fail(most, SAME, good=False, detail=wrong[0].message, from_s=min(moments))
    first, places = errors[0], {one.offset: one for one in errors}
    differing = bits_in_words(bits_of(int(first.expected, 16) ^ int(first.read, 16)))
    detail = (
        f"0x{first.address} ({first.pattern}): expected {first.expected}, read {first.read}, "
        f"{differing}, {first.kind}"
    )
    shared = in_common(list(places.values()))
    return pass_or_fail(
        most,
        SAME,
        good=False,
        detail=f"{detail}; {shared}" if shared else detail,
        remedy=_remedy(errors),
        from_s=min(moments),
    )


def _require_told(results: Sequence[Event], compares: Rounds) -> None:
    """NotMeasured if what the passes found was not reported, or says otherwise than their rounds."""
    if not results:
        raise NotMeasured("what the passes found was not reported")
    bad, passes, gib = (_sum(results, name) for name in ("bad_passes", "passes", "compared_gib"))
    if bad:
        counted = f"{bad:g} passes were counted as wrong"
        raise NotMeasured(f"{counted}, and neither a wrong word nor a wrong result was recorded")
    whole_gib = float(compares.label_numbers("size").sum()) / MIB_PER_GIB
    rounding_gib = max(passes, len(compares)) * ROUNDING_MIB / MIB_PER_GIB
    other_size = passes == len(compares) and gib > whole_gib + rounding_gib
    if not passes >= len(compares) or not gib >= whole_gib - rounding_gib or other_size:
        raise NotMeasured(
            f"{passes:g} passes over {gib:.0f} GiB were reported, and {len(compares)} over "
            f"{whole_gib:.0f} GiB recorded"
        )


def _sum(results: Sequence[Event], name: str) -> float:
    """The sum of one number over all results; NaN if one of them has no such number."""
    values = [one.data.get(name) for one in results]
    return math.fsum(one if isinstance(one, int | float) else math.nan for one in values)


def _results(device: DeviceEvidence) -> list[Event]:
    return [one for one in device.events("pattern_result") if one.stage == STAGE]


def _remedy(errors: Sequence[VramError]) -> str:
    """What to do, by the worst kind of error: stuck, forgotten, or only read wrong."""
    hard = [one for one in errors if one.kind == "hard"]
    if not hard:
        return MISREAD
    return FORGETS if all(one.mended for one in hard) else STUCK


def _tested(device: DeviceEvidence) -> str:
    """How much was tested, in words. NotMeasured if that is not known, or less than promised."""
    device.evidence.stage(STAGE)
    reports = [one for one in device.events("allocation") if one.stage == STAGE]
    if not reports:
        raise device.unmeasured("no memory was reported as filled")
    tested_mib, available_mib = (reports[-1].data.get(name) for name in ("allocated_mib", "available_mib"))
    if (
        not isinstance(tested_mib, int | float)
        or not isinstance(available_mib, int | float)
        or not available_mib
    ):
        raise NotMeasured("how much memory was filled was not reported")
    share = device.limit(TESTED_SHARE)
    planned_mib = 0.0
    if not device.is_cpu:
        planned_mib = sum(one.vram_mib for one in device.evidence.plan.workers_of(device.subject))
    promised_mib = max(available_mib, planned_mib)
    tested = figure(tested_mib / MIB_PER_GIB, "GiB")
    if not tested_mib >= share.value * promised_mib - ROUNDING_MIB:
        promised = figure(promised_mib / MIB_PER_GIB, "GiB")
        holders = holders_at(device, reports[-1].t_s)
        reason = f"{tested} were tested, less than {share.value:g} of {promised}"
        raise NotMeasured(reason + (f"; {holders}" if holders else ""))
    return f"{tested}, {100 * tested_mib / available_mib:.0f} % of what was free"


def _require_passes(device: DeviceEvidence, rounds: Rounds) -> None:
    """NotMeasured if a pass proves nothing, or a pattern of the level lacks a verified one."""
    unverified = rounds.only(~rounds.same("verified", True))
    if len(unverified):
        unchecked = [one.message for one in device.events("pattern_unchecked") if one.stage == STAGE]
        why = unchecked[0] if unchecked else f"at t={unverified.t_s[0]:.0f} s"
        raise NotMeasured(f"{len(unverified)} of {len(rounds)} passes were not verified: {why}")
    settings = device.device.settings(PatternSettings)
    for name in patterns_with(settings.fade_s.at(device.evidence.plan.level)):
        for operation in OPERATIONS:
            done = rounds.having(pattern=name, operation=operation)
            if not len(done):
                raise device.unmeasured(f"no {operation} of {name}")


@Criterion(
    "memory.hot",
    title="memory when hot",
    unit="%",
    direction="at_least",
    limit="`stages.pattern.hot_share`: the rate of reading after the passes, as a share of that before them; "
    "and no word that is wrong only then",
    limits=(HOT_SHARE,),
    severity="isolate",
    remedy="check airflow over the card's backplate; dried-out thermal pads on its memory are the usual "
    "cause",
    unmeasured="too few verified passes of reading at the beginning or at the end. Not applicable on a card "
    "with a memory temperature sensor, which thermal.memory_temperature judges",
    applies_to_cpu=False,
    stages=(STAGE,),
    rate=True,
    caused_by_others=slowed_by,
)
def hot(device: DeviceEvidence) -> Finding:
    """Memory without a temperature sensor reads as fast at the end of the passes as at their beginning.

    GDDR6X that overheats lowers its own clock, while the core is cool.
    """
    if not device.samples and device.device.sku is None:
        raise NotMeasured("whether the card has a memory temperature sensor was not read")
    if not device.never_reads(SENSOR):
        raise NotApplicable("its memory temperature is judged by thermal.memory_temperature")
    cold, warm = (_read_rounds(device, heat) for heat in (COLD, HOT))
    share = 100 * warm.rate() / cold.rate()
    limit = device.limit(HOT_SHARE).times(100)
    detail = f"{figure(warm.rate(), 'GB/s')} after the passes, {figure(cold.rate(), 'GB/s')} before"
    if share < limit.value:
        over = warm.unbroken(device.evidence.kinds)
        return pass_or_fail(
            share, limit, good=False, detail=detail, from_s=float(warm.begins_s[0]), over=over
        )
    errors = device.records(VramError, STAGE)
    if errors and min(one.t_s for one in errors) > float(cold.t_s[-1]):
        first_s = min(one.t_s for one in errors)
        detail = (
            f"words are wrong since {first_s - float(cold.begins_s[0]):.0f} s into the passes, none before"
        )
        return Finding(Outcome.FAIL, detail=detail, source=SAME.source, from_s=first_s)
    return pass_or_fail(share, limit, good=True, detail=detail)


def _read_rounds(device: DeviceEvidence, heat: str) -> Rounds:
    """The verified passes of reading before or after all others."""
    rounds = device.rounds(STAGE)
    found = rounds.having(heat=heat).verified
    if len(found) < FEWEST_PROBES:
        raise device.unmeasured(f"{len(found)} verified passes of reading {heat}")
    return found


CRITERIA = (pattern, hot)


SECTION = "Memory patterns"
ROWS_SHOWN = 40
WRONG_COLUMNS = ("Device", "Pattern", "Address", "Byte", "Expected", "Read", "Again", "Bits", "Kind", "At")
NOTE = (
    "Bytes read and written, by the device's own clock. Write: the pattern is written; invert: compared, and "
    "overwritten with its complement; check: that is compared."
)


def tables(recording: Recording) -> Iterator[StageTable]:
    """Rates, a row for each device and pattern; then each wrong word that was recorded."""
    rows = []
    for subject, verified in verified_rounds(recording, STAGE):
        for name in MEANINGS:
            own = verified.having(pattern=name)
            if len(own):
                rates = (rate_of(own, operation=one) for one in OPERATIONS)
                rows.append((subject, name, str(len(own)), *rates))
    columns = ("Device", "Pattern", "Passes", *(f"{one}, GB/s" for one in OPERATIONS))
    yield StageTable(SECTION, "Passes", columns, tuple(rows), labels=2, note=NOTE)
    errors = list(recording.of(VramError))
    left = len(errors) - ROWS_SHOWN
    yield StageTable(
        section=SECTION,
        title="Wrong words",
        columns=WRONG_COLUMNS,
        rows=tuple(map(_row, errors[:ROWS_SHOWN])),
        labels=len(WRONG_COLUMNS),
        note=f"{left} more are in vram_error.parquet." if left > 0 else "",
    )


def _row(one: VramError) -> tuple[str, ...]:
    kind = f"{one.kind}, right once rewritten" if one.kind == "hard" and one.mended else one.kind
    words = (one.expected, one.read, one.again)
    place = (one.subject, one.pattern, f"0x{one.address}", str(one.offset))
    return (*place, *words, one.bits, kind, f"{one.t_s:.1f} s")
