"""How fast is a training step in absolute terms? A card that is slow in all precisions has a good ratio."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from rigproof.criteria.criterion import Finding, Limit, NotMeasured, compared, criterion
from rigproof.criteria.effects import WITHOUT_WORK, Also
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.floors import SLOW, Measured, against
from rigproof.criteria.evidence.rates import median_of_others, precision_rate
from rigproof.criteria.evidence.strangers import slowed_by
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
    """All of them, since the others' steps are part of each one's floor."""
    return devices


@criterion(
    "training.step",
    title="training step",
    scope="device",
    unit="TFLOP/s",
    direction="at_least",
    limit="the floor in the rig profile; else the highest of: `limits.champion_share` of this GPU's "
    "champion; a share of the SKU file's `training_tflops`, by its evidence, unless that is for a larger "
    "model or batch; `limits.peer_share` of the median of the other GPUs of the same SKU that trained the "
    "same model and batch under the same power limit; for a card without a SKU file, "
    "`stages.training.training_unknown_share` of its own rate in throughput.gemm_fp16. Else none, and the "
    "figure becomes the baseline. The same batch in the sweep must reach "
    "`limits.stability_worst_window_share` of the step",
    severity="isolate",
    remedy=SLOW,
    unmeasured="fewer than 3 verified rounds of fp16 in the comparison of precisions, or one that is faster "
    "than the silicon at its highest clock; not required if an unknown device has no fp16",
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
    """The rate of verified training steps in fp16 (autocast, GradScaler), from the model's operation count.

    At the batch size at which precisions are compared; work over time by the device's own clock, without the
    slowest tenth of the rounds.
    """
    own = _step(device)
    labels: Labels = {"precision": own.precision, "size": own.size, "batch": own.batch}
    measured = Measured(STEP, step_conditions(device, own), labels)
    others = [floor for floor in (_peer_floor(device, own), _gemm_floor(device, own)) if floor is not None]
    finding = against(device, own.tflops, measured, *others)
    return finding if finding.outcome is Outcome.FAIL else _slow_sweep(device, own) or finding


def _step(device: DeviceEvidence) -> StepTime:
    """The fp16 step at the largest batch. Raises NotMeasured if there is none."""
    compared_steps = training_steps(device).compared
    steps = [time for (precision, _), time in compared_steps.items() if precision == "fp16"]
    if not steps:
        raise_unmeasured(device, "too few verified rounds of fp16")
    return max(steps, key=lambda time: time.batch)  # after an OOM there are also smaller ones


def _peer_floor(device: DeviceEvidence, own: StepTime) -> Limit | None:
    """A share of its peers' median rate; None without peers or without that limit."""
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
    """A share of the rate of its own matrix products, for a card without a SKU file."""
    share = device.optional_limit("training_unknown_share", "training")
    if device.device.sku is not None or share is None:
        return None
    try:
        done = precision_rate(device, own.precision)
    except NotMeasured:
        return None
    if done is None or len(done.rounds) < FEWEST_ROUNDS:
        return None
    source = f"{share.value:g} of {figure(done.tflops, 'TFLOP/s')}, its own throughput.gemm_{own.precision}"
    return Limit(share.value * done.tflops, f"{source}; {share.source}")


def _slow_sweep(device: DeviceEvidence, own: StepTime) -> Finding | None:
    """The failure of a step that was slower in the sweep: the card slowed down during the stage."""
    swept = training_steps(device).swept.get((own.precision, own.batch))
    if swept is None:
        return None
    share = device.limit("stability_worst_window_share")
    if swept.tflops >= share.value * own.tflops:
        return None
    source = (
        f"{share.value:g} of {figure(own.tflops, 'TFLOP/s')}, the same step before the sweep; {share.source}"
    )
    limit = Limit(share.value * own.tflops, source)
    return compared(swept.tflops, limit, good=False, detail=f"{own.batch} examples in the sweep")


def _rates_by_group(evidence: Evidence) -> Mapping[Group, list[float]]:
    by_group: dict[Group, list[float]] = defaultdict(list)
    for device in evidence.devices:
        if device.is_cpu or not device.found:
            continue
        try:
            own = _step(device)
        except NotMeasured:
            continue
        group = _group(device, own)
        if group is not None:
            by_group[group].append(own.tflops)
    return {group: sorted(rates) for group, rates in by_group.items()}


def _group(device: DeviceEvidence, own: StepTime) -> Group | None:
    """The peers to compare it with; None without a SKU file, since such cards may differ in anything."""
    stem, power_w = device.device.sku_stem, device.identity.power_limit_w
    if stem is None:
        return None
    return (
        stem,
        own.size,
        own.batch,
        round(power_w) if power_w is not None and math.isfinite(power_w) else None,
    )


CRITERIA = (speedup, step)
