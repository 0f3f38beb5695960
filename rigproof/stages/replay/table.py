"""The replay stage as a table."""

from collections.abc import Iterator

from rigproof.records.measurements import Event
from rigproof.records.recording import Recording
from rigproof.stages.replay.places import number_of
from rigproof.stages.replay.settings import STAGE
from rigproof.stages.tables import StageTable


def replay_tables(recording: Recording) -> Iterator[StageTable]:
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
