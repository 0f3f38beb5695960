"""The terminal output before and after a run: header, matrix of verdicts, what to do about failures."""

from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from pathlib import Path

from rigproof.host.package import PACKAGE, ROOT
from rigproof.profiles.loading.files import shown_path
from rigproof.profiles.loading.loaded import LoadedRig, left_out_text
from rigproof.profiles.planning.plan import Plan
from rigproof.records.verdict import Decision, Outcome, count_of, sentence, sentence_and_severity
from rigproof.report.content.clock_times import by_the_clock, duration
from rigproof.report.content.matrix import heading, matrix_of
from rigproof.report.content.order import (
    count_line,
    no_device_there,
    not_applicable_sentences,
    not_measured_sentences,
    of_outcome,
    severity_legend,
)
from rigproof.report.content.result import RunResult
from rigproof.report.terminal.matrix_lines import matrix_lines, wrapped

SIMULATED = "SIMULATED: no real device is measured; this says nothing about any rig"
CRITERIA = Path("docs") / "criteria.md"
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
    devices = list(_devices(loaded))
    shown = devices if len(devices) <= 8 else [*devices[:7], f"… {len(devices) - 7} more"]
    lines.append(f"devices: {', '.join(shown) or 'none'}")
    if loaded.left_out:
        lines.append(f"not tested: {left_out_text(loaded.left_out)}")
    stages = ", ".join(f"{stage.name} {stage.expected_s:.0f} s" for stage in plan.stages)
    laps = f"{plan.laps} laps of " if plan.laps > 1 else ""
    workers = len(plan.workers)
    lines.append(
        f"plan: level {plan.level}: {laps}{stages} with {count_of(workers, 'workers')}; "
        f"about {duration(plan.expected_s)} in all"
    )
    return lines


def _devices(loaded: LoadedRig) -> Iterator[str]:
    """Each device with its model; equal neighbours of a node are a range."""
    for (_, model), group in groupby(
        loaded.devices(), key=lambda device: (device.node, _model(device.gpu.sku, device.gpu.device))
    ):
        first, *more = (device.subject for device in group)
        if len(more) > 1:
            yield f"{first}…{more[-1].rpartition('/')[2]} {model}"
        else:
            yield from (f"{subject} {model}" for subject in (first, *more))


def _model(sku: str, device: str) -> str:
    return "the CPU as the device" if device == "cpu" else sku


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def criteria_page() -> str:
    """The page about all criteria, in the checkout or in the wheel, as a path that exists here."""
    checkout = ROOT / CRITERIA
    return shown_path(checkout if checkout.is_file() else PACKAGE / CRITERIA)


def summary_lines(
    result: RunResult,
    folder: Path | None,
    *,
    notices: Iterable[str] = (),
    everything: bool = False,
    color: bool = False,
) -> list[str]:
    """Failures, warnings, what was not measured; counts; the decision and its meaning.

    With `everything` also severities and what each asks for, and why criteria do not apply.

    `folder`: the run's, to name its report; None if there is none. `notices`: what else there is to say.
    """
    verdicts, decision, interrupted = result.verdicts, result.decision, result.interrupted
    worded = by_the_clock(result.recording)
    shown_as = sentence_and_severity if everything else sentence
    lines = [shown_as(verdict) for verdict in of_outcome(verdicts, Outcome.FAIL)]
    lines += [shown_as(verdict) for verdict in of_outcome(verdicts, Outcome.WARN)]
    lines += severity_legend(verdicts) if everything else []
    lines += not_measured_sentences(verdicts, interrupted=interrupted, everything=everything)
    lines += (
        [f"what a criterion measures, and where its limit comes from: {criteria_page()}"] if lines else []
    )
    lines += not_applicable_sentences(verdicts) if everything else []
    lines += [f"problem: {problem}" for problem in result.problems]
    lines = [*map(worded, lines), *notices]
    if lines:
        lines.append("")
    lines.append(count_line(verdicts))
    if folder is not None and (folder / "report.html").exists():
        lines.append(f"report: {folder}/report.html")
    shown = f"\x1b[{COLORS[decision]}m{decision.value}\x1b[0m" if color else decision.value
    mark = "SIMULATED " if result.simulated else ""
    lines.append(f"{mark}{shown}{result.instead}: {worded(result.meaning)}")
    return lines


def print_summary(
    result: RunResult,
    folder: Path | None,
    write_line: Callable[[str], None],
    *,
    width: int = 80,
    on_terminal: bool = False,
    notices: Iterable[str] = (),
    everything: bool = False,
    color: bool = False,
) -> None:
    """The matrix and the summary, line by line.

    `on_terminal`: sentences are wrapped to `width` too; elsewhere each is one line, for grep. `everything`:
    also the rows of what passed, and why criteria do not apply.
    """
    verdicts, decision, rig = result.verdicts, result.decision, result.facts.rig
    head = heading(rig, decision, verdicts, simulated=result.simulated, instead=result.instead)
    judged = {one.subject for one in verdicts}
    devices = [device.subject for device in result.facts.devices if device.subject in judged]
    if no_device_there(verdicts) and not everything:
        verdicts = [one for one in verdicts if one.outcome is not Outcome.NOT_MEASURED]
    matrix = matrix_of(verdicts, devices)
    for line in matrix_lines(matrix, head, decision, width, everything=everything, color=color):
        write_line(line)
    write_line("")
    for line in summary_lines(result, folder, notices=notices, everything=everything, color=color):
        for part in wrapped(line, width) if on_terminal and "\x1b" not in line else [line]:
            write_line(part)
