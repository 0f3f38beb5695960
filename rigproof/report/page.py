"""report.html: one file that opens anywhere, offline."""

from pathlib import Path

from bokeh.embed import components
from bokeh.resources import Resources
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from rigproof.records.durable import replacing
from rigproof.records.verdict import Outcome, figure, sentence
from rigproof.report.charts import charts_of
from rigproof.report.order import WORDS, count_line, meaning, reading_order, word
from rigproof.report.stage_tables import tables_of
from rigproof.report.verdict_json import RunResult

TEMPLATES = Path(__file__).parent / "templates"


def write_page(path: Path, result: RunResult) -> None:
    """Write it in one step. Raises OSError."""
    text = page_text(result)
    with replacing(path) as file:
        file.write(text.encode())


def page_text(result: RunResult) -> str:
    """The whole page. Everything that comes from the run is escaped."""
    charts = charts_of(result)
    library, script, place = Markup(""), Markup(""), Markup("")
    if charts is not None:
        made, div = components(charts)
        # Bokeh's own library and its JSON, which it escapes; nothing of the run is Markup elsewhere.
        library = Markup(Resources(mode="inline", components=["bokeh"]).render_js())  # noqa: S704
        script, place = Markup(made), Markup(div)  # noqa: S704
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(figure=figure, sentence=sentence, word=word)
    loud = (Outcome.FAIL, Outcome.WARN)
    unmeasured = [v for v in result.verdicts if v.outcome is Outcome.NOT_MEASURED and v.required]
    return environment.get_template("report.html.jinja").render(
        result=result,
        run=result.recording.run,
        facts=result.facts,
        verdicts=reading_order(result.verdicts),
        findings=[v for v in reading_order(result.verdicts) if v.outcome in loud] + unmeasured,
        outcomes=[(o.value, WORDS[o]) for o in Outcome if any(v.outcome is o for v in result.verdicts)],
        meaning=meaning(result.decision, result.verdicts, interrupted=result.interrupted),
        count_line=count_line(result.verdicts),
        stages=list(result.recording.stages.values()),
        stage_tables=tables_of(result.recording),
        library=library,
        script=script,
        place=place,
    )
