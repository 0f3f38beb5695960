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
    events = [one for one in recording.events if one.stage == "training" and recording.is_last(one)]
    rounds: dict[str, list[Round]] = {}
    for one in recording.rounds:
        if one.stage == "training" and one.device is None and recording.is_last(one):
            rounds.setdefault(one.subject, []).append(one)
    models = {one.subject: one.data for one in events if one.kind == "model"}
    told = [one for one in events if one.kind == "batch_search"]
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
        ("Device", "Precision", "Examples", "Peak memory", "May be taken", "Too large"),
        tuple(_largest(one) for one in told if one.data.get("what") == "largest"),
        labels=2,
        note="Searched for without a try at what is foretold not to fit.",
    )
    yield StageTable(
        SECTION,
        "Batch sizes",
        ("Device", "Precision", "Examples", "Step", "Examples/s", "Tokens/s", "Rate", "Peak memory"),
        tuple(row for subject, own in rounds.items() for row in _sweep(subject, own, models, told)),
        labels=2,
    )


def _precisions(
    subject: str, rounds: list[Round], models: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, ...]]:
    times = step_times(Rounds.of_records(rounds), "precision")
    for (precision, batch), one in times.items():
        slow = times.get(("fp32", batch))
        ratio = "" if slow is None else f"{slow.seconds / one.seconds:.2f} ×"
        yield (subject, precision, str(batch), *_speed(one, models.get(subject, {})), ratio)


def _sweep(
    subject: str, rounds: list[Round], models: Mapping[str, Mapping[str, Any]], told: list[Event]
) -> Iterator[tuple[str, ...]]:
    own = [event for event in told if event.subject == subject]
    peaks = {event.data.get("batch"): event.data for event in own if event.data.get("what") == "sweep"}
    rows: dict[int, tuple[str, ...]] = {}
    for (precision, batch), one in step_times(Rounds.of_records(rounds), "sweep").items():
        step, tokens, rate = _speed(one, models.get(subject, {}))
        examples = f"{batch / one.seconds:,.1f}"
        peak = _mib(peaks.get(batch, {}).get("peak_mib"))
        rows[batch] = (subject, precision, str(batch), step, examples, tokens, rate, peak)
    for data in (event.data for event in own if event.data.get("what") == "skipped"):
        size = data.get("batch")
        if isinstance(size, int):
            precision, foretold = str(data.get("precision", "")), _mib(data.get("peak_mib"))
            row = (subject, precision, str(size), LEFT_OUT, "", "", "", foretold and f"({foretold})")
            rows.setdefault(size, row)
    yield from (row for _, row in sorted(rows.items()))


def _speed(one: StepTime, model: Mapping[str, Any]) -> tuple[str, str, str]:
    """Step time, tokens a second, rate."""
    sequence = model.get("sequence")
    tokens = f"{one.batch * sequence / one.seconds:,.0f}" if isinstance(sequence, int) else ""
    return figure(1000 * one.seconds, "ms"), tokens, figure(one.tflops, "TFLOP/s")


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
    told = [
        f"{subject} trains {figure(model['parameters'] / 1e6, 'M')} parameters "
        f"({model['blocks']} blocks of width {model['width']}, {model['sequence']} tokens an example)"
        for subject, model in models.items()
        if {"parameters", "blocks", "width", "sequence"} <= set(model)
    ]
    return "; ".join(told) + "." if told else ""
