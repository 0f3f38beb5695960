from copy import copy
from dataclasses import replace

import numpy as np
import pytest

from rigproof.records.recording import Recording
from rigproof.records.verdict import Decision
from rigproof.report.content.facts import run_facts
from rigproof.report.content.result import RunResult
from rigproof.report.page.charts import charts_of, overlay_of
from rigproof.report.page.page import page_text
from rigproof.report.page.plots import PlotLine
from support.plots import bokeh_plots


@pytest.fixture
def result(recording, verdicts):
    return RunResult(recording, run_facts(recording), verdicts, Decision.REJECTED, 61.2)


@pytest.fixture
def other(recorded):
    """The same run under another name, whose stages began 7 s later."""
    other = copy(recorded)
    other.run = replace(recorded.run, run_id="20260101T000000Z-lab-ffffff", started_at="2026-01-01T00:00:00Z")
    other.stages = {
        name: replace(stage, start_s=stage.start_s + 7, end_s=stage.end_s + 7)
        for name, stage in recorded.stages.items()
    }
    return other


def test_another_run_begins_where_this_one_does(recording, other):
    overlay = overlay_of(recording, other)
    assert overlay.shift_s == -7
    lines = [PlotLine("pc1/gpu0", "pc1/gpu0", [10.0, 11.0], [1.0, 2.0]), PlotLine("x", "x", [1.0], [1.0])]
    assert overlay.lines(lines, ["pc1/gpu0"]) == [
        PlotLine("pc1/gpu0, other run", "pc1/gpu0", [3.0, 4.0], [1.0, 2.0], dotted=True)
    ]
    assert overlay_of(recording, Recording(other.run)).shift_s == 0


def test_its_lines_are_dotted_in_the_same_charts_and_colours(result, other):
    alone = {chart.title: chart for chart in charts_of(result)}
    both = {chart.title: chart for chart in charts_of(result, other=other)}
    assert list(both) == list(alone)
    chart = both["Core temperature, °C"]
    assert [key.label for key in chart.keys] == [
        "pc1/gpu0",
        "pc1/gpu1",
        "pc1/gpu0, other run",
        "pc1/gpu1, other run",
    ]
    assert chart.keys[0].color == chart.keys[2].color != chart.keys[1].color
    plot = bokeh_plots(both.values())[chart.title]
    glyphs = {one.name: one for one in plot.renderers if one.name}
    mine, others = (glyphs[chart.keys[place].glyph] for place in (0, 2))
    assert (mine.glyph.line_dash, bool(others.glyph.line_dash)) == ([], True)
    assert np.allclose(others.data_source.data["t_s"][1:9], mine.data_source.data["t_s"][1:9] - 7)
    assert [len(one.keys) for one in both.values()] == [
        len(one.keys) * (1 if title == "Stages and events" else 2) for title, one in alone.items()
    ]


def test_the_page_names_the_other_run(result, other):
    assert "Dotted: run <code>20260101T000000Z-lab-ffffff</code>, of 2026-01-01" in page_text(result, other)
    assert "Dotted" not in page_text(result)
