"""How fast is a training step in absolute terms? A card that is slow in all precisions has a good ratio."""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from rigproof.criteria.criterion import Criterion, Finding, Limit, NotMeasured, pass_or_fail
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.floors import CHAMPION_SHARE, SLOW, Measured, against, sku_floor
from rigproof.criteria.evidence.rates import GroupOf, peers_of, precision_rate
from rigproof.criteria.evidence.repeated import paced_by_host
from rigproof.criteria.evidence.rounds import FEWEST_ROUNDS, Rounds
from rigproof.criteria.evidence.slowed import rate_slowed_by
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.tables.limits import LIMITS
from rigproof.records.measurements import Event, Labels, Round
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, figure
from rigproof.stages.tables import StageTable
from rigproof.stages.training.precision import (
    PART,
    SWEEP,
    StepTime,
    raise_unmeasured,
    spans_of,
    speedup,
    step_conditions,
    step_times,
    training_steps,
    trains_in_fp16,
    wrong_losses,
)
from rigproof.stages.training.stage import KIND, STEP

PEER_SHARE = LIMITS.key(lambda limits: limits.peer_share)
TRAINING_UNKNOWN_SHARE = KIND.key(lambda own: own.training_unknown_share)
STABILITY_WORST_WINDOW_SHARE = LIMITS.key(lambda limits: limits.stability_worst_window_share)
HOST_PACED_SHARE = KIND.key(lambda own: own.host_paced_share)
BEST_QUARTER_SHARE = LIMITS.key(lambda limits: limits.best_quarter_share)
PRECISION_SHARE = KIND.key(lambda own: own.precision_share)

WRONG = "do not train on this card; see compute.exact, and try it in another slot"


def _with_the_others(_loaded: LoadedRig, devices: Sequence[PromisedDevice]) -> Sequence[PromisedDevice]:
    """All of them, since the others' steps are part of each one's floor."""
    return devices


@Criterion(
    "training.step",
    title="training step",
    unit="TFLOP/s",
    direction="at_least",
    limit="the floor in the rig profile; else the highest of: `limits.champion_share` of this GPU's champion;"
    " a share of the SKU file's `training_tflops`, by its evidence, unless that is for a larger model "
    "or batch; `limits.peer_share` of the median of the other GPUs of the same SKU that trained the "
    "same model and batch, scaled down to this GPU's enforced power limit; for a card without such a "
    "figure, `stages.training.training_unknown_share` of its own rate in throughput.gemm_fp16. Else "
    "none, and the figure becomes the baseline. Each other step (in fp32 and tf32, and of each batch of"
    " the sweep) must reach `limits.stability_worst_window_share` of its peers' median (in the sweep of"
    " those of its host, and only if the card sets its pace, by `stages.training.host_paced_share`) "
    "and, if it is the same step, of the one before the sweep; `limits.best_quarter_share` of what the "
    "card's other batches imply (more examples do no less work a second, fewer take no longer); and in "
    "fp32 and tf32 `stages.training.precision_share` of what its products in both precisions and the "
    "step in fp16 imply. The losses that were reported must be finite, have fallen, and be those of "
    "fp32 within 4 unit roundoffs",
    limits=(
        CHAMPION_SHARE,
        PEER_SHARE,
        TRAINING_UNKNOWN_SHARE,
        STABILITY_WORST_WINDOW_SHARE,
        HOST_PACED_SHARE,
        BEST_QUARTER_SHARE,
        PRECISION_SHARE,
    ),
    severity="isolate",
    remedy=SLOW,
    unmeasured="fewer than 3 verified rounds of fp16 in the comparison of precisions, or one that is faster "
    "than the silicon at its highest clock, or the losses of a precision were not reported; not required if "
    "an unknown device has no fp16",
    idling="not measured",
    stages=("training",),
    applies_to_cpu=False,
    holds_for=trains_in_fp16,
    eligible=_with_the_others,
    rate=True,
    figures=(STEP,),
    caused_by_others=rate_slowed_by,
)
def step(device: DeviceEvidence) -> Finding:
    """The rate of verified training steps in fp16 (autocast, GradScaler), from the model's operation count.

    At the batch size at which precisions are compared; work over time by the device's own clock, without the
    slowest tenth of the rounds.
    """
    if wrong := wrong_losses(device):
        return Finding(Outcome.FAIL, detail=wrong, remedy=WRONG, source="the losses of correct steps")
    own = _step(device)
    labels: Labels = {"precision": own.precision, "size": own.size, "batch": own.batch}
    measured = Measured(STEP, step_conditions(device, own), labels)
    share = device.optional_limit(PEER_SHARE)
    peers = None if share is None else _peer_floor(device, PART, own, share)
    others = [floor for floor in (peers, _gemm_floor(device, measured)) if floor is not None]
    finding = against(device, own.tflops, measured, *others)
    if finding.outcome is Outcome.FAIL:
        return finding._replace(over=spans_of(device, PART, own))
    return _slow_step(device, own) or finding


def _step(device: DeviceEvidence) -> StepTime:
    """The fp16 step at the largest batch. Raises NotMeasured if there is none."""
    steps = [time for time in training_steps(device)[PART].values() if time.precision == "fp16"]
    if not steps:
        raise_unmeasured(device, "too few verified rounds of fp16")
    return max(steps, key=lambda time: time.batch)  # after an OOM there are also smaller ones


def _peer_floor(device: DeviceEvidence, part: str, step: StepTime, share: Limit) -> Limit | None:
    """A share of what its peers reach in the same step of the same part; None without peers."""
    peers = peers_of(device, ("training", part, step.precision, step.batch), _grouped(part, step))
    if peers is None:
        return None
    of = f"{peers.in_words} of {device.device.sku_stem} in this run"
    return Limit(
        share.value * peers.middle,
        f"{share.value:g} of {figure(peers.middle, 'TFLOP/s')}, {of}; {share.source}",
    )


def _grouped(part: str, step: StepTime) -> GroupOf:
    """By what a card's rate in this step is compared: the SKU file and the model's width.

    In the sweep by the host, too: small batches wait for it.
    """

    def group(device: DeviceEvidence) -> tuple[Hashable, float] | None:
        stem = device.device.sku_stem
        if stem is None:  # such cards may differ in anything
            return None
        try:
            own = training_steps(device)[part].get((step.precision, step.batch))
        except NotMeasured:
            return None
        host = device.node_name if part == SWEEP else ""
        return None if own is None else ((stem, own.size, host), own.tflops)

    return group


def _gemm_floor(device: DeviceEvidence, measured: Measured) -> Limit | None:
    """A share of the rate of its own matrix products, for a card whose model has no figure for this step."""
    share = device.optional_limit(TRAINING_UNKNOWN_SHARE)
    if share is None or sku_floor(device, measured) is not None:
        return None
    precision = measured.here.precision
    products = _products(device, precision)
    if products is None:
        return None
    source = f"{share.value:g} of {figure(products, 'TFLOP/s')}, its own throughput.gemm_{precision}"
    return Limit(share.value * products, f"{source}; {share.source}")


def _slow_step(device: DeviceEvidence, own: StepTime) -> Finding | None:
    """The failure of any other step, the slowest by its limit; None if all are as fast as they should be."""
    every = [(part, step) for part, steps in training_steps(device).items() for step in steps.values()]
    judged = [
        (part, step, limit) for part, step in every for limit in _limits(device, part, step, own, every)
    ]
    slow = [one for one in judged if one[1].tflops < one[2].value]
    if not slow:
        return None
    part, step, limit = min(slow, key=lambda one: one[1].tflops / one[2].value)
    where = " in the sweep" if part == SWEEP else ""
    detail = f"a step of {step.batch} examples in {step.precision}{where}"
    over = spans_of(device, part, step)
    return pass_or_fail(step.tflops, limit, good=False, detail=detail, over=over)


def _limits(
    device: DeviceEvidence, part: str, step: StepTime, own: StepTime, every: Sequence[tuple[str, StepTime]]
) -> Iterator[Limit]:
    """What a step is held against besides the floor of `own`: peers, and the card's own other work."""
    same = device.limit(STABILITY_WORST_WINDOW_SHARE)
    others = [one for _, one in every if one is not step]
    if step is not own and not (part == SWEEP and _paced_by_host(device, step, others)):
        peers = _peer_floor(device, part, step, same)
        if peers is not None:
            yield peers
    if part == SWEEP and (step.precision, step.batch) == (own.precision, own.batch):
        of = f"{same.value:g} of {figure(own.tflops, 'TFLOP/s')}, the same step before the sweep"
        yield Limit(same.value * own.tflops, f"{of}; {same.source}")
    yield from _of_batches(device, step, others)
    if step.precision != own.precision and step.batch == own.batch:
        yield from _of_products(device, step, own)


def _paced_by_host(device: DeviceEvidence, step: StepTime, others: Sequence[StepTime]) -> bool:
    """Whether it takes about as long as a step of more examples."""
    alike = [one for one in others if (one.precision, one.size) == (step.precision, step.size)]
    longer = [one.seconds for one in alike if one.batch > step.batch]
    return paced_by_host(device.optional_limit(HOST_PACED_SHARE), step.seconds, longer)


def _of_batches(device: DeviceEvidence, step: StepTime, others: Sequence[StepTime]) -> Iterator[Limit]:
    """A step of more examples does no less work a second, and one of fewer takes no longer."""
    share = device.optional_limit(BEST_QUARTER_SHARE)
    like = [one for one in others if (one.precision, one.size) == (step.precision, step.size)]
    if share is None or not like:
        return
    best, batch = max((one.tflops * min(1.0, step.batch / one.batch), one.batch) for one in like)
    source = f"{share.value:g} of {figure(best, 'TFLOP/s')}, by its steps of {batch} examples; {share.source}"
    yield Limit(share.value * best, source)


def _of_products(device: DeviceEvidence, step: StepTime, own: StepTime) -> Iterator[Limit]:
    """A step gets as much of the rate of products of its precision as a faster one does of its own."""
    share = device.optional_limit(PRECISION_SHARE)
    here, there = (_products(device, precision) for precision in (step.precision, own.precision))
    if share is None or here is None or there is None or own.tflops > there:
        return  # no step is faster than its products: those were slow, which their own criterion says
    expected = own.tflops * here / there
    source = (
        f"{share.value:g} of {figure(expected, 'TFLOP/s')}, by its step in {own.precision} and its "
        f"throughput.gemm_{step.precision} and gemm_{own.precision}; {share.source}"
    )
    yield Limit(share.value * expected, source)


def _products(device: DeviceEvidence, precision: str) -> float | None:
    """TFLOP/s of its matrix products in a precision; None if they were not measured."""
    try:
        done = precision_rate(device, precision)
    except NotMeasured:
        return None
    return None if done is None or len(done.rounds) < FEWEST_ROUNDS else done.tflops


CRITERIA = (speedup, step)


SECTION = "Training"
LEFT_OUT = "left out"


def tables(recording: Recording) -> Iterator[StageTable]:
    """Step time and rate of each precision and each batch size, and the largest batch that fits."""
    events = [event for event in recording.events if event.stage == "training" and recording.is_last(event)]
    rounds: dict[str, list[Round]] = {}
    for done in recording.rounds:
        if done.stage == "training" and done.device is None and recording.is_last(done):
            rounds.setdefault(done.subject, []).append(done)
    models = {event.subject: event.data for event in events if event.kind == "model"}
    searched = [event for event in events if event.kind == "batch_search"]
    largest = {  # the last of several laps
        (event.subject, str(event.data.get("precision"))): event
        for event in searched
        if event.data.get("what") == "largest"
    }
    yield StageTable(
        SECTION,
        "Precisions",
        ("Device", "Precision", "Examples", "Step", "Tokens/s", "Rate", "Of fp32"),
        tuple(row for subject, own in rounds.items() for row in _precisions(subject, own, models)),
        labels=2,
        note=_model_note(models),
    )
    yield StageTable(
        SECTION,
        "Largest batch",
        ("Device", "Precision", "Examples", "Peak memory", "Allowed", "Too large"),
        tuple(map(_largest, largest.values())),
        labels=2,
        note="Sizes predicted not to fit were not tried.",
    )
    yield StageTable(
        SECTION,
        "Batch sizes",
        ("Device", "Precision", "Examples", "Step", "Examples/s", "Tokens/s", "Rate", "Peak memory"),
        tuple(row for subject, own in rounds.items() for row in _sweep(subject, own, models, searched)),
        labels=2,
    )


def _precisions(
    subject: str, rounds: list[Round], models: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, ...]]:
    times = step_times(Rounds.of_records(rounds), "precision")
    for (precision, batch), time in times.items():
        slow = times.get(("fp32", batch))
        ratio = "" if slow is None else f"{slow.seconds / time.seconds:.2f} ×"
        yield (subject, precision, str(batch), *_speed(time, models.get(subject, {})), ratio)


def _sweep(
    subject: str, rounds: list[Round], models: Mapping[str, Mapping[str, Any]], searched: list[Event]
) -> Iterator[tuple[str, ...]]:
    own = [event for event in searched if event.subject == subject]
    peaks = {event.data.get("batch"): event.data for event in own if event.data.get("what") == "sweep"}
    rows: dict[int, tuple[str, ...]] = {}
    for (precision, batch), time in step_times(Rounds.of_records(rounds), "sweep").items():
        step, tokens, rate = _speed(time, models.get(subject, {}))
        examples = f"{batch / time.seconds:,.1f}"
        peak = _mib(peaks.get(batch, {}).get("peak_mib"))
        rows[batch] = (subject, precision, str(batch), step, examples, tokens, rate, peak)
    for data in (event.data for event in own if event.data.get("what") == "skipped"):
        size = data.get("batch")
        if isinstance(size, int):
            precision, predicted = str(data.get("precision", "")), _mib(data.get("peak_mib"))
            row = (subject, precision, str(size), LEFT_OUT, "", "", "", predicted and f"({predicted})")
            rows.setdefault(size, row)
    yield from (row for _, row in sorted(rows.items()))


def _speed(time: StepTime, model: Mapping[str, Any]) -> tuple[str, str, str]:
    """Step time, tokens per second, rate."""
    sequence = model.get("sequence")
    tokens = f"{time.batch * sequence / time.seconds:,.0f}" if isinstance(sequence, int) else ""
    return figure(1000 * time.seconds, "ms"), tokens, figure(time.tflops, "TFLOP/s")


def _largest(event: Event) -> tuple[str, ...]:
    data = event.data
    batch, beyond = data.get("batch"), data.get("too_large")
    return (
        event.subject,
        str(data.get("precision", "")),
        f"{batch or 'none'}" + ("" if data.get("complete", True) else " (time was over)"),
        _mib(data.get("peak_mib")),
        _mib(data.get("limit_mib")),
        "" if beyond is None else str(beyond),
    )


def _mib(value: object) -> str:
    return f"{value:,.0f} MiB" if isinstance(value, int | float) else ""


def _model_note(models: Mapping[str, Mapping[str, Any]]) -> str:
    sentences = [
        f"{subject} trains {figure(model['parameters'] / 1e6, 'M')} parameters "
        f"({model['blocks']} blocks of width {model['width']}, {model['sequence']} tokens per example)"
        for subject, model in models.items()
        if {"parameters", "blocks", "width", "sequence"} <= set(model)
    ]
    return "; ".join(sentences) + "." if sentences else ""


def measured_rounds(recording: Recording, subject: str) -> list[Round]:
    """The fp16 rounds of the comparison of precisions, at the largest batch with enough rounds to judge."""
    by_batch: dict[int, list[Round]] = defaultdict(list)
    for done in recording.rounds.of(subject):
        measured = done.stage == "training" and done.label("part") == PART and done.phase == "measure"
        fp16, batch = done.label("precision") == "fp16", done.label("batch")
        if measured and fp16 and done.verified and isinstance(batch, int) and batch:
            by_batch[batch].append(done)
    enough = [batch for batch, rounds in by_batch.items() if len(rounds) >= FEWEST_ROUNDS]
    return by_batch[max(enough)] if enough else []
