"""The charts of report.html as Bokeh's Python reads them, which knows each model, property and value."""

from collections.abc import Iterable
from typing import Any
from unittest.mock import patch

from bokeh import models  # without them it knows none
from bokeh.document import Document

from rigproof.report.page.plots import Chart, document_of


def bokeh_plots(charts: Iterable[Chart]) -> dict[str, models.Plot]:
    """The plot of each chart, by the chart's title. Raises AttributeError or ValueError."""
    charts = list(charts)
    plots = read_plots(document_of(chart.plot for chart in charts))
    return {chart.title: plot for chart, plot in zip(charts, plots, strict=True)}


def read_plots(written: dict[str, Any]) -> list[models.Plot]:
    """The plots of a page's document, in their order. Raises as above."""
    with patch("bokeh.core.has_props.log.warning", _unknown):
        return Document.from_json(written | {"title": "", "config": None}).roots


def _unknown(message: str, *arguments: object) -> None:
    raise AttributeError(message % arguments)
