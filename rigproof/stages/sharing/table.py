"""The sharing stage as a table."""

from collections import defaultdict
from collections.abc import Iterator

from rigproof.criteria.criterion import NotMeasured
from rigproof.records.measurements import Event, Round
from rigproof.records.recording import Recording
from rigproof.records.verdict import figure
from rigproof.stages.sharing.criteria import SharedRate, shared_rate
from rigproof.stages.tables import StageTable


def sharing_tables(recording: Recording) -> Iterator[StageTable]:
    """The rate of each number of processes on each device, also relative to one process alone."""
    rounds: dict[str, list[Round]] = defaultdict(list)
    for done in recording.rounds:
        if done.stage == "sharing" and done.device is None and done.seconds > 0 and recording.is_last(done):
            rounds[done.subject].append(done)
    rows = [row for subject, own in rounds.items() for row in _rows(recording, subject, own)]
    yield StageTable(
        section="Sharing",
        title="16-bit products by one process, and by several that share the device",
        columns=("Device", "Processes", "Operands each", "Together", "Relative to one"),
        rows=tuple(rows),
        note="Measured while all processes of a row worked; each row fills the same memory.",
    )


def _rows(recording: Recording, subject: str, rounds: list[Round]) -> Iterator[tuple[str, ...]]:
    events = [event for event in recording.events if event.subject == subject]
    numbers = sorted({number for done in rounds if isinstance(number := done.label("processes"), int)})
    rates = {number: _rate(rounds, events, number) for number in numbers}
    alone = rates.get(1)
    for number, rate in rates.items():
        if rate is None:
            yield subject, str(number), "", "not measured", ""
            continue
        each = "" if rate.gib_each is None else figure(rate.gib_each, "GiB")
        share = "" if alone is None else f"{rate.tflops / alone.tflops:.2f} ×"
        yield subject, str(number), each, figure(rate.tflops, "TFLOP/s"), share


def _rate(rounds: list[Round], events: list[Event], number: int) -> SharedRate | None:
    try:
        return shared_rate(rounds, events, number)
    except NotMeasured:
        return None
