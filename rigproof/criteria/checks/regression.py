"""Did the card get slower than it was in its own earlier runs, under the same conditions?"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median_high

from rigproof.criteria.criterion import (
    Criterion,
    Disturbed,
    Finding,
    Limit,
    NotMeasured,
    Trouble,
    gravest,
)
from rigproof.criteria.evidence.cpu_use import shortage
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.evidence import ENDED
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.slowed import slowed_by
from rigproof.criteria.evidence.windows import Window
from rigproof.criteria.losses import Compared, compared
from rigproof.profiles.tables.limits import LIMITS
from rigproof.records.earlier import Earlier, EarlierRates, recorded_earlier
from rigproof.records.verdict import Outcome, count_of, figure
from rigproof.simulation.faults.kinds import FaultKind

REGRESSION_RUNS = LIMITS.key(lambda limits: limits.regression_runs)
REGRESSION_SHARE = LIMITS.key(lambda limits: limits.regression_share)
REGRESSION_ERROR = LIMITS.key(lambda limits: limits.regression_error)
ALONE = "no card alike to compare with"
OF_CPU = "find who else uses this CPU (if virtual, on its host too), or what changed; see `rigproof history`"
OF_ALL = "find what changed for all: room, fans, power, host, software; see `rigproof history`"
AS_MUCH = 0.5  # of a card's loss: sister cards that lost so much lost it with the card


@dataclass(frozen=True, slots=True)
class Past:
    """A figure of a card against its earlier rates. `times`: its rates, as `_compared` says."""

    rates: EarlierRates
    stage: str
    times: tuple[float, ...]
    compared: Compared


@Criterion(
    "history.regression",
    title="own earlier runs",
    direction="at_least",
    limit="`limits.regression_share` below the level of this card's own earlier runs under the same "
    "conditions, of which `limits.regression_runs` are needed, and beyond their spread, so that no more than "
    "`limits.regression_error` of sound runs suspect a card (docs/champions.md). A stage of which a rate is "
    "below that is measured again, and fails only if most times are. It warns if all cards of a kind lost "
    "about as much, and for the CPU as the device, which others also use",
    limits=(REGRESSION_SHARE, REGRESSION_RUNS, REGRESSION_ERROR),
    severity="reseat",
    remedy="clean and reseat the card; after a change that was meant see docs/champions.md",
    unmeasured="a figure of its earlier runs was not measured, or what was recorded of them is damaged",
    of_all_attempts=True,
    eligible=lambda _loaded, devices: devices,  # a verdict depends on the sister cards
)
def regression(device: DeviceEvidence) -> Finding:
    """No rate of the card is lower than in its own earlier runs under the same conditions."""
    fewest = device.optional_limit(REGRESSION_RUNS)
    if fewest is None:  # a run of a version that had none
        return Finding(Outcome.NO_LIMIT, detail=f"the profile has no {REGRESSION_RUNS}")
    own = _earlier(device)
    found = sorted(_pasts(device), key=lambda one: one.compared.now / one.compared.least)
    notes = [*own.problems[:1], *_too_few(own, int(fewest.value))]
    if (fallen := _worst(device, found, notes)) is not None:
        return fallen
    missing = {one.figure for one in _enough(device)} - {one.rates.figure for one in found}
    if missing:
        raise NotMeasured(f"{min(missing)} was not measured, and earlier runs have it", device.cause())
    if not found:
        return Finding(Outcome.NO_LIMIT, detail="; ".join(notes))
    once = [one for one in found if min(one.times) < one.compared.least]
    outcome = Outcome.WARN if once or own.problems else Outcome.PASS
    shown = [*once, *found][0]
    detail = "; ".join([*_in_words(shown), f"{count_of(len(found), 'figures')} compared", *notes])
    return _finding(device, shown, outcome, detail)


def _earlier(device: DeviceEvidence) -> Earlier:
    """What was recorded of a device's earlier runs, without other work than it did now."""
    evidence = device.evidence
    try:
        recorded = evidence.cached("earlier", lambda: recorded_earlier(evidence.recording.events))
    except ValueError:
        raise NotMeasured("what was recorded of earlier runs is damaged") from None
    own, now = recorded.get(device.subject, Earlier(())), evidence.rates_of(device.subject)
    figures = (it for it in own.figures if it.figure not in now or it.same_work(now[it.figure]))
    return replace(own, figures=tuple(figures))


def _enough(device: DeviceEvidence) -> dict[EarlierRates, str]:
    """The figures of this run that have enough earlier runs, with their stages."""
    kinds, fewest = device.evidence.kinds, device.limit(REGRESSION_RUNS).value
    known = [it for it in _earlier(device).figures if it.figure in kinds.figures and len(it.runs) >= fewest]
    stages = {one: kinds.of_figure(kinds.figures[one.figure]).name for one in known}
    return {one: stage for one, stage in stages.items() if stage in device.evidence.stages}


def _too_few(own: Earlier, fewest: int) -> Iterator[str]:
    """How many runs there are, and are needed, of the figure with the fewest, if not all have enough."""
    least = min(own.figures, key=lambda one: len(one.runs), default=EarlierRates("", "", {}, ()))
    if (number := len(least.runs)) < fewest:
        of = f" of {least.figure}" if least.figure else ""
        why = f"; {least.others}" if least.others else ""
        yield f"too few to tell: {number} of {fewest} earlier runs{of} under the same conditions{why}"


def _pasts(device: DeviceEvidence) -> list[Past]:
    """The figures of a device that were measured, and have enough earlier runs."""
    return device.evidence.cached(("pasts", device.subject), lambda: [*_compared(device)])


def _compared(device: DeviceEvidence) -> Iterator[Past]:
    """By its rate in each attempt at the stage; one that the host set counts only if it is the best."""
    evidence, recording = device.evidence, device.evidence.recording
    tests = evidence.cached("tests", lambda: sum(len(_enough(one)) for one in evidence.devices))
    for past, stage in _enough(device).items():
        ran, earlier = recording.stages.get(stage), len(recording.earlier_attempts.get(stage, ()))
        attempts = (*evidence.earlier_attempts[:earlier], evidence)
        found = (one.rates_of(device.subject).get(past.figure) for one in attempts)
        rates = [one for one in found if one is not None and past.same_work(one)]
        best = max(rates, key=lambda one: one.value, default=None)
        times = tuple(one.value for one in rates if one is best or not one.host_paced)
        if times and ran is not None and ran.status in ENDED:
            error, share = device.limit(REGRESSION_ERROR).value, device.limit(REGRESSION_SHARE).value
            before = [one.value for one in past.runs]
            if (against := compared(before, median_high(times), tests, error, share)) is not None:
                yield Past(past, stage, times, against)


def _worst(device: DeviceEvidence, pasts: Sequence[Past], notes: list[str]) -> Finding | None:
    """The lowest figure that fails, else the lowest that fell.

    Disturbed if none fails, and others lowered one.
    """
    found: list[Finding] = []
    lowered: list[Disturbed] = []
    for past in (one for one in pasts if one.compared.fell):
        try:
            found.append(_fallen(device, past, notes))
        except Disturbed as reason:
            lowered.append(reason)
    worst = gravest(found)
    if lowered and not (worst is not None and worst.outcome is Outcome.FAIL):
        raise lowered[0]
    return worst


def _fallen(device: DeviceEvidence, past: Past, notes: list[str]) -> Finding:
    """The failure of a card that fell alone; a warning where all of its kind did, or others use it, too."""
    others = (one for one in device.evidence.devices if one is not device and one.found)
    alike = (one for one in others if one.identity.name == device.identity.name)
    pasts = (it for one in alike for it in _pasts(one))
    sisters = [it.compared.loss for it in pasts if it.rates.figure == past.rates.figure]
    kept = sum(loss < AS_MUCH * past.compared.loss for loss in sisters)
    together, cards = bool(sisters) and not kept, count_of(len(sisters), "other cards")
    control = f"{kept} of {cards} alike did not" if kept else f"so did {cards} alike: a condition, no card"
    detail = "; ".join([*_in_words(past), *_changed(device, past), control if sisters else ALONE, *notes])
    outcome = Outcome.WARN if together or device.is_cpu else Outcome.FAIL
    finding = _finding(device, past, outcome, detail)
    if device.is_cpu:
        finding = finding._replace(remedy=OF_CPU, severity="warn")
    elif together:
        finding = finding._replace(remedy=OF_ALL, severity="config")
    over = _rounds(device, past).unbroken(device.evidence.kinds)
    if why := slowed_by(device, Trouble(finding._replace(over=over), (past.stage,))):
        raise Disturbed(f"{why}; so this is not the card's own: {detail}", "run again without it")
    window = device.evidence.whole_window(past.stage)
    short, who, remedy = shortage(device.evidence.node(device.node_name), window)
    if device.is_cpu and short > 0:
        raise Disturbed(f"{who}; so this is not its own: {detail}", remedy, window.from_s)
    return finding


def _finding(device: DeviceEvidence, past: Past, outcome: Outcome, detail: str) -> Finding:
    limit = Limit(past.compared.least, f"its own earlier runs; {device.limit(REGRESSION_SHARE).source}")
    from_s = None if outcome is Outcome.PASS else device.evidence.whole_window(past.stage).from_s
    return Finding(outcome, past.compared.now, limit, detail, from_s=from_s, unit=past.rates.unit)


def _in_words(past: Past) -> Iterator[str]:
    """`gemm_bf16_tflops -5.1 % of 12 earlier runs`, and since when; all times that it was measured."""
    runs, since, lost = past.rates.runs, past.compared.since, -100 * past.compared.loss
    began = f", since run {runs[since].run_id}" if since is not None and since < len(runs) else ""
    yield f"{past.rates.figure} {lost:+.2g} % of {count_of(len(runs), 'earlier runs')}{began}"
    if len(past.times) > 1:
        yield f"{figure(min(past.times))} to {figure(max(past.times))} in {len(past.times)} attempts"


def _changed(device: DeviceEvidence, past: Past) -> Iterator[str]:
    """How clock and temperature differ from those of the earlier runs, as far as they do."""
    own = _rounds(device, past)
    window = Window(float(own.begins_s.min(initial=math.inf)), float(own.t_s.max(initial=-math.inf)))
    for sensor, unit in (("sm_clock_mhz", "MHz"), ("core_temperature_c", "°C")):
        before = [value for one in past.rates.runs if (value := getattr(one, sensor)) is not None]
        now = device.recorded(sensor, window)
        if before and len(now) and round(change := now.mean - fmean(before)):
            yield f"{change:+.0f} {unit}"


def _rounds(device: DeviceEvidence, past: Past) -> Rounds:
    """The rounds of a figure."""
    rounds, kinds = device.evidence.rounds(device.subject).measured, device.evidence.kinds
    return rounds.only(rounds.same("stage", past.stage)).having(**kinds.figures[past.rates.figure].labels)


FAULTS = (
    FaultKind(
        "slower-than-before",
        "in its earlier runs, which the recording gets, its products were faster by the share by=",
        ("history.regression",),
        keys=("by",),
        defaults={"by": "5%"},
    ),
)
