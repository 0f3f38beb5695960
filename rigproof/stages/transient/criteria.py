"""Does a host stand its GPUs switching their load on and off together?"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from rigproof.criteria.checks.health import XID_FAIL, XID_WARN
from rigproof.criteria.criterion import (
    Criterion,
    Finding,
    Limit,
    NotApplicable,
    NotMeasured,
    Trouble,
    pass_or_fail,
)
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.link import FIELDS, best_link, link_name, replays_allowed
from rigproof.criteria.evidence.nodes import NodeEvidence
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.series import Readings
from rigproof.criteria.evidence.slowed import slowed_by
from rigproof.criteria.evidence.windows import Window
from rigproof.profiles.tables.limits import LIMITS
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, figure
from rigproof.stages.tables import StageTable
from rigproof.stages.transient.consequences import SUPPLY, consequences, require_seen
from rigproof.stages.transient.made import Lost, Waves, together
from rigproof.stages.transient.stage import KIND, STAGE

OTHERS_SHARE = KIND.key(lambda own: own.others_share)
FALL_SHARE = KIND.key(lambda own: own.fall_share)
PSU_SHARE = KIND.key(lambda own: own.psu_share)
PCIE_BIT_ERROR_RATE = LIMITS.key(lambda limits: limits.pcie_bit_error_rate)

LINK = "reseat the card and its riser; a link that repeats packets only under switching load lacks power"


def slowed_by_strangers(node: NodeEvidence, trouble: Trouble) -> str | None:
    """Explains a lost rate, and nothing else, if a stranger computed on that card at the time."""
    lowest = None if trouble.finding.measured is None else _lowest(node, Waves(node))
    return None if lowest is None else slowed_by(lowest[0].device, trouble)


@Criterion(
    "power.transient",
    title="load transients",
    scope="node",
    unit="%",
    direction="at_least",
    limit="no restart of the host, no lost GPU, no Xid that fails, no power brake or HW slowdown, no wrong "
    "product while the waves run; each GPU's rate in bursts is at least `stages.transient.others_share` of "
    "its rate before more GPUs took part, in waves of a lower frequency, and, by the same products, in the "
    "sustained stage; and from the first third of its waves to the last, and from its median burst to the "
    "slowest fifth, it keeps `stages.transient.fall_share`. "
    "More PCIe replays than `limits.pcie_bit_error_rate` of the bits that the best link can carry warn; so "
    "does a sampled sum of the cards' draw over `stages.transient.psu_share` of the node's `psu_w`, if the "
    "rig states it",
    limits=(OTHERS_SHARE, FALL_SHARE, PCIE_BIT_ERROR_RATE, PSU_SHARE, XID_FAIL, XID_WARN),
    severity="isolate",
    remedy=SUPPLY,
    unmeasured="too few of the waves were made by all their GPUs, verified, square and in phase "
    "(`stages.transient.wave_share`, `stages.transient.phase_ms`); the bursts are of smaller matrices "
    "than planned without need; a GPU, the agent or the reasons for a "
    "lower clock were not read; or `psu_w` is stated and no power was read. Not applicable if a display is "
    "active on every GPU of the node",
    idling="not measured",
    stages=(STAGE,),
    applies_to_cpu=False,
    caused_by_others=slowed_by_strangers,
)
def transient(node: NodeEvidence) -> Finding:
    """All GPUs of the host switch their load on and off in phase, one GPU more at each step, at 1 to 20 Hz.

    Power sensors are too slow for a transient, so its consequences are judged. Only waves that were really
    made count: each burst's products are verified, and the bursts of a wave begin within
    `stages.transient.phase_ms` of each other. The lowest share of its rate that a GPU keeps is shown. A GPU
    with an active display is left out unless `stages.transient.with_display` says otherwise. An Xid fails by
    the catalogue, `limits.xid_fail` and `limits.xid_warn`, as in health.xid.
    """
    waves = Waves(node)
    if not waves.devices:
        raise NotApplicable("; ".join(f"{one}: {why}" for one, why in waves.left_out.items()))
    whole = node.evidence.whole_window(STAGE)
    for found in consequences(waves, whole):
        return found
    lowest = _lowest(node, waves)
    worst = None if lowest is None else _found(*lowest, waves)
    if worst is not None and worst.outcome is Outcome.FAIL:
        return worst
    waves.require_size()
    for device in waves.devices:
        device.possible(STAGE)
    phase_s = waves.require_made()
    require_seen(waves, waves.whole)
    if worst is None:
        raise NotMeasured("no GPU has enough bursts to compare their rates")
    for warning in _warnings(node, waves):
        return warning
    return worst._replace(detail=_passed(waves, worst.detail, phase_s))


def _lowest(node: NodeEvidence, waves: Waves) -> tuple[Lost, Limit] | None:
    """The GPU that kept least, against its limit; None if no rate could be compared."""
    others, fall = node.limit(OTHERS_SHARE).times(100), node.limit(FALL_SHARE).times(100)
    ways = (
        [(one, others) for one in waves.with_others()],
        [(one, fall) for one in waves.from_wave_to_wave()],
        [(one, fall) for one in waves.from_burst_to_burst()],
        [(one, others) for one in waves.from_slower_waves()],
        [(one, others) for one in waves.from_sustained()],
    )
    lost = [one for way in ways for one in way]
    if not lost:
        return None
    # The first of them that fails says most about the cause.
    failed = next(filter(None, ([one for one in way if _share(one) < 1] for way in ways)), None)
    return min(failed or lost, key=_share)


def _share(one: tuple[Lost, Limit]) -> float:
    """What is left, as a share of the least that must be."""
    lost, limit = one
    return 100 * lost.kept / limit.value


def _found(lost: Lost, limit: Limit, waves: Waves) -> Finding:
    """`n1/gpu0 at 5 Hz: 458 TFLOP/s on 2 GPUs, 657 before n1/gpu1 took part`."""
    kept, window = 100 * lost.kept, waves.window(lost.arm)
    after = f"{figure(lost.after, 'TFLOP/s')} on {figure(lost.arm.gpus, 'GPUs')}"
    detail = f"{lost.device.subject} at {lost.arm.hz} Hz: {after}, {figure(lost.before)} {lost.why}"
    if kept >= limit.value:
        return pass_or_fail(kept, limit, good=True, detail=detail)
    span = {"from_s": window.from_s, "length_s": window.length_s}
    return pass_or_fail(kept, limit, good=False, detail=detail, **span)


def _passed(waves: Waves, worst: str, phase_s: float) -> str:
    frequencies = sorted({arm.hz for arm in waves.arms})
    span = f"{frequencies[0]} to {frequencies[-1]} Hz" if len(frequencies) > 1 else f"{frequencies[0]} Hz"
    several = len(waves.devices) > 1
    parts = [f"waves of {span} on {'up to ' if several else ''}{figure(len(waves.devices), 'GPUs')}"]
    if several:
        parts.append(f"in phase within {1000 * phase_s:.1f} ms")
    parts += [f"without {one}: {why}" for one, why in waves.left_out.items()]
    return f"{worst}; {', '.join(parts)}"


def _warnings(node: NodeEvidence, waves: Waves) -> Iterator[Finding]:
    """Replays of a link, and a draw near the supply's rating."""
    for device in waves.devices:
        yield from _replays(device, waves.whole)
    yield from _near_rating(node, waves.whole)


def _replays(device: DeviceEvidence, window: Window) -> Iterator[Finding]:
    read = device.readings("pcie_replays", window)
    if len(read) < 2:  # a card without this counter; `transfer.link` judges it over the whole run
        return
    rate = device.optional_limit(PCIE_BIT_ERROR_RATE)
    if rate is None:  # a recording from before this limit existed
        return
    try:
        best = [int(best_link(device, name).value) for name in FIELDS]
    except NotMeasured:  # also of a card without those readings; `transfer.link` says so
        return
    minutes = max(1.0, float(read.times_s[-1] - read.times_s[0]) / 60)  # as in `transfer.link`
    per_minute = float(read.values[-1] - read.values[0]) / minutes
    allowed = replays_allowed(rate.value, *best)
    if per_minute > allowed:
        repeated = f"{device.subject} repeated {per_minute:.0f} PCIe packets a minute"
        detail = f"{repeated} under the waves, over {allowed:.3g}"
        source = f"{rate.value:g} of the bits that {link_name(*best)} can carry, {rate.source}"
        yield Finding(Outcome.WARN, detail=detail, remedy=LINK, source=source, from_s=window.from_s)


def _near_rating(node: NodeEvidence, window: Window) -> Iterator[Finding]:
    psu_w = node.node.psu_w
    if psu_w is None:
        return
    evidence, cards = node.evidence, node.cards
    for one in cards:
        try:
            one.require_readings(window, "power_w", "power")
        except NotMeasured as reason:  # also of a card without that sensor: the rig states psu_w
            raise NotMeasured(f"{one.subject}: {reason.reason}, with which psu_w is compared") from None
    read = [one.readings("power_w", window) for one in cards]
    sums = together(read, window, 1 / evidence.rate_hz)
    if not len(sums):
        raise NotMeasured("no power was read of all cards at once, with which psu_w is compared")
    share = node.limit(PSU_SHARE)
    most_w, limit_w = float(np.max(sums)), share.value * psu_w
    if most_w > limit_w:
        detail = (
            f"the cards drew {figure(most_w, 'W')} at once, and more between samples; the supplies deliver "
            f"{figure(psu_w, 'W')}"
        )
        source = f"{share.value:g} of psu_w = {psu_w:g} W, {share.source}"
        yield Finding(Outcome.WARN, detail=detail, source=source, from_s=window.from_s)


CRITERIA = (transient,)


NONE = "–"
COLUMNS = (
    "Node",
    "GPUs",
    "Hz",
    "Waves",
    "High, W",
    "Low, W",
    "Mean, W",
    "1 s average, W",
    "Peak of a card, W",
    "Of its limit, %",
    "J/TFLOP",
    "TFLOP/s",
    "Begin apart, ms",
)
NOTE = (
    "High and low: sums over these GPUs at a moment, as sampled; what is between two samples is not seen. "
    "Mean: by their energy counters. Peak: the highest instant reading of one card, also as a share of its "
    "enforced limit. J/TFLOP: energy over verified work, pauses included. TFLOP/s: of all together while a "
    "burst lasts. Begin apart: the most between two GPUs in a wave."
)


def tables(recording: Recording) -> Iterator[StageTable]:
    """One row for each node, number of GPUs and frequency."""
    done = _bursts(recording)
    rows = []
    for node in dict.fromkeys(subject.partition("/")[0] for subject in done):
        own = {subject: rounds for subject, rounds in done.items() if subject.startswith(f"{node}/")}
        labels = {
            (gpus, hz)
            for rounds in own.values()
            for gpus, hz in zip(rounds.labels("gpus"), rounds.labels("hz"), strict=True)
            if isinstance(gpus, int) and isinstance(hz, int) and hz > 0
        }
        rows += [_row(recording, node, own, gpus, hz) for gpus, hz in sorted(labels)]
    if rows:
        yield StageTable(
            section="Power", title="Load switched on and off", columns=COLUMNS, rows=tuple(rows), note=NOTE
        )


def _bursts(recording: Recording) -> dict[str, Rounds]:
    """The verified bursts of the last attempt at the stage, by device."""
    begun = recording.stages.get(STAGE)
    found = {}
    for subject in recording.rounds.subjects():
        rounds = Rounds.of_subject(recording.rounds, subject)
        rounds = rounds.only(rounds.same("stage", STAGE)).verified
        if begun is not None:
            rounds = rounds.only(rounds.t_s >= begun.start_s)
        if len(rounds):
            found[subject] = rounds
    return found


def _row(recording: Recording, node: str, done: Mapping[str, Rounds], gpus: int, hz: int) -> tuple[str, ...]:
    own = {subject: part for subject, rounds in done.items() if len(part := rounds.having(gpus=gpus, hz=hz))}
    begin_s = min(float(rounds.begins_s.min()) for rounds in own.values())
    window = Window(begin_s, max(float(rounds.begins_s.max()) for rounds in own.values()) + 1 / hz)
    rate_hz = float(recording.run.rig.get("sampling", {}).get("rate_hz", 10.0))
    instant = [_read(recording, subject, "power_w", window) for subject in own]
    average = [_read(recording, subject, "power_average_w", window) for subject in own]
    energy = [_read(recording, subject, "energy_j", window) for subject in own]
    sums, means = (together(read, window, 1 / rate_hz) for read in (instant, average))
    peak_w, share = _peak(recording, dict(zip(own, instant, strict=True)))
    mean_w = sum(map(_mean_w, energy))
    tflop = sum(float(rounds.work.sum()) for rounds in own.values())
    rate = sum((rounds.measured if len(rounds.measured) else rounds).rate() for rounds in own.values())
    return (
        node,
        str(gpus),
        str(hz),
        str(max(map(len, own.values()))),
        figure(float(sums.max())) if len(sums) else NONE,
        figure(float(sums.min())) if len(sums) else NONE,
        _shown(mean_w),
        figure(float(means.mean())) if len(means) else NONE,
        _shown(peak_w),
        _shown(100 * share),
        _shown(mean_w * window.length_s / tflop),
        figure(rate),
        _shown(1000 * _apart_s(list(own.values()), begin_s, hz)) if len(own) > 1 else NONE,
    )


def _read(recording: Recording, subject: str, field: str, window: Window) -> Readings:
    return Readings.of(recording.gpu_samples.in_order_of_time(subject), field, window)


def _mean_w(energy: Readings) -> float:
    """A card's mean power, by its energy counter, W; NaN if it was not read twice."""
    if len(energy) < 2 or energy.times_s[-1] <= energy.times_s[0]:
        return float("nan")
    return float((energy.values[-1] - energy.values[0]) / (energy.times_s[-1] - energy.times_s[0]))


def _peak(recording: Recording, instant: Mapping[str, Readings]) -> tuple[float, float]:
    """The highest reading of one card, W, and as a share of its enforced limit; NaN if not known."""
    read = {subject: one.highest for subject, one in instant.items() if len(one)}
    if not read:
        return float("nan"), float("nan")
    subject = max(read, key=lambda one: read[one])
    gpu = recording.gpus.get(subject)
    limit_w = gpu.power_limit_w if gpu is not None else None
    return read[subject], read[subject] / limit_w if limit_w else float("nan")


def _apart_s(own: Sequence[Rounds], begin_s: float, hz: int) -> float:
    """The most by which two GPUs began the same wave apart, s; NaN if no wave has several bursts."""
    begins_s = np.concatenate([rounds.begins_s for rounds in own])
    waves = np.rint((begins_s - begin_s) * hz).astype(np.intp)
    of_waves = (begins_s[waves == wave] for wave in np.unique(waves))
    return max((float(np.ptp(one)) for one in of_waves if len(one) > 1), default=float("nan"))


def _shown(value: float) -> str:
    return figure(value) if np.isfinite(value) else NONE
