"""Plots over run time with a common axis, the same colours and shaded stages."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from bokeh import __version__
from bokeh.core.serialization import Serializable, Serializer
from bokeh.util.serialization import make_id

from rigproof.records.measurements import Stage
from rigproof.report.page.downsample import Floats, line_of

# Of the kinds of stages, in turns: those of neighbours differ.
STAGE_TINTS = ("#dbe9f6", "#fde8cf", "#e2f0d9", "#ece2f2", "#f9dfe3", "#d9efee", "#f2edc9")
# Those of D3 for ten categories.
LINE_COLORS = (
    *("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd"),
    *("#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf"),
)
HEIGHT = 220
DASHED, DOTTED = [6], [2, 4]  # pixels drawn, and left out
# By these names the page's script finds the one time axis, what writes its ticks, and the stages' names.
TIME_AXIS, HOURS, NAMES = "time", "hours", "names"
NAMES_SIZE = "9pt"


class Model(Serializable):  # type: ignore[misc]  # mypy leaves bokeh out
    """A model of Bokeh's library of type `type_`, with the `properties` that differ from the defaults.

    Bokeh's own Python models take a second of CPU to import and to check themselves; the tests read with them
    what is written here. One that others refer to in several places is the same one in all of them.
    """

    def __init__(self, type_: str, /, **properties: Any) -> None:
        self.type, self.properties = type_, properties

    def to_serializable(self, serializer: Serializer) -> dict[str, Any]:
        """The form that Bokeh's library reads. Bokeh's serializer asks once, then writes a reference."""
        reference = {"id": make_id()}
        serializer.add_ref(self, reference)
        attributes = {name: serializer.encode(value) for name, value in self.properties.items()}
        return {"type": "object", "name": self.type, **reference, "attributes": attributes}


@dataclass(frozen=True, slots=True)
class PlotLine:
    """A line: its name, the subject that determines its colour, and its points; None and NaN break it."""

    name: str
    subject: str
    times_s: Sequence[float] | Floats
    values: Sequence[float | None] | Floats
    dotted: bool = False  # of another run


@dataclass(frozen=True, slots=True)
class Key:
    """An entry of a chart's legend: a line's name and colour, and the name of the glyph that draws it."""

    label: str
    color: str
    glyph: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of the page. Links lead to its `anchor`, with which the glyphs' names begin."""

    anchor: str
    title: str
    plot: Model
    keys: tuple[Key, ...] = ()


class TimePlots:
    """Makes the plots of one page. `subjects` determine the colours; a line has at most `points` points.

    `begun`: when a long run began, by the clock: its time is shown in hours. Empty: in seconds.
    """

    def __init__(
        self, end_s: float, subjects: Sequence[str], stages: Sequence[Stage], points: int, begun: str = ""
    ) -> None:
        self._begun = begun
        self._end_s = max(end_s, 1.0)
        self._time_axis = Model("Range1d", start=0, end=self._end_s, bounds="auto", name=TIME_AXIS)
        self._places = {subject: place for place, subject in enumerate(subjects)}
        self._stages = stages
        self._points = points
        kinds = list(dict.fromkeys(stage.name for stage in stages))
        # Data of one glyph in all plots: an annotation for each stage would be a third of the page's work.
        shades = {
            "from_s": [stage.start_s for stage in stages],
            "to_s": [self._end_s if stage.end_s is None else stage.end_s for stage in stages],
            "tint": [STAGE_TINTS[kinds.index(stage.name) % len(STAGE_TINTS)] for stage in stages],
        }
        self._shades = Model("ColumnDataSource", data=shades)
        self._shade = Model(
            "VStrip",
            x0={"field": "from_s"},
            x1={"field": "to_s"},
            fill_color={"field": "tint"},
            fill_alpha=0.45,
            line_color=None,
        )

    def color(self, subject: str) -> str:
        """A subject's colour, the same in every plot."""
        return LINE_COLORS[self._places.get(subject, len(self._places)) % len(LINE_COLORS)]

    def plot(
        self,
        values: tuple[float, float],
        glyphs: Iterable[Model],
        hovers: Iterable[Model],
        annotations: Iterable[Model],
        height: int = HEIGHT,
        *,
        axis: bool = True,
    ) -> Model:
        """A plot of the glyphs over shaded stages, from the lowest to the highest of `values`.

        Its title, legend and buttons are the page's. Without `axis`, the values have none.
        """
        times = self._times()
        scale = [Model("LinearAxis")] if axis else []
        drag = Model("BoxZoomTool", dimensions="width")
        # Without a key held the wheel scrolls the page, which is many charts long.
        wheel = Model("WheelZoomTool", dimensions="width", modifiers={"ctrl": True})
        shades = Model("GlyphRenderer", data_source=self._shades, glyph=self._shade, level="underlay")
        return Model(
            "Plot",
            height=height,
            sizing_mode="stretch_width",
            x_range=self._time_axis,
            y_range=Model("Range1d", start=values[0], end=values[1]),
            renderers=[shades, *glyphs],
            toolbar=Model("Toolbar", tools=[drag, wheel, *hovers], active_drag=drag),
            toolbar_location=None,
            below=[times],
            left=scale,
            center=[
                Model("Grid", axis=times, grid_line_alpha=0.4),
                *(Model("Grid", axis=one, dimension=1) for one in scale),
                *annotations,
            ],
            background_fill_color=None,  # the page's own
            border_fill_color=None,
            outline_line_color="#a8b0b8",
            min_border_left=56,  # the same for all, so that their time axes are aligned
        )

    def _times(self) -> Model:
        if not self._begun:
            return Model("LinearAxis", axis_label="seconds since the run began")
        return Model(
            "LinearAxis",
            axis_label=f"h:mm since the start at {self._begun.partition(' ')[2]}",
            ticker=Model("AdaptiveTicker", base=60, mantissas=[1, 2, 5, 10, 15, 30]),
            formatter=Model("NumeralTickFormatter", format="00:00:00", tags=[HOURS]),
        )

    @property
    def moment(self) -> str:
        """The format of a point's time beside the mouse."""
        return "@t_s{00:00:00}" if self._begun else "@t_s{0.0} s"

    def stage_names(self) -> Model:
        """The names of stages, and of laps if there are several: the page's script shows those that fit.

        Its data source, NAMES, is tagged with all of them: from and to, run time, the text, and whether it
        is that of a lap.
        """
        several = len({stage.lap for stage in self._stages}) > 1
        begins_s: dict[int, float] = {}
        for stage in self._stages:
            begins_s.setdefault(stage.lap, stage.start_s)
        ends_s = [*sorted(begins_s.values())[1:], self._end_s]
        tags: list[tuple[float, float, str, bool]] = []
        if several:
            tags += [
                (from_s, to_s, f"lap {lap}", True)
                for (lap, from_s), to_s in zip(begins_s.items(), ends_s, strict=True)
            ]
        for stage in self._stages:
            text = stage.name if stage.status == "finished" else f"{stage.name} ({stage.status})"
            tags.append((stage.start_s, self._end_s if stage.end_s is None else stage.end_s, text, False))
        empty: list[float] = []
        data = {"t_s": empty, "row": empty, "text": empty}
        return Model(
            "GlyphRenderer",
            data_source=Model("ColumnDataSource", data=data, name=NAMES, tags=tags),
            glyph=Model(
                "Text",
                x={"field": "t_s"},
                y={"field": "row"},
                text={"field": "text"},
                text_font_size={"value": NAMES_SIZE},
                text_color={"value": "#333333"},
            ),
        )

    def lines(
        self,
        anchor: str,
        title: str,
        series: Sequence[PlotLine],
        limits: Mapping[str, float] | None = None,
        bands: Iterable[tuple[float, float]] = (),
        *,
        zero: bool = False,
        top: float | None = None,
    ) -> Chart | None:
        """A line for each series with a value, and its subject's limit dashed; None if there is no line.

        The title ends in a comma and the unit. `bands`, in which values should stay, are shaded. With `zero`,
        the value axis begins at 0; with `top`, it ends there.
        """
        numbers = [np.asarray(line.values, np.float64) for line in series]
        known = [one[np.isfinite(one)] for one in numbers]
        shown = [line for line, own in zip(series, known, strict=True) if len(own)]
        if not shown:
            return None
        limits = limits or {}
        unit = title.rpartition(", ")[2]
        keys = [Key(line.name, self.color(line.subject), f"{anchor}:{n}") for n, line in enumerate(shown)]
        glyphs = [self._line(line, key) for line, key in zip(shown, keys, strict=True)]
        hovers = [
            hover(glyph, [("", line.name), ("t", self.moment), (unit, "@value{0.0}")])
            for line, glyph in zip(shown, glyphs, strict=True)
        ]
        limits_shown = {line.subject: limits[line.subject] for line in shown if line.subject in limits}
        annotations = [self._limit(subject, limit) for subject, limit in limits_shown.items()]
        annotations += [_band(low, high) for low, high in bands]
        every = np.concatenate((*known, list(limits_shown.values())))
        low, high = float(every.min()), float(every.max())
        margin = max((high - low) * 0.06, abs(high) * 0.01, 0.1)
        ends = (0 if zero else low - margin, high + margin if top is None else top)
        return Chart(anchor, title, self.plot(ends, glyphs, hovers, annotations), tuple(keys))

    def _line(self, series: PlotLine, key: Key) -> Model:
        times_s, values = line_of(series.times_s, series.values, self._points)
        line = Model(
            "Line",
            x={"field": "t_s"},
            y={"field": "value"},
            line_color=key.color,
            line_width=1.5,
            line_dash=DOTTED if series.dotted else [],
        )
        return renderer(line, {"t_s": times_s, "value": values}, key)

    def _limit(self, subject: str, limit: float) -> Model:
        return Model(
            "Span",
            location=limit,
            dimension="width",
            line_dash=DASHED,
            line_color=self.color(subject),
            line_alpha=0.8,
        )


def renderer(shape: Model, data: Mapping[str, object], key: Key) -> Model:
    """The shape for each point of the data, named as the legend's entry says."""
    source = Model("ColumnDataSource", data=data)
    return Model("GlyphRenderer", name=key.glyph, data_source=source, glyph=shape)


def hover(glyph: Model, rows: Sequence[tuple[str, str]]) -> Model:
    """Shows rows of (label, text) beside the glyph's point that the mouse is over."""
    return Model("HoverTool", renderers=[glyph], tooltips=rows, visible=False)


def _band(low: float, high: float) -> Model:
    return Model(
        "BoxAnnotation",
        bottom=low,
        top=high,
        fill_color="#2e7d32",
        fill_alpha=0.12,
        line_color=None,
        level="underlay",
    )


def document_of(plots: Iterable[Model]) -> dict[str, Any]:
    """The plots, in their order, as Bokeh's library reads a document."""
    return {"version": __version__, "roots": Serializer(deferred=False).encode(list(plots))}
