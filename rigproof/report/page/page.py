"""report.html: one file that opens anywhere, offline."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bokeh.embed import components
from bokeh.resources import Resources
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from rigproof.judging.catalogue import CATALOGUE
from rigproof.records.disk.durable import replacing
from rigproof.records.recording import Recording
from rigproof.records.verdict import Outcome, Verdict, counts, figure, limit_text, sentence
from rigproof.report.content.excerpt import excerpt_of
from rigproof.report.content.matrix import matrix_of, title_of
from rigproof.report.content.order import (
    WORDS,
    count_line,
    instead,
    meaning,
    not_measured_groups,
    not_measured_sentence,
    of_outcome,
    reading_order,
    word,
)
from rigproof.report.content.stage_tables import tables_of
from rigproof.report.content.verdict_json import RunResult
from rigproof.report.page.charts import MARKS_MAX, chart_of, charts_of, loud_events

ROWS_MAX = 4000  # of the criteria: as many as a browser shows without delay
FINDINGS_MAX = 500
TEMPLATES = Path(__file__).parent / "templates"


def write_page(path: Path, result: RunResult, other: Recording | None = None) -> None:
    """Write it in one step; with the charts of an `other` run laid over this one's. Raises OSError."""
    text = page_text(result, other)
    with replacing(path) as file:
        file.write(text.encode())


def page_text(result: RunResult, other: Recording | None = None) -> str:
    """The whole page. Everything that comes from the run is escaped."""
    excerpt = excerpt_of(result)
    charts = charts_of(result, excerpt, other)
    library, script = Markup(""), Markup("")
    places: dict[str, Markup] = {}
    if charts:
        made, divs = components({chart.anchor: chart.plot for chart in charts})
        # Bokeh's own library, and its JSON, which it escapes. No other content of the run is Markup.
        library = Markup(Resources(mode="inline", components=["bokeh"]).render_js())  # noqa: S704
        script = Markup(made)  # noqa: S704
        places = {anchor: Markup(div) for anchor, div in divs.items()}  # noqa: S704
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(figure=figure, limit_text=limit_text, title_of=title_of, word=word)
    ordered = reading_order(result.verdicts)
    findings = list(_findings(result.verdicts))
    counted = counts(result.verdicts)
    events = loud_events(result.recording)
    shown = {chart.anchor for chart in charts}
    anchors = {(verdict.criterion, verdict.subject): f"v{n}" for n, verdict in enumerate(ordered[:ROWS_MAX])}
    return environment.get_template("report.html.jinja").render(
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
            name: anchor for name, one in CATALOGUE.items() if (anchor := chart_of(one)) and anchor in shown
        },
        verdicts=ordered[:ROWS_MAX],
        verdicts_left=len(ordered[ROWS_MAX:]),
        findings=findings[:FINDINGS_MAX],
        findings_left=len(findings[FINDINGS_MAX:]),
        outcomes=[(o.value, WORDS[o], counted[o.value]) for o in Outcome if counted[o.value]],
        meaning=meaning(
            result.decision,
            result.verdicts,
            interrupted=result.interrupted,
            short=result.short,
            simulated=result.recording.run.simulated,
        ),
        instead=instead(result.decision, result.short),
        count_line=count_line(result.verdicts),
        stages=result.recording.attempts,
        stage_tables=tables_of(excerpt.result.recording),
        events=events[:MARKS_MAX],
        events_left=len(events[MARKS_MAX:]),
        charts=charts,
        library=library,
        script=script,
        places=places,
    )


def _first_anchors(anchors: Mapping[tuple[str, str], str]) -> dict[str, str]:
    """The anchor of each criterion's first, and so worst, verdict."""
    first: dict[str, str] = {}
    for (criterion, _), anchor in anchors.items():
        first.setdefault(criterion, anchor)
    return first


def _findings(verdicts: Sequence[Verdict]) -> Iterator[tuple[str, str]]:
    """An outcome and a sentence for each failure, each warning, and each cause of what was not measured."""
    for outcome in (Outcome.FAIL, Outcome.WARN):
        yield from ((outcome.value, sentence(verdict)) for verdict in of_outcome(verdicts, outcome))
    groups = not_measured_groups(verdicts)
    yield from ((Outcome.NOT_MEASURED.value, not_measured_sentence(group)) for group in groups)
