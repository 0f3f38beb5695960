"""Does the CPU compute rewards fast enough to keep the generating GPU fed?"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np

from rigproof.criteria.criterion import (
    Criterion,
    Disturbed,
    Finding,
    Limit,
    NotMeasured,
    Trouble,
    pass_or_fail,
)
from rigproof.criteria.evidence.cpu_use import TOLD_PERCENT, cpu_seconds, taken
from rigproof.criteria.evidence.devices import LOSSES, DeviceEvidence
from rigproof.criteria.evidence.fed import fed, fed_by
from rigproof.criteria.evidence.nodes import NodeEvidence
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.criteria.evidence.sensors import moving_readings, require_in_time
from rigproof.criteria.evidence.series import Readings
from rigproof.criteria.evidence.windows import Window
from rigproof.profiles.loading.loaded import LoadedRig, PromisedDevice
from rigproof.profiles.tables.limits import LIMITS
from rigproof.records.measurements import Round
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, count_of, figure
from rigproof.stages.feeding.stage import KIND, FeedingSettings, RewardBatch
from rigproof.stages.tables import StageTable

REWARD_SPEEDUP_SHARE = KIND.key(lambda own: own.reward_speedup_share)
REWARD_LOSS_SHARE = KIND.key(lambda own: own.reward_loss_share)
IDLE_SHARE = LIMITS.key(lambda limits: limits.idle_share)

STAGE = "feeding"
FEWEST_STEPS = 2  # with rewards: with fewer, the GPU never had to wait for any
FEWEST_RUNS = 2  # sequential ones: one would be a single reading
# NVML's utilisation covers at most the last second: two seconds of zeros are two without any work.
UNSEEN_S, BUSY_SHARE = 2.0, 0.9


@dataclass(frozen=True, slots=True)
class RewardTimes:
    """Median seconds of one strategy; those rejected by the quick check do not count."""

    alone_s: float
    together_s: float
    processes: int

    @property
    def speedup(self) -> float:
        """How many times faster the pool is than playing one strategy after the other."""
        return self.alone_s / self.together_s


def reward_times(batches: Sequence[RewardBatch], *, beside_generation: bool) -> RewardTimes:
    """The times from one device's rewards; `beside_generation`: runs during generation also count.

    Raises NotMeasured if there are too few runs, or their rewards were not compared.
    """
    sequential = [batch for batch in batches if batch.mode == "sequential"]
    matching = [batch for batch in batches if batch.matches]
    if len(sequential) < FEWEST_RUNS or len(matching) < FEWEST_RUNS:
        raise NotMeasured(
            f"{len(sequential)} sequential runs of rewards, {len(matching)} compared with parallel ones"
        )
    parallel = [batch for batch in batches if batch.mode == "parallel"] if beside_generation else matching
    processes = max(batch.processes for batch in parallel)
    return RewardTimes(_strategy_s(sequential), _strategy_s(parallel), processes)


def _explained_by_cpus(
    good_with: Callable[[float, float, float], bool],
) -> Callable[[DeviceEvidence, Trouble], None]:
    """Raises Disturbed if the figure is good for the part of the pools' CPUs that others left in this stage.

    Programs and quotas that took less than was left unused took nothing from the pools. A hypervisor takes
    its part of the time of each CPU that runs, whether others are idle or not. `good_with(measured, limit,
    left)`: whether it is, with that part from 0 to 1.
    """

    def explained(device: DeviceEvidence, trouble: Trouble) -> None:
        finding, stage = trouble.finding, device.evidence.recording.stages.get(STAGE)
        pool = max((one.processes for one in _rewards(device)), default=0)
        node = device.evidence.single(device.node_name)
        if finding.measured is None or stage is None or not pool:
            return
        assert finding.limit is not None
        assert isinstance(node, NodeEvidence)
        if stage.loaded_from_s is None or stage.loaded_to_s is None:
            return
        window = Window(stage.loaded_from_s, stage.loaded_to_s)
        seconds = [one for one in cpu_seconds(node, window) if one.own is not None]
        if not seconds:
            return
        away = fmean(one.stolen + one.throttled + one.others for one in seconds)
        unused = 100 - fmean(one.used for one in seconds)
        left = node.identity.cpus * (1 - away / 100) / (pool * len(node.devices))
        limit = finding.limit.value
        if unused >= away or left >= 1:
            left = 1.0
        stolen = fmean(one.stolen for one in seconds)
        of_running = stolen / max(stolen, 100 - unused, TOLD_PERCENT)
        if 100 * of_running >= TOLD_PERCENT:
            left = min(left, 1 - of_running)
        if left < 1 and good_with(finding.measured, limit, left):
            who, remedy = taken(node, seconds)
            figures = f"{finding.measured:.3g}, limit {limit:.3g}"
            raise Disturbed(f"{figures}: {who} while rewards were computed", remedy, finding.from_s)

    return explained


def _fast_enough(speedup: float, least: float, left: float) -> bool:
    return speedup >= least * left


def _fed_enough(idle_percent: float, most_percent: float, left: float) -> bool:
    """Whether it would have been, had the rewards taken only so much of the time for which the GPU waited."""
    waited = idle_percent * left
    return 100 * waited <= most_percent * (100 - idle_percent + waited)


def _planned(loaded: LoadedRig, device: PromisedDevice) -> Limit | None:
    """The least speed-up of the planned pool, smaller on a host with few CPUs; None for one process."""
    settings = device.settings(FeedingSettings)
    node = loaded.node(device.node)
    pools = sum(one.node == device.node for one in loaded.devices())
    processes = min(settings.processes, max(1, int(node.cpus or settings.processes * pools) // pools))
    return None if processes == 1 else Limit(settings.reward_speedup_share * processes, loaded.file)


@Criterion(
    "feeding.parallel_rewards",
    title="parallel rewards",
    unit="×",
    direction="at_least",
    limit="`stages.feeding.reward_speedup_share` × the number of processes in the pool; none with one "
    "process. In each run at most `stages.feeding.reward_loss_share` of the valid strategies may time out, "
    "crash or run out of memory",
    limits=(REWARD_SPEEDUP_SHARE, REWARD_LOSS_SHARE),
    severity="config",
    remedy="keep as many CPUs free as the pool has processes, or lower `stages.feeding.processes`",
    unmeasured="too few sequential or parallel runs, none that compared the rewards of both, or a pool of "
    "fewer processes than were planned; or the speed-up is enough for what others left of the pools' CPUs",
    stages=("feeding",),
    caused_by_others=_explained_by_cpus(_fast_enough),
    planned=_planned,
)
def parallel_rewards(device: DeviceEvidence) -> Finding:
    """A strategy's median time when played one after the other, relative to its time in the pool.

    The rewards must be the same, in the same order. Runs during the generation also count, except for the
    CPU as the device, which has no time for both.
    """
    batches = _rewards(device)
    wrong = [batch for batch in batches if batch.matches is False]
    if wrong:
        runs = count_of(len(wrong), "parallel runs")
        detail = f"{runs} gave other rewards than the sequential ones; {_losses(wrong)}"
        return Finding(
            Outcome.FAIL,
            detail=detail,
            source="the sequential run's rewards",
            remedy="find the strategies whose reward depends on the load, such as those that take nearly "
            "`stages.feeding.strategy_s`",
            from_s=wrong[0].t_s,
        )
    device.evidence.stage(STAGE)
    if not batches and (cause := device.cause()):
        raise NotMeasured(f"no rewards: {cause}")
    lost = _most_lost(device, batches)
    if lost is not None:
        return lost
    times = reward_times(batches, beside_generation=not device.is_cpu)
    detail = f"{1e3 * times.alone_s:.1f} ms per strategy, {1e3 * times.together_s:.1f} ms in the pool"
    detail += f"; {_losses(batches)}"
    planned = _planned_processes(device)
    if times.processes < planned:
        raise NotMeasured(
            f"its pool had {count_of(times.processes, 'processes')}, and {planned} were planned"
        )
    if times.processes == 1:
        detail += "; a pool of one process gives no speed-up"
        return Finding(Outcome.NO_LIMIT, times.speedup, detail=detail)
    note = f" × {times.processes} processes"
    limit = device.limit(REWARD_SPEEDUP_SHARE).times(times.processes, note)
    return pass_or_fail(times.speedup, limit, good=times.speedup >= limit.value, detail=detail)


def _planned_processes(device: DeviceEvidence) -> int:
    """How many processes its worker was told to have in its pool; 0 if that was not recorded."""
    stated = [one.get("processes") for one in device.told(STAGE)]
    return max((one for one in stated if isinstance(one, int)), default=0)


def _rewards(device: DeviceEvidence) -> list[RewardBatch]:
    """The recorded runs of the pool. NotMeasured if one's count of lost strategies is impossible."""
    found = device.records(RewardBatch, STAGE)
    for one in found:
        for lost in (one.invalid, one.timed_out, one.crashed, one.out_of_memory):
            if not 0 <= lost <= one.strategies:
                raise NotMeasured(f"a run of {one.strategies} strategies is said to have lost {lost}")
    return found


def _strategy_s(batches: Sequence[RewardBatch]) -> float:
    times_s = [batch.seconds / batch.valid for batch in batches if batch.valid > 0]
    if not times_s or not all(0 < time_s < math.inf for time_s in times_s):
        raise NotMeasured("the runs do not show how long one strategy takes")
    return median(times_s)


def _most_lost(device: DeviceEvidence, batches: Sequence[RewardBatch]) -> Finding | None:
    """The failure of a run that lost too many of its strategies: crashed ones make it look fast."""
    worst = max(batches, key=lambda one: one.lost_share, default=None)
    limit = device.limit(REWARD_LOSS_SHARE)
    if worst is None or worst.lost_share <= limit.value:
        return None
    return Finding(
        Outcome.FAIL,
        detail=f"a {worst.mode} run lost {worst.lost_share:.0%} of its strategies, allowed are "
        f"{limit.value:.0%}: {_losses([worst])}",
        source=limit.source,
        remedy=_unlose(worst),
        from_s=worst.t_s,
    )


def _unlose(batch: RewardBatch) -> str:
    """The next step for what it lost most of."""
    steps = {
        batch.timed_out: "leave more CPU to the pool, or raise `stages.feeding.strategy_s`",
        batch.out_of_memory: "raise `stages.feeding.strategy_memory_mib`",
        batch.crashed: "look in the kernel log for what ended them",
    }
    return steps[max(steps)]


def _losses(batches: Sequence[RewardBatch]) -> str:
    names = ("timed_out", "crashed", "out_of_memory")
    counts = {name: sum(getattr(batch, name) for batch in batches) for name in names}
    number = sum(batch.strategies for batch in batches)
    lost = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items() if count)
    return f"{lost or 'none lost'} of {count_of(number, 'strategies')}"


@Criterion(
    "feeding.idle_gaps",
    title="idle gaps",
    unit="%",
    direction="at_most",
    limit="`limits.idle_share` of the time from the first to the last measured round of generation, both for "
    "the part without verified rounds and for 100 % less NVML's mean utilisation. None for the CPU as the "
    "device, which also computes the rewards",
    limits=(IDLE_SHARE,),
    severity="config",
    remedy="make the rewards faster: more processes or CPUs, a shorter `stages.feeding.strategy_s`, or "
    "`stages.feeding.overlap = true`",
    unmeasured="fewer than two steps with rewards, a lost worker, or utilisation that was not read often "
    "enough or does not match the time of the work; or the GPU would not have waited so long if others had "
    "not taken a part of the pools' CPUs",
    idling="fails",
    stages=("feeding",),
    caused_by_others=_explained_by_cpus(_fed_enough),
)
def idle_gaps(device: DeviceEvidence) -> Finding:
    """Share of the time in which the GPU had nothing to generate, because rewards were not ready."""
    how = fed(device)
    idle = 100 * how.idle_share
    detail = f"longest gap {1e3 * how.gap_s:.0f} ms"
    if device.is_cpu:
        return Finding(Outcome.NO_LIMIT, idle, detail=f"{detail}; the CPU also computes the rewards")
    limit = device.limit(IDLE_SHARE).times(100)
    if idle > limit.value:
        cause = device.cause()
        detail += f"; {cause}" if cause else ""
        return pass_or_fail(idle, limit, good=False, detail=detail, from_s=how.gap_from_s, length_s=how.gap_s)
    _require_steps(device, how.window)
    if device.lacks_sensor("utilization_percent"):
        return pass_or_fail(
            idle, limit, good=True, detail=f"{detail}; this card's driver reports no utilisation"
        )
    readings = moving_readings(device, how.window, "utilization_percent", "utilisation")
    _require_agreeing(device, readings)
    used = readings.mean
    detail += f"; NVML's mean utilisation {used:.0f} %"
    if 100 - used > limit.value:
        require_in_time(device)
        return pass_or_fail(100 - used, limit, good=False, detail=detail, from_s=how.window.from_s)
    return pass_or_fail(idle, limit, good=True, detail=detail)


def _require_agreeing(device: DeviceEvidence, readings: Readings) -> None:
    """Raise NotMeasured if NVML saw no activity for a while in which the card did verified work."""
    if readings.lowest > 0:
        return
    values, times_s = readings.values.tolist(), readings.times_s.tolist()
    verified = device.rounds(STAGE).verified
    begun = 0
    for place, value in enumerate(values):
        if value > 0:
            begun = place + 1
            continue
        idle = Window(times_s[begun], times_s[place])
        if idle.length_s < UNSEEN_S:
            continue
        inside_s = np.minimum(verified.t_s, idle.to_s) - np.maximum(verified.begins_s, idle.from_s)
        if float(inside_s.clip(min=0).sum()) >= BUSY_SHARE * idle.length_s:
            raise NotMeasured(
                f"NVML's utilisation is 0 % for {idle.length_s:.0f} s from t={idle.from_s:.0f} s on, "
                "while the card did verified work: the readings do not match the time of the work"
            )


def _require_steps(device: DeviceEvidence, window: Window) -> None:
    """Raise NotMeasured if a GPU without idle time would prove nothing."""
    lost = [event for event in device.events(*LOSSES) if event.stage == STAGE]
    if lost:
        raise NotMeasured(f"its worker was lost at t={lost[0].t_s:.0f} s: {lost[0].message}")
    steps = [one for one in _rewards(device) if one.mode == "parallel"]
    number = sum(window.from_s <= one.t_s <= window.to_s for one in steps)
    if number < FEWEST_STEPS:
        raise NotMeasured(f"rewards of only {count_of(number, 'steps')} were computed during the generation")


CRITERIA = (parallel_rewards, idle_gaps)


NOT_MEASURED = "not measured"


def tables(recording: Recording) -> Iterator[StageTable]:
    """The time that rewards take alone and in the pool, and how long each device waited for them."""
    rounds: dict[str, list[Round]] = {}
    for done in recording.rounds:
        if done.stage == STAGE and done.device is None and done.seconds > 0 and recording.is_last(done):
            rounds.setdefault(done.subject, []).append(done)
    rewards: dict[str, list[RewardBatch]] = {}
    for batch in recording.of(RewardBatch):
        if batch.stage == STAGE and recording.is_last(batch):
            rewards.setdefault(batch.subject, []).append(batch)
    subjects = dict.fromkeys((*rounds, *rewards))
    cpus = {subject for subject, gpu in recording.gpus.items() if gpu.device == "cpu"}
    yield StageTable(
        section="Feeding",
        title="Generation on the device, rewards on the CPU",
        columns=(
            "Device",
            "Strategy alone",
            "In the pool",
            "Processes",
            "Speed-up",
            "Steps",
            "Without work",
            "Longest gap",
        ),
        rows=tuple(
            (
                subject,
                *_reward_cells(rewards.get(subject, []), beside_generation=subject not in cpus),
                *_gaps(rounds.get(subject, [])),
            )
            for subject in subjects
        ),
        note="One strategy plays a whole game. Without work: share of the time from the first to the last "
        "measured round of generation.",
    )


def _reward_cells(batches: list[RewardBatch], *, beside_generation: bool) -> tuple[str, ...]:
    steps = sum(batch.mode == "parallel" and batch.matches is None for batch in batches)
    try:
        times = reward_times(batches, beside_generation=beside_generation)
    except NotMeasured:
        return NOT_MEASURED, "", "", "", str(steps)
    return (
        figure(1e3 * times.alone_s, "ms"),
        figure(1e3 * times.together_s, "ms"),
        str(times.processes),
        f"{times.speedup:.2f} ×",
        str(steps),
    )


def _gaps(rounds: list[Round]) -> tuple[str, str]:
    try:
        how = fed_by(Rounds.of_records(rounds))
    except NotMeasured:
        return NOT_MEASURED, ""
    return figure(100 * how.idle_share, "%"), figure(1e3 * how.gap_s, "ms")
