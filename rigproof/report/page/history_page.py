"""The page of a rig's history: what `rigproof history` lists, with a chart for each figure of each card."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np

from rigproof.records.disk.durable import replacing
from rigproof.records.grouping import grouped
from rigproof.records.measurements import Stage
from rigproof.report.page.page import library, templates
from rigproof.report.page.plots import LINE_COLORS, Chart, Model, TimePlots, document_of, hover

SLOWER, FASTER, FIRST = "#d32f2f", "#2e7d32", "#888888"  # a level, beside the one before it
SPAN = 0.02  # of the median, the least that a chart shows: noise looks flat
RUN = itemgetter("number", "measured_at")  # which run it is
Places = Mapping[tuple[str, str], int]
Trend = Mapping[str, Any]  # as `rigproof history --json` has it


class _RunPlots(TimePlots):
    """Over runs, the first at 1, in place of seconds; a stage is a time in which no condition changed."""

    def _times(self) -> Model:
        ticker = Model("BasicTicker", min_interval=1)
        return Model("LinearAxis", axis_label="runs, the oldest first", ticker=ticker)


def write_history_page(path: Path, content: Mapping[str, Any], notes: Sequence[str]) -> None:
    """Write one rig's page in one step; `content` is `history_content`'s. Raises OSError."""
    places = {run: place for place, run in enumerate(content["runs"], start=1)}
    begins = [(0.0, "")] + [(places[RUN(one)] - 0.5, one["text"]) for one in content["changes"]]
    ends = [*begins, (len(places) + 1.0, "")]
    alike = [Stage(text, begin, end, "finished") for (begin, text), (end, _) in pairwise(ends)]
    plots = _RunPlots(len(places) + 1.0, (), alike, len(places))
    # One line for all charts, and one source for all of a card: what is marked in one is marked in each.
    line = Model("Span", dimension="height", line_color=FIRST)
    cross = Model("CrosshairTool", dimensions="height", overlay=line)
    names = plots.plot((0, 2), [plots.stage_names()], [cross], (), height=110, axis=False)
    cards: dict[str | None, list[Trend]] = grouped(content["trends"], lambda trend: trend["gpu_uuid"])
    charts = [_charts(own, f"card-{n}", places, plots, cross) for n, own in enumerate(cards.values())]
    first = [Chart("changes", "Changes, from run to run", names)] if content["changes"] else []
    text = templates().get_template("history.html.jinja").render(
        **content, cards=list(zip(cards.values(), charts, strict=True)), first=first, notes=notes,
        plots=document_of(one.plot for own in (first, *charts) for one in own), library=library(),
    )  # fmt: skip
    with replacing(path) as file:
        file.write(text.encode())


def _charts(own: Sequence[Trend], card: str, places: Places, plots: TimePlots, cross: Model) -> list[Chart]:
    """A chart of each figure of a card: a dot for each run, a line for each level, the change beside it."""
    runs = {RUN(run): run for trend in own for run in trend["runs"]}
    data: dict[str, Any] = {
        "place": [places[run] for run in runs],
        "run": [f"{number}, {moment[:16].replace('T', ' ')}" for number, moment in runs],
        "under": [_under(run) for run in runs.values()],
    }
    source, charts = Model("ColumnDataSource", data=data), []
    subject = own[0]["runs"][-1]["subject"]
    twins = Counter(trend["title"] for trend in own)
    for number, trend in enumerate(own):
        anchor, unit = f"{card}-{number}", trend["unit"]
        rates = {RUN(run): run["rate"] for run in trend["runs"]}
        own_means = {RUN(run): _meanwhile(run) for run in trend["runs"]}
        data[f"{anchor}-at"] = [own_means.get(one, "") for one in runs]
        data[anchor] = np.array([rates.get(one, np.nan) for one in runs])
        color = {"fill_color": {"value": LINE_COLORS[0]}, "line_color": None}
        dot = Model("Scatter", x={"field": "place"}, y={"field": anchor}, size={"value": 6}, **color)
        dots = Model("GlyphRenderer", name=anchor, data_source=source, glyph=dot)
        rate, means = f"@{{{anchor}}}{{0.00}}", f"@{{{anchor}-at}}"
        tips = hover(dots, [("run", "@run"), (unit, rate), ("at", means), ("", "@under")])
        low, high = min(rates.values()), max(rates.values())
        middle, half = (low + high) / 2, max((high - low) * 0.65, SPAN * trend["median"] / 2)
        shapes = [dots, *_levels(trend, places)]
        plot = plots.plot((middle - half, middle + half), shapes, [tips, cross, Model("TapTool")], ())
        work = f" ({trend['labels']})" if twins[trend["title"]] > 1 else ""
        charts.append(Chart(anchor, f"{subject} {trend['title']}{work}, {unit}", plot))
    return charts


def _levels(trend: Trend, places: Places) -> list[Model]:
    """A line over the runs of each level, and how it differs from the one before."""
    steps = {RUN(one): one for one in trend["steps"]}
    data: dict[str, list[Any]] = defaultdict(list)
    runs = [RUN(run) for run in trend["runs"]]
    for begin, end in pairwise((0, *map(runs.index, steps), len(runs))):
        first, last = runs[begin], runs[end - 1]
        step = steps.get(first)
        data["from"].append(places[first] - 0.4)
        data["to"].append(places[last] + 0.4)
        data["level"].append(geometric_mean(run["rate"] for run in trend["runs"][begin:end]))
        data["color"].append(FIRST if step is None else SLOWER if step["percent"] < 0 else FASTER)
        data["text"].append("" if step is None else f"{step['percent']:+.2g} % since {first[0]}")
        late = places[first] > len(places) / 2  # no text ends beyond the chart
        data["align"].append("right" if late else "left")
        data["at"].append(data["to" if late else "from"][-1])
    source, y = Model("ColumnDataSource", data=data), {"field": "level"}
    line = Model("Segment", x0={"field": "from"}, y0=y, x1={"field": "to"}, y1=y, line_width={"value": 3},
                 line_color={"field": "color"})  # fmt: skip
    text = Model("Text", x={"field": "at"}, y=y, text={"field": "text"}, text_align={"field": "align"},
                 text_font_size={"value": "9pt"}, y_offset={"value": -12})  # fmt: skip
    return [Model("GlyphRenderer", data_source=source, glyph=one) for one in (line, text)]


def _under(run: Mapping[str, Any]) -> str:
    """What a run was measured under, for its tip."""
    limit = "" if run["power_limit_w"] is None else f"{run['power_limit_w']:.0f} W"
    driver = f"driver {run['driver']}" if run["driver"] else ""
    return ", ".join(filter(None, (driver, limit, run["shortened"], *run["tags"])))


def _meanwhile(run: Mapping[str, Any]) -> str:
    """The mean clock and core temperature of a figure's rounds, as far as they were read."""
    read = (("sm_clock_mean_mhz", "MHz"), ("core_temperature_mean_c", "°C"))
    return ", ".join(f"{run[name]:.0f} {unit}" for name, unit in read if run[name] is not None)
