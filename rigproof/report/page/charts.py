"""The charts of report.html, made from the Recording."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rigproof.criteria.criterion import Criterion
from rigproof.records.columns import Coded
from rigproof.records.measurements import TFLOP, Event, unit_of_rate
from rigproof.records.recording import Recording
from rigproof.records.rows import Rows
from rigproof.records.samples import GpuSample, HostSample
from rigproof.report.content.clock_times import begun_at, is_long
from rigproof.report.content.excerpt import Excerpt, Floats, Ranges, excerpt_of
from rigproof.report.content.facts import NOTICES, QUIET_EVENTS
from rigproof.report.content.result import RunResult
from rigproof.report.page.plots import Chart, Key, Model, PlotLine, TimePlots, hover, renderer

MARKS_MAX = 2000  # events
POINTS_MAX = 2000  # of one line
POINTS_ALL = 250_000  # of all lines: 8 bytes each and a third more as base64, so under 3 MB


@dataclass(frozen=True, slots=True)
class GpuChart:
    """A chart of one sensor, all GPUs: its title, the sample's field, the criterion whose limit is drawn.

    `criteria`: those that judge what it shows.
    """

    title: str
    field: str
    criteria: tuple[str, ...] = ()
    limited_by: str = ""
    zero: bool = False
    per: float = 1.0  # the field's units in one unit of the chart


CORE, MEMORY = "thermal.core_temperature", "thermal.memory_temperature"
POWER = ("power.draw", "power.limit")
ACTIVE = ("activity.gpu_active", "activity.undisturbed")
HELD = ("memory.headroom", "memory.no_oom", "inventory.foreign_memory")
GPU_CHARTS = (
    GpuChart("Core temperature, °C", "core_temperature_c", (CORE,), CORE),
    GpuChart("Memory temperature, °C", "memory_temperature_c", (MEMORY,), MEMORY),
    GpuChart("Power (dashed: the enforced limit), W", "power_w", POWER, "enforced", zero=True),
    GpuChart("SM clock, MHz", "sm_clock_mhz", ("clock.ratio", "thermal.throttle")),
    GpuChart("GPU utilization, %", "utilization_percent", ACTIVE, zero=True),
    GpuChart("GPU memory in use, GiB", "memory_used_mib", HELD, zero=True, per=1024),
)
TIMELINE, HOST_CPU = "chart-events", "chart-cpu"


def chart_of(criterion: Criterion) -> str:
    """The anchor of the chart that shows what a criterion judges; empty if no chart does."""
    for chart in GPU_CHARTS:
        if criterion.name in chart.criteria:
            return _anchor(chart.field)
    if criterion.figures:
        return _anchor(criterion.unit)
    if criterion.rate or criterion.sum_of:  # made of rates of matrix products or training steps
        return _anchor(unit_of_rate(TFLOP))
    if criterion.name in ("host.cpu_band", "host.steal"):
        return HOST_CPU
    return TIMELINE if criterion.family in ("cluster", "health") else ""


def _anchor(name: str) -> str:
    return "chart-" + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def charts_of(
    result: RunResult, excerpt: Excerpt | None = None, other: Recording | None = None
) -> list[Chart]:
    """All charts, in their order on the page, with one time axis; none if nothing was recorded.

    For a large rig, they show the devices of its excerpt, and the range of all devices. `other`: a run that
    is drawn over this one, dotted.
    """
    excerpt = excerpt or excerpt_of(result)
    shown = excerpt.result
    recording = shown.recording
    ends = [rows.last_s() for rows in (recording.rounds, recording.gpu_samples, recording.host_samples)]
    moments = [end_s for end_s in ends if end_s is not None]
    if not moments:
        return []
    subjects = [device.subject for device in shown.facts.devices] + [node.name for node in shown.facts.nodes]
    rounds = _rounds(recording)
    overlay = None if other is None else overlay_of(recording, other)
    lines = (len(subjects) * (len(GPU_CHARTS) + 1) + sum(map(len, rounds.values()))) * (1 + bool(overlay))
    points = max(100, min(POINTS_MAX, POINTS_ALL // max(lines, 1)))
    begun = begun_at(recording) if is_long(recording) else ""
    plots = TimePlots(max(moments), subjects, recording.attempts, points, begun)
    whole = result.recording if excerpt.note else None
    charts: list[Chart | None] = [_timeline(recording, plots)]
    for unit, series in rounds.items():
        title = f"Rate of each round, {unit_of_rate(unit)}"
        anchor = _anchor(unit_of_rate(unit))
        over = [] if overlay is None else overlay.lines(_rounds(overlay.recording).get(unit, []), subjects)
        charts.append(plots.lines(anchor, title, [*series, *over, *_range_of_rounds(whole, unit)], zero=True))
    ranges = None if whole is None else Ranges(whole.gpu_samples)
    for one in GPU_CHARTS:
        series = _sensor(recording.gpu_samples, one.field, one.per)
        if overlay is not None:
            series += overlay.lines(_sensor(overlay.recording.gpu_samples, one.field, one.per), subjects)
        series += [] if ranges is None else _range_lines(ranges, ranges.of_field(one.field), one.per)
        charts.append(plots.lines(_anchor(one.field), one.title, series, _limits(one, shown), zero=one.zero))
    over = [] if overlay is None else overlay.lines(_cpus(overlay.recording), subjects)
    charts.append(_host_cpu(shown, plots, whole, over))
    return [chart for chart in charts if chart is not None]


def _range_of_rounds(whole: Recording | None, unit: str) -> list[PlotLine]:
    """The range of the rates of all rounds whose work is in this unit."""
    if whole is None or not whole.rounds:
        return []
    rounds = whole.rounds
    ranges = Ranges(rounds)
    work, seconds = rounds.column("work"), rounds.column("seconds")
    units = rounds.columns["unit"]
    assert isinstance(units, Coded)
    chosen = units.same(lambda one: one == unit)[units.array] & (seconds > 0)
    rates = np.divide(work, seconds, out=np.full_like(work, np.nan), where=chosen)
    return _range_lines(ranges, ranges.of(rates))


def _range_lines(ranges: Ranges, series: Mapping[str, Floats], per: float = 1.0) -> list[PlotLine]:
    """Lines for the range of all devices, including those without a line of their own."""
    return [PlotLine(f"{name} of all", "", ranges.times_s, values / per) for name, values in series.items()]


def _timeline(recording: Recording, plots: TimePlots) -> Chart:
    """Stages by name and events as markers: trouble in red, what only explains the run is a circle."""
    events = loud_events(recording)[:MARKS_MAX]
    keys, marks, hovers = [], [], []
    for name, label, color, marker, some in (
        ("trouble", "trouble", "#d32f2f", "inverted_triangle", [e for e in events if e.kind not in NOTICES]),
        ("notice", "for information", "#5b84b1", "circle", [e for e in events if e.kind in NOTICES]),
    ):
        if some:
            keys.append(Key(label, color, f"{TIMELINE}:{name}"))
            marks.append(_marks(some, keys[-1], marker))
            hovers.append(hover(marks[-1], [("t", plots.moment), ("", "@kind @subject"), ("", "@message")]))
    names = plots.stage_names()
    plot = plots.plot((0, 2), [*marks, names], hovers, (), height=140, axis=False)
    return Chart(TIMELINE, "Stages and events", plot, tuple(keys))


def loud_events(recording: Recording) -> list[Event]:
    """All events that not every good run has, in the order of time."""
    events = (event for event in recording.events if event.kind not in QUIET_EVENTS)
    return sorted(events, key=lambda event: event.t_s)


def _marks(events: Sequence[Event], key: Key, marker: str) -> Model:
    columns = {
        "t_s": [event.t_s for event in events],
        "row": [0.35] * len(events),
        "kind": [event.kind for event in events],
        "subject": [event.subject for event in events],
        "message": [event.message[:200] for event in events],
    }
    shape = Model(
        "Scatter",
        x={"field": "t_s"},
        y={"field": "row"},
        marker=marker,
        size=11,
        fill_color=key.color,
        line_color=key.color,
    )
    return renderer(shape, columns, key)


def _sensor(samples: Rows[GpuSample] | Rows[HostSample], name: str, per: float = 1.0) -> list[PlotLine]:
    """A line for each subject, of the field of that name."""
    return [
        PlotLine(subject, subject, samples.numbers(subject, "t_s"), samples.numbers(subject, name) / per)
        for subject in samples.subjects()
    ]


def _limits(chart: GpuChart, result: RunResult) -> dict[str, float]:
    """The limit of each subject that has one."""
    if chart.limited_by == "enforced":
        enforced = {subject: gpu.power_limit_w for subject, gpu in result.recording.gpus.items()}
        return {subject: limit for subject, limit in enforced.items() if limit is not None}
    judged = (verdict for verdict in result.verdicts if verdict.criterion == chart.limited_by)
    return {verdict.subject: verdict.limit for verdict in judged if verdict.limit is not None}


def _rounds(recording: Recording) -> dict[str, list[PlotLine]]:
    """Rates of each worker's rounds, by the unit of their work; workers that share a GPU have one colour.

    A line has its worker's name where several share the GPU, else the GPU's.
    """
    columns, rows = recording.rounds.as_they_came()
    wanted = ("unit", "worker", "subject", "t_s", "work", "seconds")
    values = (columns[name].taken(rows).plain(slice(None)) for name in wanted)
    by_unit: dict[str, dict[tuple[str, str], list[tuple[float, float]]]] = {}
    for unit, worker, subject, t_s, work, seconds in zip(*values, strict=True):
        if seconds > 0:
            points = by_unit.setdefault(unit, {}).setdefault((worker, subject), [])
            points.append((t_s, work / seconds))
    sharing = {unit: Counter(subject for _, subject in by_worker) for unit, by_worker in by_unit.items()}
    return {
        unit: [
            PlotLine(
                worker if sharing[unit][subject] > 1 else subject,
                subject,
                [t_s for t_s, _ in points],
                [rate for _, rate in points],
            )
            for (worker, subject), points in by_worker.items()
        ]
        for unit, by_worker in by_unit.items()
    }


def _cpus(recording: Recording) -> list[PlotLine]:
    """The CPU use of each host, and what a hypervisor took of it where it took any."""
    stolen = _sensor(recording.host_samples, "stolen_percent")
    return _sensor(recording.host_samples, "cpu_percent") + [
        replace(line, name=f"{line.name} stolen") for line in stolen if np.any(np.asarray(line.values) > 0)
    ]


def _host_cpu(
    result: RunResult, plots: TimePlots, whole: Recording | None, over: Sequence[PlotLine]
) -> Chart | None:
    """CPU of each host, the promised band shaded. `over`: lines of another run."""
    series = [*_cpus(result.recording), *over]
    if whole is not None and whole.host_samples:
        ranges = Ranges(whole.host_samples)
        series += _range_lines(ranges, ranges.of_field("cpu_percent"))
    title = "Host CPU (green: the promised band), %"
    bands = {node.band_percent for node in result.facts.nodes if node.band_percent is not None}
    return plots.lines(HOST_CPU, title, series, bands=bands, zero=True, top=105)


@dataclass(frozen=True, slots=True)
class Overlay:
    """A second run; `shift_s` added to its times makes the first stage of both begin at the same place."""

    recording: Recording
    shift_s: float

    def lines(self, lines: Iterable[PlotLine], subjects: Iterable[str]) -> list[PlotLine]:
        """The second run's lines of these subjects, shifted and dotted."""
        shown = set(subjects)
        return [
            replace(
                line,
                name=f"{line.name}, other run",
                times_s=[t_s + self.shift_s for t_s in line.times_s],
                dotted=True,
            )
            for line in lines
            if line.subject in shown
        ]


def overlay_of(recording: Recording, other: Recording) -> Overlay:
    """The other run on the first one's time; by each run's own time if they share no stage."""
    begun = {stage.name: stage.start_s for stage in reversed(recording.attempts)}
    common = (begun[stage.name] - stage.start_s for stage in other.attempts if stage.name in begun)
    return Overlay(other, next(common, 0.0))
