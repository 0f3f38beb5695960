"""report.html: one file that opens anywhere, offline."""

import re
from pathlib import Path

from bokeh.embed import components
from bokeh.resources import Resources
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from rigproof.judging.catalogue import CATALOGUE
from rigproof.records.disk.durable import replacing
from rigproof.records.verdict import Outcome, counts, figure, limit_text, sentence
from rigproof.report.content.excerpt import excerpt_of
from rigproof.report.content.order import WORDS, count_line, instead, meaning, reading_order, word
from rigproof.report.content.stage_tables import tables_of
from rigproof.report.content.verdict_json import RunResult
from rigproof.report.page.charts import charts_of

ROWS_MAX = 4000  # of the criteria: as many as a browser shows without delay
FINDINGS_MAX = 500
TEMPLATES = Path(__file__).parent / "templates"


def write_page(path: Path, result: RunResult) -> None:
    """Write it in one step. Raises OSError."""
    text = page_text(result)
    with replacing(path) as file:
        file.write(text.encode())


def page_text(result: RunResult) -> str:
    """The whole page. Everything that comes from the run is escaped."""
    excerpt = excerpt_of(result)
    charts = charts_of(result, excerpt)
    library, script, place = Markup(""), Markup(""), Markup("")
    if charts is not None:
        made, div = components(charts)
        # Bokeh's own library, and its JSON, which it escapes. No other content of the run is Markup.
        library = Markup(Resources(mode="inline", components=["bokeh"]).render_js())  # noqa: S704
        script, place = Markup(made), Markup(div)  # noqa: S704
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(figure=figure, limit_text=limit_text, sentence=sentence, word=word)
    environment.filters["code"] = _with_code
    loud = (Outcome.FAIL, Outcome.WARN, Outcome.NOT_MEASURED)
    ordered = reading_order(result.verdicts)
    findings = [v for v in ordered if v.outcome in loud]
    found = dict.fromkeys(verdict.criterion for verdict in findings)
    counted = counts(result.verdicts)
    return environment.get_template("report.html.jinja").render(
        result=result,
        run=result.recording.run,
        facts=result.facts,
        nodes=excerpt.result.facts.nodes,
        excerpt_note=excerpt.note,
        verdicts=ordered[:ROWS_MAX],
        verdicts_left=len(ordered[ROWS_MAX:]),
        findings=findings[:FINDINGS_MAX],
        findings_left=len(findings[FINDINGS_MAX:]),
        explained={name: CATALOGUE[name] for name in found if name in CATALOGUE},
        outcomes=[(o.value, WORDS[o], counted[o.value]) for o in Outcome if counted[o.value]],
        meaning=meaning(result.decision, result.verdicts, interrupted=result.interrupted, short=result.short),
        instead=instead(result.decision, result.short),
        count_line=count_line(result.verdicts),
        stages=result.recording.attempts,
        stage_tables=tables_of(excerpt.result.recording),
        library=library,
        script=script,
        place=place,
    )


def _with_code(text: str) -> Markup:
    """Text of the catalogue, escaped, with what is between backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704 - it is escaped
