"""Does a training step give the same bits each time and on every equal card, and does its loss fall?"""

import math
from collections.abc import Iterator
from contextlib import suppress

from rigproof.criteria.criterion import Criterion, Finding, Limit, NotMeasured, pass_or_fail
from rigproof.criteria.evidence.comparable import UNDECIDED
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.records.measurements import Event
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome
from rigproof.stages.replay.evidence import first_difference, replayed
from rigproof.stages.replay.stage import KIND, STAGE, number_of
from rigproof.stages.tables import StageTable

LOSS_SHARE = KIND.key(lambda own: own.loss_share)

FEWEST_RUNS = 2  # that gave the same bits: the first one, and one that is compared with it
FINITE = "every loss is finite"


@Criterion(
    "training.replay",
    title="replayed step",
    unit="runs",
    direction="at_most",
    limit="none may differ. Loss, outputs, gradients and updated weights of each block are compared with the "
    "first run of the same steps on this card, and with every card of the run of the same model, number of "
    "multiprocessors and compute capability that trained the same model with the same torch and cuBLAS; the "
    "majority is right, and without a majority all that differ fail",
    severity="isolate",
    remedy="do not train on this card; run it in another slot, and replace it if it is wrong there",
    unmeasured="fewer than 2 verified runs, or fewer reported than recorded; a value whose checksum was not "
    "reported; or runs that were counted as different without a wrong result",
    stages=(STAGE,),
)
def replay(device: DeviceEvidence) -> Finding:
    """Training steps from the same start give the same bits each time, and on every equal card.

    With strictly deterministic algorithms. The first value that differs is named: the step, whether it is an
    output, a gradient or a weight, its block and its parameter. A lone card, and the CPU as the device, are
    only compared with themselves.
    """
    wrong = [one for one in device.events("wrong_result") if one.stage == STAGE]
    if wrong:
        count = sum(one.number for one in wrong)
        with suppress(NotMeasured):
            count = max(count, replayed(device).differing)
        source = "the first run of the same steps on this card"
        return pass_or_fail(count, Limit(0, source), good=False, detail=wrong[0].message, from_s=wrong[0].t_s)
    own = replayed(device)
    if own.differing:
        number = f"{own.differing} runs that differ" if own.differing > 1 else "1 run that differs"
        raise NotMeasured(f"{number} from the first one, of which no wrong result tells")
    rounds = device.rounds(STAGE)
    runs = len(rounds.verified)
    if sizes := rounds.distinct_labels("size") - {own.width}:
        raise NotMeasured(f"rounds of a model of width {sizes.pop()}, and one of {own.width} was reported")
    if own.runs < len(rounds):
        raise NotMeasured(f"{own.runs} runs were reported, and {len(rounds)} recorded")
    if runs < FEWEST_RUNS:
        raise NotMeasured(f"fewer than {FEWEST_RUNS} verified runs of the steps", device.cause())
    difference, others = first_difference(device)
    if difference is None:
        where = f"and on {others} other card{'s' if others > 1 else ''}" if others else "on this card alone"
        detail = f"{len(own.places)} values of {own.steps} steps are the same in {runs} runs {where}"
        return pass_or_fail(0.0, Limit(0, "the same steps of comparable cards"), good=True, detail=detail)
    undecided = difference.dissent.undecided
    where = f"on {device.subject}" if undecided else "here"
    return pass_or_fail(
        runs,
        Limit(0, "the same steps of comparable cards"),
        good=False,
        detail=f"{difference.place.in_words}: {difference.got} {where} and {difference.dissent.in_words}",
        remedy=UNDECIDED if undecided else "",
    )


@Criterion(
    "training.loss",
    title="loss falls",
    unit="%",
    direction="at_most",
    limit="`stages.replay.loss_share` of the first loss, after the last step; every loss must be finite",
    limits=(LOSS_SHARE,),
    severity="isolate",
    remedy="look at training.replay and compute.exact first; if they pass on every card, reinstall torch",
    unmeasured="the losses of the replayed steps were not reported",
    stages=(STAGE,),
)
def loss(device: DeviceEvidence) -> Finding:
    """Training steps on one batch lower its loss: the steps that are replayed also learn.

    Bits that are the same each time may still be those of steps that train nothing.
    """
    losses = replayed(device).losses
    for step, value in enumerate(losses, 1):
        if not math.isfinite(value):
            return Finding(Outcome.FAIL, detail=f"the loss is {value} in step {step}", source=FINITE)
    share = 100 * losses[-1] / losses[0] if losses[0] > 0 else math.nan
    detail = f"{losses[0]:.3f} to {losses[-1]:.3f} nats in {len(losses)} steps"
    limit = device.optional_limit(LOSS_SHARE)
    if limit is None:
        return Finding(Outcome.NO_LIMIT, share, detail=detail)
    highest = limit.times(100)
    return pass_or_fail(share, highest, good=share <= highest.value, detail=detail)


CRITERIA = (replay, loss)


def tables(recording: Recording) -> Iterator[StageTable]:
    """What each device trained, how often, and whether all runs gave the same bits."""
    events = [one for one in recording.events if one.stage == STAGE and recording.is_last(one)]
    wrong = {one.subject for one in events if one.kind == "wrong_result"}
    last = {one.subject: one for one in events if one.kind == "replay"}  # of several laps
    yield StageTable(
        "Replayed training step",
        "The same training steps from the same start, again and again",
        ("Device", "Precision", "Own runs", "Width", "Examples", "Steps", "Values", "Runs", "Loss"),
        tuple(_row(one, wrong) for one in last.values()),
        labels=3,
        note="Strictly deterministic. Values: the checksums of all outputs, gradients and weights of a run.",
    )


def _row(event: Event, wrong: set[str]) -> tuple[str, ...]:
    data, losses = event.data, event.data.get("losses")
    blocks, steps = data.get("blocks"), data.get("steps")
    values = number_of(blocks, steps) if isinstance(blocks, int) and isinstance(steps, int) else ""
    ends = f"{losses[0]} to {losses[-1]}" if isinstance(losses, list) and losses else ""
    numbers = [str(data.get(name, "")) for name in ("width", "batch", "steps")]
    bits = "differ" if event.subject in wrong else "the same"
    precision = str(data.get("precision", ""))
    return event.subject, precision, bits, *numbers, str(values), str(data.get("runs", "")), ends
