"""report.html: one file that opens anywhere, offline."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import median

from bokeh.settings import settings
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from rigproof.judging.catalogue import CATALOGUE
from rigproof.records.disk.durable import replacing
from rigproof.records.grouping import grouped
from rigproof.records.recording import Recording
from rigproof.records.verdict import (
    SEVERITIES,
    Outcome,
    Verdict,
    count_of,
    counts,
    figure,
    limit_text,
    sentence,
)
from rigproof.report.content.clock_times import (
    Worded,
    begun_at,
    by_the_clock,
    duration,
    hours,
    is_long,
    lasted,
)
from rigproof.report.content.excerpt import excerpt_of
from rigproof.report.content.matrix import matrix_of, title_of
from rigproof.report.content.order import (
    WORDS,
    count_line,
    not_measured_groups,
    not_measured_sentence,
    of_outcome,
    reading_order,
    severity_legend,
    word,
)
from rigproof.report.content.result import RunResult
from rigproof.report.content.stage_tables import tables_of
from rigproof.report.page.charts import MARKS_MAX, chart_of, charts_of, loud_events
from rigproof.report.page.plots import document_of

ROWS_MAX = 4000  # of the criteria: as many as a browser shows without delay
FINDINGS_MAX = 500
LOUD = (Outcome.FAIL, Outcome.WARN, Outcome.NOT_MEASURED)
TEMPLATES = Path(__file__).parent / "templates"


def write_page(path: Path, result: RunResult, other: Recording | None = None) -> None:
    """Write the file in one step; with the charts of an `other` run laid over this one's. Raises OSError."""
    text = page_text(result, other)
    with replacing(path) as file:
        file.write(text.encode())


def page_text(result: RunResult, other: Recording | None = None) -> str:
    """The whole page. Everything that comes from the run is escaped."""
    excerpt = excerpt_of(result)
    charts = charts_of(result, excerpt, other)
    ordered = reading_order(result.verdicts)
    worded = by_the_clock(result.recording)
    findings = list(_findings(result.verdicts, worded))
    found = dict.fromkeys(
        verdict.criterion for verdict in ordered if verdict.outcome in LOUD and not verdict.good_so_far
    )
    counted = counts(result.verdicts)
    events = loud_events(result.recording)
    shown = {chart.anchor for chart in charts}
    anchors = {(verdict.criterion, verdict.subject): f"v{n}" for n, verdict in enumerate(ordered[:ROWS_MAX])}
    return (
        templates()
        .get_template("report.html.jinja")
        .render(
            result=result,
            run=result.recording.run,
            other=None if other is None else other.run,
            facts=result.facts,
            nodes=excerpt.result.facts.nodes,
            excerpt_note=excerpt.note,
            matrix=matrix_of(result.verdicts, [device.subject for device in result.facts.devices]),
            anchors=anchors,
            first_anchors=_first_anchors(anchors),
            chart_anchors={
                name: anchor
                for name, one in CATALOGUE.items()
                if (anchor := chart_of(one)) and anchor in shown
            },
            verdicts=ordered[:ROWS_MAX],
            verdicts_left=len(ordered[ROWS_MAX:]),
            findings=findings[:FINDINGS_MAX],
            severity_legend=severity_legend(result.verdicts),
            findings_left=len(findings[FINDINGS_MAX:]),
            explained={name: CATALOGUE[name] for name in found if name in CATALOGUE},
            outcomes=[(o.value, WORDS[o], counted[o.value]) for o in Outcome if counted[o.value]],
            meaning=result.meaning,
            instead=result.instead,
            count_line=count_line(result.verdicts),
            worded=worded,
            long=is_long(result.recording),
            begun=begun_at(result.recording),
            lasted=lasted(result.recording, result.elapsed_s),
            stages=list(_stages(result.recording)),
            stage_tables=tables_of(excerpt.result.recording),
            events=events[:MARKS_MAX],
            events_left=len(events[MARKS_MAX:]),
            charts=charts,
            plots=document_of(chart.plot for chart in charts),
            library=library() if charts else "",
        )
    )


@cache
def templates() -> Environment:
    """The templates, compiled once in a process."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(figure=figure, limit_text=limit_text, title_of=title_of, word=word)
    environment.globals.update(severities=SEVERITIES, duration=duration, hours=hours)
    environment.filters["code"] = _with_code
    # What refers to a model comes after it, so no keys are sorted.
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return environment


def library() -> Markup:
    """Bokeh's library for the browser. It is Markup, since no content of the run is in it."""
    path = settings.bokehjs_path() / "js" / "bokeh.min.js"
    return Markup(path.read_text(encoding="utf-8"))  # noqa: S704


def _first_anchors(anchors: Mapping[tuple[str, str], str]) -> dict[str, str]:
    """The anchor of each criterion's first, and so worst, verdict."""
    first: dict[str, str] = {}
    for (criterion, _), anchor in anchors.items():
        first.setdefault(criterion, anchor)
    return first


def _stages(recording: Recording) -> Iterator[str]:
    """The stages that ran, in order; of a soak its laps together: `24 × gemm, 2 min each`."""
    of_a_kind = grouped(recording.attempts, lambda one: (one.name, len(one.workers), one.status))
    apart = recording.earlier_laps == []
    for (name, workers, status), alike in of_a_kind.items():
        lengths_s = [stage.end_s - stage.start_s for stage in alike if stage.end_s is not None]
        ending = f" with {count_of(workers, 'workers')}"
        ending += "" if status == "finished" else f" ({status})"
        if apart or len(alike) == 1:
            for stage in alike:
                took = "" if stage.end_s is None else f" {stage.end_s - stage.start_s:.0f} s"
                yield f"{name}{took}{ending}"
        else:
            yield f"{len(alike)} × {name}, {duration(median(lengths_s or [0.0]))} each,{ending}"


def _findings(verdicts: Sequence[Verdict], worded: Worded) -> Iterator[tuple[str, str, str, str]]:
    """Outcome, sentence, severity and criterion of each failure and warning, and each cause of what was not
    measured.

    The severity is empty if it has none, the criterion if it is several.
    """
    for outcome in (Outcome.FAIL, Outcome.WARN):
        for verdict in of_outcome(verdicts, outcome):
            yield outcome.value, worded(sentence(verdict)), verdict.severity or "", verdict.criterion
    for group in not_measured_groups(verdicts):
        names = {verdict.criterion for verdict in group}
        yield (
            Outcome.NOT_MEASURED.value,
            worded(not_measured_sentence(group)),
            "",
            names.pop() if len(names) == 1 else "",
        )


def _with_code(text: str) -> Markup:
    """Text of the catalogue, escaped, with what is between backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704 - it is escaped
