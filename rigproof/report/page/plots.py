"""Plots over run time with a common axis, the same colours and shaded stages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from bokeh.models import (
    BoxAnnotation,
    ColumnDataSource,
    HoverTool,
    Label,
    Range1d,
    Span,
    WheelZoomTool,
)
from bokeh.palettes import Category10_10
from bokeh.plotting import figure

from rigproof.records.measurements import Stage
from rigproof.report.page.downsample import line_of

STAGE_TINTS = ("#dbe9f6", "#fde8cf", "#e2f0d9", "#ece2f2")
HEIGHT = 220
LATE = 0.8  # of the run: a stage that begins later has its name before its end, not behind its start
TIME_AXIS = "time"  # the name of the one time axis, by which the page's buttons find it


@dataclass(frozen=True, slots=True)
class PlotLine:
    """One line: its name, the subject that determines its colour, and its points; None breaks it."""

    name: str
    subject: str
    times_s: Sequence[float]
    values: Sequence[float | None]
    dotted: bool = False  # of another run


@dataclass(frozen=True, slots=True)
class Key:
    """An entry of a chart's legend: a line's name and colour, and the name of the glyph that draws it."""

    label: str
    color: str
    glyph: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of the page. `anchor`: what links lead to; the glyphs' names begin with it."""

    anchor: str
    title: str
    plot: Any
    keys: tuple[Key, ...] = ()


class TimePlots:
    """Makes the plots of one page. `subjects` determine the colours; a line has at most `points` points."""

    def __init__(self, end_s: float, subjects: Sequence[str], stages: Sequence[Stage], points: int) -> None:
        self._time_axis = Range1d(start=0, end=max(end_s, 1.0), bounds="auto", name=TIME_AXIS)
        self._places = {subject: place for place, subject in enumerate(subjects)}
        self._stages = stages
        self._points = points
        # Data of one glyph in each plot: an annotation for each stage would be a third of the page's work.
        self._shades = ColumnDataSource(
            {
                "from_s": [stage.start_s for stage in stages],
                "to_s": [self._time_axis.end if stage.end_s is None else stage.end_s for stage in stages],
                "tint": [STAGE_TINTS[place % len(STAGE_TINTS)] for place in range(len(stages))],
            }
        )

    def color(self, subject: str) -> str:
        """A subject's colour, the same in every plot."""
        color: str = Category10_10[self._places.get(subject, len(self._places)) % len(Category10_10)]
        return color

    def empty(self, height: int = HEIGHT) -> Any:
        """A plot with shaded stages and no lines yet. Its title, legend and buttons are the page's."""
        plot = figure(
            height=height,
            sizing_mode="stretch_width",
            x_range=self._time_axis,
            tools="xbox_zoom",
            active_drag="xbox_zoom",
            toolbar_location=None,
        )
        # Without a key held the wheel scrolls the page, which is many charts long.
        plot.add_tools(WheelZoomTool(dimensions="width", modifiers="ctrl"))
        plot.background_fill_color = plot.border_fill_color = None  # the page's own
        plot.xgrid.grid_line_alpha = 0.4
        plot.outline_line_color = "#a8b0b8"
        plot.min_border_left = 56  # the same for all, so that their time axes are aligned
        plot.vstrip(
            x0="from_s",
            x1="to_s",
            source=self._shades,
            fill_color="tint",
            fill_alpha=0.45,
            line_color=None,
            level="underlay",
        )
        return plot

    def stage_names(self, plot: Any, heights: Sequence[float]) -> None:
        """Write each stage's name where it begins, in turns at these heights: short ones are close together.

        A late one's name ends where the stage ends: the plot is over soon after.
        """
        last_s = float(self._time_axis.end)
        for stage, height in zip(self._stages, cycle(heights), strict=False):
            text = stage.name if stage.status == "finished" else f"{stage.name} ({stage.status})"
            late = stage.start_s > LATE * last_s
            plot.add_layout(
                Label(
                    x=(stage.end_s or last_s) if late else stage.start_s,
                    y=height,
                    text=text,
                    x_offset=-4 if late else 4,
                    text_align="right" if late else "left",
                    text_font_size="9pt",
                    text_color="#333333",
                )
            )

    def lines(
        self,
        anchor: str,
        title: str,
        series: Sequence[PlotLine],
        limits: Mapping[str, float] | None = None,
        *,
        zero: bool = False,
    ) -> Chart | None:
        """One line for each series with a value, and its subject's limit dashed; None if there is no line.

        The title ends in a comma and the unit. With `zero`, the value axis begins at 0.
        """
        shown = [line for line in series if any(value is not None for value in line.values)]
        if not shown:
            return None
        limits = limits or {}
        plot = self.empty()
        keys = [Key(line.name, self.color(line.subject), f"{anchor}:{n}") for n, line in enumerate(shown)]
        for line, key in zip(shown, keys, strict=True):
            self._draw(plot, line, key, unit=title.rpartition(", ")[2])
        limits_shown = {line.subject: limits[line.subject] for line in shown if line.subject in limits}
        for subject, limit in limits_shown.items():
            plot.add_layout(
                Span(
                    location=limit,
                    dimension="width",
                    line_dash="dashed",
                    line_color=self.color(subject),
                    line_alpha=0.8,
                )
            )
        values = [value for line in shown for value in line.values if value is not None]
        values += limits_shown.values()
        margin = max((max(values) - min(values)) * 0.06, abs(max(values)) * 0.01, 0.1)
        plot.y_range = Range1d(start=0 if zero else min(values) - margin, end=max(values) + margin)
        return Chart(anchor, title, plot, tuple(keys))

    def _draw(self, plot: Any, series: PlotLine, key: Key, unit: str) -> None:
        times_s, values = line_of(series.times_s, series.values, self._points)
        line = plot.line(
            "t_s",
            "value",
            source=ColumnDataSource({"t_s": times_s, "value": values}),
            color=key.color,
            line_width=1.5,
            line_dash="dotted" if series.dotted else "solid",
            name=key.glyph,
        )
        hover = [("", series.name), ("t", "@t_s{0.0} s"), (unit, "@value{0.0}")]
        plot.add_tools(HoverTool(renderers=[line], tooltips=hover, description=series.name, visible=False))


def band(plot: Any, low: float, high: float) -> None:
    """Shade a band that values should stay in."""
    shade = BoxAnnotation(
        bottom=low, top=high, fill_color="#2e7d32", fill_alpha=0.12, line_color=None, level="underlay"
    )
    plot.add_layout(shade)
