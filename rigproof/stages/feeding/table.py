"""The feeding stage as a table."""

from collections.abc import Iterator

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.fed import fed_by
from rigproof.criteria.evidence.rounds import Rounds
from rigproof.records.measurements import Round
from rigproof.records.recording import Recording
from rigproof.records.verdict import figure
from rigproof.stages.feeding.criteria import STAGE, reward_times
from rigproof.stages.feeding.records import RewardBatch
from rigproof.stages.tables import StageTable

NOT_MEASURED = "not measured"


def feeding_tables(recording: Recording) -> Iterator[StageTable]:
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
                *_rewards(rewards.get(subject, []), beside_generation=subject not in cpus),
                *_gaps(rounds.get(subject, [])),
            )
            for subject in subjects
        ),
        note="One strategy plays a whole game. Without work: share of the time from the first to the last "
        "measured round of generation.",
    )


def _rewards(batches: list[RewardBatch], *, beside_generation: bool) -> tuple[str, ...]:
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
