"""metrics.prom: the result for Prometheus, through node_exporter's textfile collector."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from rigproof.records.disk.durable import replacing
from rigproof.records.verdict import Decision, Verdict
from rigproof.report.content.verdict_json import RunResult


def write_metrics(path: Path, result: RunResult) -> None:
    """Write the file in one step: node_exporter never sees half of it. Raises OSError."""
    with replacing(path) as file:
        for metric in _metrics(result):
            registry = CollectorRegistry()  # one for each: a large rig has a million samples of a metric
            registry.register(metric)
            file.write(generate_latest(registry))


class _Metric(Collector):
    """A metric whose samples all have the labels of the run, and labels of these names."""

    def __init__(self, result: RunResult, name: str, documentation: str, *labels: str) -> None:
        run = result.recording.run
        self._run = result.facts.rig, run.level, str(run.simulated).lower()
        self._family = GaugeMetricFamily(name, documentation, labels=["rig", "level", "simulated", *labels])

    def add(self, value: float, *labels: str) -> "_Metric":
        """Add a sample, with the values of its labels."""
        self._family.add_metric([*self._run, *labels], value)
        return self

    def describe(self) -> list[GaugeMetricFamily]:
        """Nothing, so that it can be registered before it is collected."""
        return []

    def collect(self) -> list[GaugeMetricFamily]:
        """The samples that were added."""
        return [self._family]


def _metrics(result: RunResult) -> Iterator[_Metric]:
    run = result.recording.run
    verdict = _Metric(result, "rigproof_verdict", "1 for the run's decision on the rig", "verdict")
    for decision in Decision:
        verdict.add(decision is result.decision, decision.value)
    yield verdict
    yield _Metric(
        result,
        "rigproof_shortened",
        "1 if the run did less than its level promises: ACCEPTED then only covers what was done",
    ).add(bool(result.shortfalls))
    yield _Metric(result, "rigproof_run_info", "Which run this is", "run_id", "version").add(
        1, run.run_id, run.rigproof_version
    )
    try:
        started_s = datetime.fromisoformat(run.started_at).timestamp()
    except ValueError:
        pass  # an invalid time in the recording: a wrong one would be worse than none
    else:
        yield _Metric(result, "rigproof_run_timestamp_seconds", "When the run began").add(started_s)
    yield _Metric(result, "rigproof_run_elapsed_seconds", "How long the run took").add(result.elapsed_s)
    yield from _metrics_of_criteria(result)


def _metrics_of_criteria(result: RunResult) -> Iterator[_Metric]:
    whose = ("criterion", "subject", "uuid")
    measured = _Metric(result, "rigproof_criterion_measured", "What was measured, in `unit`", *whose, "unit")
    limit = _Metric(
        result,
        "rigproof_criterion_limit",
        "The limit, in `unit`: the measured figure must be at_least, at_most or equal to it",
        *whose,
        "unit",
        "direction",
    )
    outcome = _Metric(
        result,
        "rigproof_criterion_outcome",
        "1 for the outcome: pass, warn, fail, not_measured, not_applicable or no_limit",
        *whose,
        "outcome",
    )
    gpus = result.recording.gpus

    def labels(one: Verdict) -> tuple[str, str, str]:
        uuid = gpus[one.subject].uuid if one.subject in gpus else None
        return one.criterion, one.subject, uuid or ""

    for one in result.verdicts:
        if one.measured is not None:
            measured.add(one.measured, *labels(one), one.unit)
    yield measured
    for one in result.verdicts:
        if one.limit is not None:
            limit.add(one.limit, *labels(one), one.unit, one.direction or "")
    yield limit
    for one in result.verdicts:
        outcome.add(1, *labels(one), one.outcome)
    yield outcome
