"""How fast is a training step by itself? A card that is slow in every precision has a good ratio of two."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from rigproof.criteria.criterion import Finding, Limit, NotMeasured, compared, criterion
from rigproof.criteria.effects import WITHOUT_WORK, Also
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.floors import SLOW, Measured, against
from rigproof.criteria.evidence.rates import median_of_others, precision_rounds
from rigproof.criteria.evidence.strangers import slowed_by
from rigproof.criteria.evidence.subjects import DeviceEvidence
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.records.measurements import Labels
from rigproof.records.verdict import Outcome, figure
from rigproof.stages.training.precision import (
    FEWEST_ROUNDS,
    StepTime,
    raise_unmeasured,
    speedup,
    step_conditions,
    training_steps,
    trains_in_fp16,
)
from rigproof.stages.training.settings import STEP

Group = tuple[str, int, int, int | None]  # SKU file, the model's width, examples, enforced power limit in W


def _with_the_others(_loaded: LoadedRig, devices: Sequence[PromisedDevice]) -> Sequence[PromisedDevice]:
    """All of them, and judged last: the others' steps are part of each one's floor."""
    return devices


@criterion(
    "training.step",
    scope="device",
    unit="TFLOP/s",
    limit="the floor in the rig profile; else the highest one of `limits.champion_share` of this GPU's "
    "champion, of a share of the SKU file's `training_tflops`, by its evidence, where that is of "
    "no larger model or batch, and of `limits.peer_share` of the median of the other GPUs of the "
    "same SKU that trained the same model and batch under the same power limit; of a card without a "
    "SKU file, `stages.training.training_unknown_share` of its own rate in throughput.gemm_fp16; else none, "
    "and the figure becomes the baseline. The same batch in the sweep reaches "
    "`limits.stability_worst_window_share` of the step. More than the silicon can do at its highest clock "
    "is not measured",
    remedy=SLOW,
    unmeasured="fewer than 3 verified rounds of fp16 in the comparison of precisions, or one that the "
    "silicon cannot do; not required where an unknown device has no fp16",
    also=Also(
        fails=("straggler", "throughput-sag", "thermal-throttle", "clock-stuck", "clock-locked"),
        unmeasured=(*WITHOUT_WORK, "gpu-idle", "stranger-computes", "stranger-computes:after=5%"),
    ),
    stages=("training",),
    applies_to_cpu=False,
    holds_for=trains_in_fp16,
    among=_with_the_others,
    rate=True,
    figures=(STEP,),
    explained=slowed_by,
)
def step(device: DeviceEvidence) -> Finding:
    """The rate of verified training steps in fp16 (autocast, GradScaler), by the work that the model counts.

    At the batch size at which precisions are compared; work over time by the device's own clock, without the
    slowest tenth of the rounds.
    """
    own = _step(device)
    labels: Labels = {"precision": own.precision, "size": own.size, "batch": own.batch}
    measured = Measured(STEP, step_conditions(device, own), labels)
    others = [one for one in (_peer_floor(device, own), _gemm_floor(device, own)) if one is not None]
    finding = against(device, own.tflops, measured, *others)
    return finding if finding.outcome is Outcome.FAIL else _slow_sweep(device, own) or finding


def _step(device: DeviceEvidence) -> StepTime:
    """The step in fp16 at the largest batch that has one. NotMeasured where there is none."""
    steps = [one for (precision, _), one in training_steps(device).compared.items() if precision == "fp16"]
    if not steps:
        raise_unmeasured(device, "too few verified rounds of fp16")
    return max(steps, key=lambda one: one.batch)  # after an OOM there are smaller ones too


def _peer_floor(device: DeviceEvidence, own: StepTime) -> Limit | None:
    """A share of what the others of its kind do; None where it has none, or nobody compares."""
    evidence, share = device.evidence, device.optional_limit("peer_share")
    group = _group(device, own)
    if share is None or group is None:
        return None
    rates = evidence.kept("training peers", lambda: _rates_by_group(evidence))[group]
    if len(rates) < 2:
        return None
    middle = median_of_others(rates, own.tflops)
    others = "the other one" if len(rates) == 2 else f"the median of {len(rates) - 1} others"
    return Limit(
        share.value * middle,
        f"{share.value:g} of {figure(middle, 'TFLOP/s')}, {others} of {device.device.sku_stem} in this run; "
        f"{share.source}",
    )


def _gemm_floor(device: DeviceEvidence, own: StepTime) -> Limit | None:
    """A share of its own matrix products, where there is no SKU file that could tell more."""
    share = device.optional_limit("training_unknown_share", "training")
    if device.device.sku is not None or share is None:
        return None
    try:
        rounds = precision_rounds(device, own.precision)
    except NotMeasured:
        return None
    if len(rounds) < FEWEST_ROUNDS:
        return None
    rate = rounds.rate()
    source = f"{share.value:g} of {figure(rate, 'TFLOP/s')}, its own throughput.gemm_{own.precision}"
    return Limit(share.value * rate, f"{source}; {share.source}")


def _slow_sweep(device: DeviceEvidence, own: StepTime) -> Finding | None:
    """The failure of a sweep that was slower with the same step: the card slowed down within the stage."""
    again = training_steps(device).swept.get((own.precision, own.batch))
    if again is None:
        return None
    share = device.limit("stability_worst_window_share")
    if again.tflops >= share.value * own.tflops:
        return None
    source = (
        f"{share.value:g} of {figure(own.tflops, 'TFLOP/s')}, the same step before the sweep; {share.source}"
    )
    limit = Limit(share.value * own.tflops, source)
    return compared(again.tflops, limit, good=False, detail=f"{own.batch} examples in the sweep")


def _rates_by_group(evidence: Evidence) -> Mapping[Group, list[float]]:
    found: dict[Group, list[float]] = defaultdict(list)
    for device in evidence.devices:
        if device.is_cpu or not device.found:
            continue
        try:
            one = _step(device)
        except NotMeasured:
            continue
        group = _group(device, one)
        if group is not None:
            found[group].append(one.tflops)
    return {group: sorted(rates) for group, rates in found.items()}


def _group(device: DeviceEvidence, one: StepTime) -> Group | None:
    """Whom it is compared with; cards that no SKU file describes may differ in anything."""
    stem, power_w = device.device.sku_stem, device.identity.power_limit_w
    if stem is None:
        return None
    return (
        stem,
        one.size,
        one.batch,
        round(power_w) if power_w is not None and math.isfinite(power_w) else None,
    )


CRITERIA = (speedup, step)
