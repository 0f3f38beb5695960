"""The charts of report.html: what each shows, from the Recording."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from bokeh.layouts import gridplot
from bokeh.models import ColumnDataSource, HoverTool, Range1d

from rigproof.records.recording import Recording
from rigproof.records.samples import GpuSample
from rigproof.report.facts import QUIET_EVENTS
from rigproof.report.plots import Series, TimePlots, band
from rigproof.report.verdict_json import RunResult

POINTS_MAX = 2000  # of one line
POINTS_ALL = 250_000  # of all lines: 8 bytes each and a third more as base64, so under 3 MB


@dataclass(frozen=True, slots=True)
class GpuChart:
    """One sensor of all GPUs: its title, what a sample says, and the criterion whose limit is drawn."""

    title: str
    read: Callable[[GpuSample], float | None]
    limited_by: str = ""
    zero: bool = False


GPU_CHARTS = (
    GpuChart("Core temperature, °C", lambda one: one.core_temperature_c, "thermal.core_temperature"),
    GpuChart("Memory temperature, °C", lambda one: one.memory_temperature_c, "thermal.memory_temperature"),
    GpuChart("Power (dashed: the enforced limit), W", lambda one: one.power_w, "enforced", zero=True),
    GpuChart("SM clock, MHz", lambda one: one.sm_clock_mhz),
    GpuChart("GPU utilization, %", lambda one: one.utilization_percent, zero=True),
    GpuChart("GPU memory in use, GiB", lambda one: _gib(one.memory_used_mib), zero=True),
)


def charts_of(result: RunResult) -> Any:
    """Below each other, with one time axis and one toolbar; None where nothing was recorded."""
    recording = result.recording
    moments = [one.t_s for one in recording.rounds]
    moments += [one.t_s for one in recording.gpu_samples] + [one.t_s for one in recording.host_samples]
    if not moments:
        return None
    subjects = [device.subject for device in result.facts.devices] + [
        node.name for node in result.facts.nodes
    ]
    rounds = _rounds(recording)
    lines = len(subjects) * (len(GPU_CHARTS) + 1) + len(rounds)
    points = max(100, min(POINTS_MAX, POINTS_ALL // max(lines, 1)))
    plots = TimePlots(max(moments), subjects, list(recording.stages.values()), points)
    figures = [_timeline(recording, plots), plots.lines("Rate of each round, TFLOP/s", rounds, zero=True)]
    by_subject: dict[str, list[GpuSample]] = {}
    for sample in recording.gpu_samples:
        by_subject.setdefault(sample.subject, []).append(sample)
    figures += [_sensor(chart, by_subject, result, plots) for chart in GPU_CHARTS]
    figures.append(_host_cpu(result, plots))
    shown = [one for one in figures if one is not None]
    shown[-1].xaxis.axis_label = "seconds since the run began"
    toolbar = {"logo": None, "autohide": False}
    return gridplot(shown, ncols=1, sizing_mode="stretch_width", toolbar_options=toolbar)


def _timeline(recording: Recording, plots: TimePlots) -> Any:
    """Stages by name and events as markers."""
    plot = plots.empty("Stages and events", height=110)
    plot.y_range = Range1d(start=0, end=2)
    plot.yaxis.visible = False
    plot.ygrid.visible = False
    plots.stage_names(plot, height=1.25)
    events = [event for event in recording.events if event.kind not in QUIET_EVENTS]
    columns = {
        "t_s": [event.t_s for event in events],
        "row": [0.6] * len(events),
        "kind": [event.kind for event in events],
        "subject": [event.subject for event in events],
        "message": [event.message[:200] for event in events],
    }
    markers = plot.scatter(
        "t_s", "row", source=ColumnDataSource(columns), marker="inverted_triangle", size=11, color="#c62828"
    )
    hover = [("t", "@t_s{0.0} s"), ("", "@kind @subject"), ("", "@message")]
    plot.add_tools(HoverTool(renderers=[markers], tooltips=hover, visible=False))
    return plot


def _sensor(chart: GpuChart, samples: dict[str, list[GpuSample]], result: RunResult, plots: TimePlots) -> Any:
    series = [
        Series(subject, subject, [one.t_s for one in found], [chart.read(one) for one in found])
        for subject, found in samples.items()
    ]
    return plots.lines(chart.title, series, _limits(chart, result), zero=chart.zero)


def _limits(chart: GpuChart, result: RunResult) -> dict[str, float]:
    """The limit of each subject that has one."""
    if chart.limited_by == "enforced":
        enforced = {subject: gpu.power_limit_w for subject, gpu in result.recording.gpus.items()}
        return {subject: limit for subject, limit in enforced.items() if limit is not None}
    judged = (verdict for verdict in result.verdicts if verdict.criterion == chart.limited_by)
    return {verdict.subject: verdict.limit for verdict in judged if verdict.limit is not None}


def _rounds(recording: Recording) -> list[Series]:
    """The rate of each worker's rounds; workers that share a GPU have one colour."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for one in recording.rounds:
        if one.seconds > 0:
            found.setdefault((one.worker, one.subject), []).append((one.t_s, one.tflop / one.seconds))
    return [
        Series(worker, subject, [t_s for t_s, _ in points], [rate for _, rate in points])
        for (worker, subject), points in found.items()
    ]


def _host_cpu(result: RunResult, plots: TimePlots) -> Any:
    """CPU of each host, the promised band shaded."""
    found: dict[str, list[tuple[float, float | None]]] = {}
    for sample in result.recording.host_samples:
        found.setdefault(sample.subject, []).append((sample.t_s, sample.cpu_percent))
    series = [Series(name, name, *_columns(points)) for name, points in found.items()]
    plot = plots.lines("Host CPU (green: the promised band), %", series, zero=True)
    if plot is not None:
        plot.y_range.end = 105
        for low, high in {node.band_percent for node in result.facts.nodes if node.band_percent is not None}:
            band(plot, low, high)
    return plot


def _columns(points: Iterable[tuple[float, float | None]]) -> tuple[list[float], list[float | None]]:
    times_s, values = [], []
    for t_s, value in points:
        times_s.append(t_s)
        values.append(value)
    return times_s, values


def _gib(mib: float | None) -> float | None:
    return None if mib is None else mib / 1024
