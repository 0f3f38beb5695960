"""metrics.prom: the result for Prometheus, through node_exporter's textfile collector."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from rigproof.records.disk.durable import replacing
from rigproof.records.verdict import Decision, Verdict
from rigproof.report.content.result import RunResult

Sample = tuple[Sequence[str], float]  # the values of its labels, its value


class _Family:
    """A metric for `generate_latest`, which asks a registry of Prometheus in the same way."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> list[Metric]:
        """The metric, as the one that this registry has."""
        return [self._metric]


def write_metrics(path: Path, result: RunResult) -> None:
    """Write the file in one step: node_exporter never sees half of it. Raises OSError."""
    run = result.recording.run
    own = [result.facts.rig, run.level, str(run.simulated).lower()]
    with replacing(path) as file:
        for name, documentation, labels, samples in _metrics(result):  # a large rig has a million samples
            metric = GaugeMetricFamily(name, documentation, labels=["rig", "level", "simulated", *labels])
            for values, value in samples:
                metric.add_metric([*own, *values], value)
            file.write(generate_latest(_Family(metric)))


def _metrics(result: RunResult) -> Iterator[tuple[str, str, Sequence[str], Iterable[Sample]]]:
    """Name, documentation, names of labels and samples of each metric, beside the labels of the run."""
    run, verdicts, gpus = result.recording.run, result.verdicts, result.recording.gpus
    decisions = [((one.value,), one is result.decision) for one in Decision]
    yield "rigproof_verdict", "1 for the run's decision on the rig", ("verdict",), decisions
    shortened = "1 if the run did less than its level promises: ACCEPTED then only covers what was done"
    yield "rigproof_shortened", shortened, (), [((), bool(result.shortfalls))]
    apart = (
        "1 if devices of the rig did not exchange verified data: ACCEPTED then says nothing of them together"
    )
    yield "rigproof_not_tested_together", apart, (), [((), bool(result.not_together))]
    info = [((run.run_id, run.rigproof_version), 1.0)]
    yield "rigproof_run_info", "Which run this is", ("run_id", "version"), info
    with suppress(ValueError):  # an invalid time in the recording: a wrong one would be worse than none
        started_s = datetime.fromisoformat(run.started_at).timestamp()
        yield "rigproof_run_timestamp_seconds", "When the run began", (), [((), started_s)]
    yield "rigproof_run_elapsed_seconds", "How long the run took", (), [((), result.elapsed_s)]

    def whose(one: Verdict) -> tuple[str, str, str]:
        uuid = gpus[one.subject].uuid if one.subject in gpus else None
        return one.criterion, one.subject, uuid or ""

    labels = ("criterion", "subject", "uuid")
    yield (
        "rigproof_criterion_measured",
        "What was measured, in `unit`",
        (*labels, "unit"),
        (((*whose(one), one.unit), one.measured) for one in verdicts if one.measured is not None),
    )
    yield (
        "rigproof_criterion_limit",
        "The limit, in `unit`: the measured figure must be at_least, at_most or equal to it",
        (*labels, "unit", "direction"),
        (
            ((*whose(one), one.unit, one.direction or ""), one.limit)
            for one in verdicts
            if one.limit is not None
        ),
    )
    yield (
        "rigproof_criterion_outcome",
        "1 for the outcome: pass, warn, fail, not_measured, not_applicable or no_limit",
        (*labels, "outcome"),
        (((*whose(one), one.outcome), 1.0) for one in verdicts),
    )
