"""The charts of report.html as Bokeh's Python reads them, which knows each model, property and value."""

from collections.abc import Iterable
from unittest.mock import patch

from bokeh import models  # without them it knows none
from bokeh.document import Document

from rigproof.report.page.plots import Chart, document_of


def bokeh_plots(charts: Iterable[Chart]) -> dict[str, models.Plot]:
    """The plot of each chart, by the chart's title. Raises AttributeError or ValueError."""
    charts = list(charts)
    written = document_of(chart.plot for chart in charts)
    with patch("bokeh.core.has_props.log.warning", _unknown):
        read = Document.from_json(written | {"title": "", "config": None})
    return {chart.title: plot for chart, plot in zip(charts, read.roots, strict=True)}


def _unknown(message: str, *arguments: object) -> None:
    raise AttributeError(message % arguments)
