"""Simulated feeding: rewards are compared, then the card generates while rewards are computed."""

from collections.abc import Iterator

from rigproof.profiles.kinds.stages import StagePlan
from rigproof.records.measurements import Phase
from rigproof.simulation.faults.kinds import FaultKind
from rigproof.simulation.stage import CardWork, Records, SimulatedForm
from rigproof.simulation.timetable import ROUND_S, Segment, Work
from rigproof.simulation.work.task import Task
from rigproof.stages.feeding.stage import FeedingSpec, RewardBatch

STAGE = "feeding"

FAULTS = (
    FaultKind(
        "rewards-slow",
        "the pool plays its strategies one after the other",
        ("feeding.parallel_rewards",),
        keys=("stage",),
        stage=STAGE,
    ),
    FaultKind(
        "rewards-differ",
        "the pool gives other rewards than the sequential run",
        ("feeding.parallel_rewards",),
        keys=("stage",),
        stage=STAGE,
    ),
    FaultKind(
        "rewards-crash",
        "every strategy that is played during the generation crashes",
        ("feeding.parallel_rewards",),
        keys=("stage",),
        stage=STAGE,
    ),
    FaultKind(
        "gpu-starved",
        "rewards are late, and the card waits for them",
        ("feeding.idle_gaps",),
        keys=("stage", "by"),
        defaults={"by": "20%"},
        stage=STAGE,
    ),
    FaultKind(
        "gpu-half-used",
        "NVML's utilisation is low while the card generates; to= is in %",
        ("feeding.idle_gaps",),
        keys=("stage", "to"),
        stage=STAGE,
    ),
)


GENERATION = Work(1.0, 0.953, 0.015, 0.0)  # always 1980 MHz, 667 W (636 to 683), no clock event reason
GENERATES_FROM, GENERATES_TO = 0.2, 0.95  # of the stage; rewards are compared before and after
STRATEGY_S = 0.03  # one strategy's game, alone; measured: 28.5 ms
EFFICIENCY = 0.75  # of the pool's processes; measured: 5.4 to 5.8 of 8
COMPARED, INVALID_SHARE = 16, 0.25  # strategies of a comparison; share of a step that the quick check rejects
# Of the rate at which the card would read all weights for each token, and then multiply. Measured: 195
# TFLOP/s of 204, with 4650 GB/s, 650 TFLOP/s and 64 completions.
OF_BOTH = 0.95
READ_SHARE = 0.97  # of the printed bandwidth
WARM_UP_SHARE = 0.15  # of the generation


def segments(plan: StagePlan, _work: CardWork) -> Iterator[Segment]:
    """Generation, between comparisons of rewards."""
    from_s, to_s = GENERATES_FROM * plan.expected_s, GENERATES_TO * plan.expected_s
    yield Segment(from_s, to_s, GENERATION, part="generate", precision="bf16")


def records(task: Task, spec: FeedingSpec) -> Records:
    """Comparisons of rewards, rounds of generation with the rewards of each step, one more comparison."""
    length_s, start_s = spec.duration_s, task.start_s
    for share in (0.05, 0.1, 0.15):
        yield from _compared(task, spec, start_s + share * length_s)
    [generation] = task.segments("generate")
    t_s, end_s = generation.from_s, generation.to_s
    seconds = max(spec.round_s, min(ROUND_S, (end_s - t_s) / 20))
    data = {"tokens": 1500, "aimed_s": seconds, "pass_s": seconds / 1500, "completions": spec.completions}
    yield task.event(t_s, "generation", "1500 tokens a step", {**data, "overlap": spec.overlap})
    starved = task.fault("gpu-starved")
    busy = seconds * (1 - (starved.by or 0.0) if starved is not None else 1.0)
    warm_s, number = t_s + WARM_UP_SHARE * (end_s - t_s), 0
    while t_s + seconds <= end_s:
        t_s += seconds
        number += 1
        phase: Phase = "warmup" if t_s - seconds < warm_s else "measure"
        products = task.rate("fp16", t_s - seconds, t_s)
        reading = READ_SHARE * task.card.sku.memory_bandwidth_gbps * spec.completions / 1000
        tflop = OF_BOTH * products * reading / (products + reading) * busy
        yield task.round(
            t_s, phase, busy, tflop, labels={"precision": task.card.half_precision, "size": 16384}
        )
        if number % 2 == 0:
            invalid = int(INVALID_SHARE * spec.completions)
            yield _rewards(task, spec, t_s, spec.completions, invalid)
    yield task.memory(t_s, 2000.0)
    yield from _compared(task, spec, start_s + 0.98 * length_s)


def _compared(task: Task, spec: FeedingSpec, t_s: float) -> Iterator[RewardBatch]:
    matches = task.fault("rewards-differ") is None
    alone_s = STRATEGY_S * COMPARED * (1 + task.noise.gauss(0, 0.01))
    who = (task.plan.worker, task.plan.subject)
    yield RewardBatch(t_s - 0.01, "feeding", *who, "sequential", 1, COMPARED, 0, 0, 0, 0, alone_s)
    yield _rewards(task, spec, t_s, COMPARED, 0, matches=matches)


def _rewards(
    task: Task, spec: FeedingSpec, t_s: float, strategies: int, invalid: int, *, matches: bool | None = None
) -> RewardBatch:
    faster = 1.0 if task.fault("rewards-slow") else max(1.0, EFFICIENCY * spec.processes)
    lost = strategies - invalid if task.fault("rewards-crash") and matches is None else 0
    seconds = STRATEGY_S * (strategies - invalid) / faster * (1 + task.noise.gauss(0, 0.01))
    return RewardBatch(
        t_s,
        "feeding",
        task.plan.worker,
        task.plan.subject,
        "parallel",
        spec.processes,
        strategies,
        invalid,
        0,
        lost,
        0,
        seconds,
        matches,
    )


SIMULATED = SimulatedForm(segments, records)
