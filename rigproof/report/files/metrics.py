"""metrics.prom: the result for Prometheus, through node_exporter's textfile collector."""

from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.utils import floatToGoString

from rigproof.records.disk.durable import replacing
from rigproof.records.verdict import Decision, Verdict
from rigproof.report.content.verdict_json import RunResult


def write_metrics(path: Path, result: RunResult) -> None:
    """Write it in one step: the collector never sees half a file. Raises OSError."""
    labels = _labels(result)
    with replacing(path) as file:
        file.write(generate_latest(_registry_of_run(result, labels)))
        file.writelines(lines.encode() for lines in _criteria_lines(result, labels))


def _labels(result: RunResult) -> dict[str, str]:
    run = result.recording.run
    return {"rig": result.facts.rig, "level": run.level, "simulated": str(run.simulated).lower()}


def _registry_of_run(result: RunResult, labels: dict[str, str]) -> CollectorRegistry:
    """The metrics of the run as a whole, in a registry of their own."""
    registry = CollectorRegistry()
    verdict = Gauge(
        "rigproof_verdict", "1 for the run's decision on the rig", [*labels, "verdict"], registry=registry
    )
    for decision in Decision:
        verdict.labels(**labels, verdict=decision.value).set(decision is result.decision)
    shortened = Gauge(
        "rigproof_shortened",
        "1 if the run did less than its level promises: ACCEPTED then only covers what was done",
        list(labels),
        registry=registry,
    )
    shortened.labels(**labels).set(bool(result.shortfalls))
    _add_run(registry, result, labels)
    return registry


def _add_run(registry: CollectorRegistry, result: RunResult, labels: dict[str, str]) -> None:
    run = result.recording.run
    info = Gauge("rigproof_run_info", "Which run this is", [*labels, "run_id", "version"], registry=registry)
    info.labels(**labels, run_id=run.run_id, version=run.rigproof_version).set(1)
    try:
        started_s = datetime.fromisoformat(run.started_at).timestamp()
    except ValueError:
        pass  # an invalid time in the recording: a wrong one would be worse than none
    else:
        started = Gauge(
            "rigproof_run_timestamp_seconds", "When the run began", list(labels), registry=registry
        )
        started.labels(**labels).set(started_s)
    elapsed = Gauge("rigproof_run_elapsed_seconds", "How long the run took", list(labels), registry=registry)
    elapsed.labels(**labels).set(result.elapsed_s)


def _criteria_lines(result: RunResult, labels: dict[str, str]) -> Iterator[str]:
    """Lines in the text format of Prometheus, all of a criterion at once.

    A large rig has a million, too many for a registry. Labels are in the order of their names, as the library
    writes them.
    """
    level, rig, simulated = (_label(name, labels[name]) for name in ("level", "rig", "simulated"))
    names = {verdict.subject for verdict in result.verdicts}
    gpus = result.recording.gpus
    subjects = {name: _label("subject", name) for name in names}
    uuids = {name: _label("uuid", gpus[name].uuid if name in gpus else "") for name in names}
    for name, what in _FIGURES.items():
        yield _head(name, what)
        read = attrgetter(name.rpartition("_")[2])
        for criterion, verdicts in groupby(result.verdicts, attrgetter("criterion")):
            begin = f"{name}{{{_label('criterion', criterion)}"
            yield "".join(
                f"{begin}{_direction(verdict) if name == LIMIT else ''},{level},{rig},{simulated},"
                f"{subjects[verdict.subject]},{_label('unit', verdict.unit)},"
                f"{uuids[verdict.subject]}}} {_figure(value)}\n"
                for verdict in verdicts
                if (value := read(verdict)) is not None
            )
    yield _head(OUTCOME, "1 for the outcome: pass, warn, fail, not_measured, not_applicable or no_limit")
    for criterion, verdicts in groupby(result.verdicts, attrgetter("criterion")):
        begin = f"{OUTCOME}{{{_label('criterion', criterion)},{level}"
        yield "".join(
            f"{begin},{_label('outcome', verdict.outcome)},{rig},{simulated},{subjects[verdict.subject]},"
            f"{uuids[verdict.subject]}}} 1.0\n"
            for verdict in verdicts
        )


LIMIT = "rigproof_criterion_limit"
_FIGURES = {
    "rigproof_criterion_measured": "What was measured, in `unit`",
    LIMIT: "The limit, in `unit`: the measured figure must be at_least, at_most or equal to it",
}
OUTCOME = "rigproof_criterion_outcome"


def _direction(verdict: Verdict) -> str:
    return f",{_label('direction', verdict.direction)}" if verdict.direction else ""


def _head(name: str, what: str) -> str:
    return f"# HELP {name} {what}\n# TYPE {name} gauge\n"


@lru_cache(maxsize=2**12)  # mostly limits, which recur
def _figure(value: float) -> str:
    text: str = floatToGoString(value)  # type: ignore[no-untyped-call]
    return text


@lru_cache
def _label(name: str, value: str) -> str:
    escaped = value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return f'{name}="{escaped}"'
