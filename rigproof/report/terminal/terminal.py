"""The terminal output before and after a run: the header, the verdict table, what to do about failures."""

import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.plan import Plan
from rigproof.records.verdict import SIGNS, Decision, Outcome, Verdict, figure, sentence
from rigproof.report.content.explained import criteria_page
from rigproof.report.content.order import (
    FOLDED_FROM,
    count_line,
    instead,
    meaning,
    not_applicable_sentences,
    not_measured_groups,
    not_measured_sentence,
    of_outcome,
    reading_order,
    word,
)

SIMULATED = "SIMULATED: no real device is measured; this says nothing about any rig"
LOUD = (Outcome.FAIL, Outcome.WARN)
FOLDED = (Outcome.PASS, Outcome.NOT_APPLICABLE)
STYLES = {
    Outcome.FAIL: "bold red",
    Outcome.WARN: "yellow",
    Outcome.NOT_MEASURED: "yellow",
    Outcome.PASS: "green",
}
COLORS = {Decision.ACCEPTED: "32;1", Decision.REJECTED: "31;1", Decision.INCOMPLETE: "33;1"}


def header_lines(
    loaded: LoadedRig,
    plan: Plan,
    *,
    nvml_error: str | None = None,
    driver_version: str | None = None,
    simulated: bool = False,
) -> list[str]:
    """Profile, rig, driver, torch, and the plan with its expected time; loads neither torch nor NVML."""
    lines = [f"rigproof: {SIMULATED}"] if simulated else []
    driver = f", driver {driver_version}" if driver_version else ""
    lines.append(
        f"rig: {loaded.rig.name} ({loaded.file}){driver}, torch {_version('torch')}, ray {_version('ray')}"
    )
    if nvml_error:
        lines.append(f"NVML does not answer: {nvml_error}")
    devices = [f"{device.subject} {_model(device.gpu.sku, device.gpu.device)}" for device in loaded.devices()]
    shown = devices if len(devices) <= 8 else [*devices[:7], f"… {len(devices) - 7} more"]
    lines.append(f"devices: {', '.join(shown) or 'none'}")
    stages = ", ".join(f"{stage.name} {stage.expected_s:.0f} s" for stage in plan.stages)
    workers = len(plan.workers)
    lines.append(
        f"plan: level {plan.level}: {stages} with {workers} worker{'' if workers == 1 else 's'}; "
        f"about {duration(plan.expected_s)} in all"
    )
    return lines


def _model(sku: str, device: str) -> str:
    return "the CPU as the device" if device == "cpu" else sku


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def duration(seconds: float) -> str:
    """A length of time for people to read: `75 s`, `3 min`, `1 h 5 min`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def verdict_table(verdicts: Sequence[Verdict]) -> Table:
    """One row for each verdict, failures first.

    Many passes of one criterion are one row; so are criteria that apply to no subject, and those that one
    cause prevented from being measured. A limit is in the unit of the measured value.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("Outcome", no_wrap=True)
    table.add_column("Criterion", no_wrap=True)
    table.add_column("Subject", overflow="fold")
    table.add_column("Measured", justify="right")
    table.add_column("Limit", justify="right")
    for verdict, group in _rows(verdicts):
        criteria, subjects = {each.criterion for each in group}, {each.subject for each in group}
        many = (
            f"{len(subjects)} subjects" if verdict.outcome is Outcome.NOT_MEASURED else f"all {len(subjects)}"
        )
        table.add_row(
            Text(word(verdict), STYLES.get(verdict.outcome, "")),
            verdict.criterion if len(criteria) == 1 else f"{len(criteria)} criteria",
            Text(verdict.subject if len(subjects) == 1 else many),
            Text(_range([each.measured for each in group], verdict.unit)),
            Text(_limits(group)),
        )
    return table


def _rows(verdicts: Sequence[Verdict]) -> Iterator[tuple[Verdict, Sequence[Verdict]]]:
    """The first verdict of each row, and all verdicts that the row stands for."""
    for outcome in LOUD:
        yield from ((verdict, [verdict]) for verdict in of_outcome(verdicts, outcome))
    yield from ((group[0], group) for group in not_measured_groups(verdicts))
    judged = Counter(verdict.criterion for verdict in verdicts)
    shown = (*LOUD, Outcome.NOT_MEASURED)
    rest = [verdict for verdict in reading_order(verdicts) if verdict.outcome not in shown]
    for (outcome, criterion), same in groupby(rest, attrgetter("outcome", "criterion")):
        group = list(same)
        if outcome in FOLDED and len(group) == judged[criterion] and len(group) >= FOLDED_FROM:
            yield group[0], group
        else:
            yield from ((verdict, [verdict]) for verdict in group)


def _range(values: Sequence[float | None], unit: str) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, high = figure(min(known)), figure(max(known), unit)
    return high if figure(min(known), unit) == high else f"{low}–{high}"


def _limits(group: Sequence[Verdict]) -> str:
    """The limits of a row, in the unit of the measured values: `≤ 80`, `≥ 495–660`."""
    signs = {SIGNS[each.direction] for each in group if each.direction is not None}
    return " ".join(filter(None, [*sorted(signs), _range([each.limit for each in group], "")]))


def table_lines(verdicts: Sequence[Verdict], width: int = 80, *, color: bool = False) -> list[str]:
    """The verdict table as lines of at most `width` columns."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        color_system="standard" if color else None,
        force_terminal=color,
        highlight=False,
        legacy_windows=False,
        _environ={},
    )
    console.print(verdict_table(verdicts))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def summary_lines(
    decision: Decision,
    verdicts: Sequence[Verdict],
    folder: Path | None,
    *,
    problems: Sequence[str] = (),
    simulated: bool = False,
    interrupted: bool = False,
    color: bool = False,
    short: str = "",
) -> list[str]:
    """Failures, warnings, what was not measured or does not apply; counts; the decision and its meaning.

    `folder`: the run's, to name its report; None if there is none. `short`: what was done instead of the
    whole level (`in_place_of_level`).
    """
    lines = [sentence(verdict) for verdict in of_outcome(verdicts, Outcome.FAIL)]
    lines += [sentence(verdict) for verdict in of_outcome(verdicts, Outcome.WARN)]
    lines += [not_measured_sentence(group) for group in not_measured_groups(verdicts)]
    lines += (
        [f"what a criterion measures, and where its limit comes from: {criteria_page()}"] if lines else []
    )
    lines += not_applicable_sentences(verdicts)
    lines += [f"problem: {problem}" for problem in problems]
    if lines:
        lines.append("")
    lines.append(count_line(verdicts))
    if folder is not None and (folder / "report.html").exists():
        lines.append(f"report: {folder}/report.html")
    shown = f"\x1b[{COLORS[decision]}m{decision.value}\x1b[0m" if color else decision.value
    mark = "SIMULATED " if simulated else ""
    sense = meaning(decision, verdicts, interrupted=interrupted, whole=not problems, short=short)
    lines.append(f"{mark}{shown}{instead(decision, short)}: {sense}")
    return lines


def print_summary(
    decision: Decision,
    verdicts: Sequence[Verdict],
    folder: Path | None,
    *,
    problems: Sequence[str],
    write_line: Callable[[str], None],
    width: int = 80,
    simulated: bool = False,
    interrupted: bool = False,
    color: bool = False,
    short: str = "",
) -> None:
    """The table and the summary, line by line."""
    for line in table_lines(verdicts, width, color=color):
        write_line(line)
    write_line("")
    for line in summary_lines(
        decision,
        verdicts,
        folder,
        problems=problems,
        simulated=simulated,
        interrupted=interrupted,
        color=color,
        short=short,
    ):
        write_line(line)
