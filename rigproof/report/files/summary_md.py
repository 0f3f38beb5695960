"""summary.md: the result as Markdown, for `$GITHUB_STEP_SUMMARY` and merge requests."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from rigproof.records.disk.durable import replacing
from rigproof.records.verdict import Outcome, Verdict, figure, limit_text, sentence
from rigproof.report.content.excerpt import excerpt_of
from rigproof.report.content.order import (
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
from rigproof.report.content.stage_tables import tables_of
from rigproof.report.content.verdict_json import RunResult

BYTES_MAX = 900_000  # GitHub does not show a step summary over 1 MiB
CELL_MAX = 300
HEAD_LINES = 3  # of the table of all criteria


def write_summary(path: Path, result: RunResult) -> None:
    """Write it in one step. Raises OSError."""
    with replacing(path) as file:
        file.write(summary_text(result).encode())


EXPLAINED = (Outcome.FAIL, Outcome.WARN, Outcome.NOT_MEASURED)  # by report.html


def summary_text(result: RunResult, bytes_max: int = BYTES_MAX) -> str:
    """The whole text, at most `bytes_max` long in UTF-8; it says how many lines did not fit."""
    run = result.recording.run
    mark = "SIMULATED " if result.simulated else ""
    lines = [f"# rigproof: {mark}{result.decision.value}{instead(result.decision, result.short)}", ""]
    sense = meaning(result.decision, result.verdicts, interrupted=result.interrupted, short=result.short)
    if result.simulated:
        lines += ["> **SIMULATED**: no real device was measured. This says nothing about any rig.", ""]
    lines += [
        f"**{_text(result.facts.rig)}** · level {_text(run.level)} · {_text(run.started_at)} · "
        f"{result.elapsed_s:.0f} s · run `{run.run_id}`",
        "",
        f"{_upper(sense)}. {_upper(count_line(result.verdicts))}.",
        "",
    ]
    for remark in result.remarks:
        lines += [f"> {_text(remark)}", ""]
    if result.write_error:
        lines += [f"**{_text(result.write_error)}**", ""]
    excerpt = excerpt_of(result)
    lines += [f"- {_text(device.label)}" for device in excerpt.result.facts.devices]
    lines += ["", excerpt.note] if excerpt.note else []
    head = "\n".join(lines) + "\n"
    room = bytes_max - len(head.encode())
    findings = _fitting(list(_findings(result.verdicts)), room // 2, "- {} more in verdict.json")
    room -= len(findings.encode()) + 400
    measured = _fitting(list(_stage_tables(excerpt.result)), room // 2, "\n{} more lines in report.html")
    rows = _fitting(
        _table(result.verdicts),
        room - len(measured.encode()),
        "\n{} more rows in verdict.json",
        HEAD_LINES + len(result.verdicts),
    )
    return f"{head}{findings}\n{rows}{measured}"


def _findings(verdicts: Sequence[Verdict]) -> Iterable[str]:
    findings = {
        "Failed": [sentence(verdict) for verdict in of_outcome(verdicts, Outcome.FAIL)],
        "Warnings": [sentence(verdict) for verdict in of_outcome(verdicts, Outcome.WARN)],
        "Not measured": [not_measured_sentence(group) for group in not_measured_groups(verdicts)],
        "Not applicable": not_applicable_sentences(verdicts),
    }
    for title, sentences in findings.items():
        if sentences:
            yield f"\n## {title}\n"
            yield from (f"- {_text(line, 2000)}" for line in sentences)
    if any(verdict.outcome in EXPLAINED for verdict in verdicts):
        yield "\nreport.html says what each of these criteria measures, and where its limit comes from."


def _table(verdicts: Sequence[Verdict]) -> Iterable[str]:
    yield "\n## All criteria\n"
    yield "| Outcome | Criterion | Subject | Measured | Limit | Limit from |"
    yield "|---|---|---|---:|---:|---|"
    for verdict in reading_order(verdicts):
        cells = (
            word(verdict),
            f"`{verdict.criterion}`",
            _text(verdict.subject),
            "" if verdict.measured is None else figure(verdict.measured, verdict.unit),
            "" if verdict.limit is None else limit_text(verdict.limit, verdict.unit, verdict.direction),
            _text(verdict.limit_source),
        )
        yield f"| {' | '.join(cells)} |"


def _stage_tables(result: RunResult) -> Iterable[str]:
    section = ""
    for table in tables_of(result.recording):
        if table.section != section:
            section = table.section
            yield f"\n## {section}"
        yield f"\n**{_text(table.title)}**\n"
        yield f"| {' | '.join(_text(column) for column in table.columns)} |"
        yield "|" + "---|" * table.labels + "---:|" * (len(table.columns) - table.labels)
        yield from (f"| {' | '.join(_text(cell) for cell in row)} |" for row in table.rows)
        if table.note:
            yield f"\n{_text(table.note)}"


def _fitting(lines: Iterable[str], room: int, rest: str, total: int | None = None) -> str:
    """As many lines as fit into `room` bytes, then `rest` with the number of those that do not.

    `total`: the number of lines, if known; then those that do not fit need not be made.
    """
    taken = 0
    fitting: list[str] = []
    lines = iter(lines)
    for line in lines:
        taken += len(line.encode()) + 1
        if taken > room:
            left = 1 + sum(1 for _ in lines) if total is None else total - len(fitting)
            return "\n".join([*fitting, rest.format(left)]) + "\n"
        fitting.append(line)
    return "\n".join(fitting) + "\n"


def _upper(text: str) -> str:
    return text[0].upper() + text[1:]


def _text(text: str, length_max: int = CELL_MAX) -> str:
    """Text on one line, escaped so that Markdown and HTML show it literally."""
    line = " ".join(text.split())
    if len(line) > length_max:
        line = line[: length_max - 1] + "…"
    for character, written in (("\\", "\\\\"), ("&", "&amp;"), ("<", "&lt;"), ("|", "\\|"), ("`", "\\`")):
        line = line.replace(character, written)
    return line.replace("*", "\\*").replace("[", "\\[")
