"""The training stage as tables."""

from collections.abc import Iterator, Mapping
from typing import Any

from rigproof.criteria.evidence.rounds import Rounds
from rigproof.records.measurements import Event, Round
from rigproof.records.recording import Recording
from rigproof.records.verdict import figure
from rigproof.stages.tables import StageTable
from rigproof.stages.training.precision import StepTime, step_times

SECTION = "Training"
LEFT_OUT = "left out"


def training_tables(recording: Recording) -> Iterator[StageTable]:
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
