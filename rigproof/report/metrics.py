"""metrics.prom: the result for Prometheus, through node_exporter's textfile collector."""

from datetime import datetime
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

from rigproof.records.verdict import Decision
from rigproof.report.verdict_json import RunResult


def write_metrics(path: Path, result: RunResult) -> None:
    """Write it beside its place and rename it: the collector never sees half a file. Raises OSError."""
    write_to_textfile(str(path), registry_of(result))


def registry_of(result: RunResult) -> CollectorRegistry:
    """All metrics of one run, in a registry of their own."""
    registry = CollectorRegistry()
    run = result.recording.run
    labels = {"rig": result.facts.rig, "level": run.level, "simulated": str(run.simulated).lower()}
    verdict = Gauge(
        "rigproof_verdict", "1 for what the run said about the rig", [*labels, "verdict"], registry=registry
    )
    for decision in Decision:
        verdict.labels(**labels, verdict=decision.value).set(decision is result.decision)
    _add_run(registry, result, labels)
    _add_criteria(registry, result, labels)
    return registry


def _add_run(registry: CollectorRegistry, result: RunResult, labels: dict[str, str]) -> None:
    run = result.recording.run
    info = Gauge("rigproof_run_info", "Which run this is", [*labels, "run_id", "version"], registry=registry)
    info.labels(**labels, run_id=run.run_id, version=run.rigproof_version).set(1)
    try:
        started_s = datetime.fromisoformat(run.started_at).timestamp()
    except ValueError:
        pass  # a recording of another clock: a wrong time would be worse than none
    else:
        started = Gauge(
            "rigproof_run_timestamp_seconds", "When the run began", list(labels), registry=registry
        )
        started.labels(**labels).set(started_s)
    elapsed = Gauge("rigproof_run_elapsed_seconds", "How long the run took", list(labels), registry=registry)
    elapsed.labels(**labels).set(result.elapsed_s)


def _add_criteria(registry: CollectorRegistry, result: RunResult, labels: dict[str, str]) -> None:
    uuids = {subject: gpu.uuid for subject, gpu in result.recording.gpus.items()}
    names = [*labels, "criterion", "subject", "uuid", "unit"]
    measured = Gauge("rigproof_criterion_measured", "What was measured, in `unit`", names, registry=registry)
    limit = Gauge("rigproof_criterion_limit", "The limit, in `unit`", names, registry=registry)
    outcome = Gauge(
        "rigproof_criterion_outcome",
        "1 for the outcome: pass, warn, fail, not_measured or no_limit",
        [*labels, "criterion", "subject", "uuid", "outcome", "required"],
        registry=registry,
    )
    for verdict in result.verdicts:
        common = {
            **labels,
            "criterion": verdict.criterion,
            "subject": verdict.subject,
            "uuid": uuids.get(verdict.subject, ""),
        }
        required = str(verdict.required).lower()
        outcome.labels(**common, outcome=verdict.outcome.value, required=required).set(1)
        if verdict.measured is not None:
            measured.labels(**common, unit=verdict.unit).set(verdict.measured)
        if verdict.limit is not None:
            limit.labels(**common, unit=verdict.unit).set(verdict.limit)
