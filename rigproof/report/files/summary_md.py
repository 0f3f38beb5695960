"""summary.md: the result as Markdown, for `$GITHUB_STEP_SUMMARY` and merge requests."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from rigproof.records.disk.durable import replacing
from rigproof.records.verdict import Outcome, Verdict, sentence_and_severity
from rigproof.report.content.clock_times import Worded, begun_at, by_the_clock, is_long, lasted
from rigproof.report.content.excerpt import excerpt_of
from rigproof.report.content.matrix import Cell, Matrix, Row, matrix_of
from rigproof.report.content.order import (
    count_line,
    not_applicable_sentences,
    not_measured_groups,
    not_measured_sentence,
    of_outcome,
    severity_legend,
)
from rigproof.report.content.result import RunResult
from rigproof.report.content.stage_tables import tables_of
from rigproof.stages.tables import StageTable

BYTES_MAX = 900_000  # GitHub does not show a step summary over 1 MiB
CELL_MAX = 300
LINES_MAX = 118  # with the stages' tables, of which the others are only in report.html
DEVICES_MAX = 16  # that were not found


def write_summary(path: Path, result: RunResult) -> None:
    """Write the file in one step. Raises OSError."""
    with replacing(path) as file:
        file.write(summary_text(result).encode())


EXPLAINED = (Outcome.FAIL, Outcome.WARN, Outcome.NOT_MEASURED)  # by report.html


def summary_text(result: RunResult, bytes_max: int = BYTES_MAX) -> str:
    """The whole text, at most `bytes_max` long in UTF-8; it says how many lines did not fit."""
    run = result.recording.run
    mark = "SIMULATED " if result.simulated else ""
    lines = [f"# rigproof: {mark}{result.decision.value}{result.instead}", ""]
    number = max((one.lap for one in result.recording.attempts), default=1)
    laps = f", {number} laps" if number > 1 else ""
    if result.simulated:
        lines += ["> **SIMULATED**: no real device was measured. This says nothing about any rig.", ""]
    lines += [
        f"**{_text(result.facts.rig)}** · level {_text(run.level)}{laps} · "
        f"{_text(begun_at(result.recording) if is_long(result.recording) else run.started_at)} · "
        f"{lasted(result.recording, result.elapsed_s)} · run `{run.run_id}`"
        f"{''.join(f' · {_text(tag)}' for tag in run.tags)}",
        "",
        f"{_upper(_text(result.meaning, 2000))}. {_upper(count_line(result.verdicts))}.",
        "",
    ]
    if result.alone:
        lines += [f"{_upper(_text(result.alone))}.", ""]
    for problem in result.problems:
        lines += [f"**{_text(problem)}**", ""]
    for remark in result.remarks:
        lines += [f"> {_text(remark)}", ""]
    head = "\n".join([*lines, *_devices(result), ""])
    matrix = matrix_of(result.verdicts, [device.subject for device in result.facts.devices])
    shown = "\n".join(_matrix(matrix)) + "\n"
    everything = "\n".join(_everything(matrix, result.verdicts)) + "\n"
    room = bytes_max - len((head + shown + everything).encode()) - 400
    findings = _fitting(
        list(_findings(result.verdicts, by_the_clock(result.recording))),
        room // 2,
        "- {} more in verdict.json",
    )
    text = f"{head}{shown}{findings}{everything}"
    excerpt = excerpt_of(result)
    tables = tables_of(excerpt.result.recording)
    return text + _measurements(
        tables, excerpt.note, LINES_MAX - text.count("\n"), bytes_max - len(text.encode())
    )


def _devices(result: RunResult) -> Iterable[str]:
    """A line for each model, with how many there are, then one for each device that was not found."""
    devices = result.facts.devices
    models = Counter(device.identity.name for device in devices if device.identity is not None)
    yield from (f"- {number} × {_text(name)}" for name, number in models.items())
    missing = [device.label for device in devices if device.identity is None]
    yield from (f"- {_text(label)}" for label in missing[:DEVICES_MAX])
    if missing[DEVICES_MAX:]:
        yield f"- {len(missing) - DEVICES_MAX} more not found"


def _matrix(matrix: Matrix) -> Iterable[str]:
    if matrix.rows:
        yield ""
        yield from _rows(matrix.columns, matrix.rows)
        yield ""
    legend = matrix.legend(matrix.rows)
    notes = [*([legend] if legend else []), *matrix.notes, *matrix.last_notes]
    yield "  \n".join(f"{_text(note)}." for note in notes)


def _rows(columns: Sequence[str], rows: Sequence[Row]) -> Iterable[str]:
    """The table; other subjects than the columns' have their figures in a last column, or the only one."""
    nodes = {subject.partition("/")[0] for subject in columns}
    names = [subject.partition("/")[2] if len(nodes) == 1 else subject for subject in columns]
    if not all(row.cells for row in rows):
        names.append("Others" if columns else "Measured")
    yield f"| | Criterion | Limit | {' | '.join(map(_text, names))} |"
    yield "|---|---|---:|" + "---:|" * len(names)
    for row in rows:
        spread = _text(row.spread)
        texts = [_cell(row, cell) for cell in row.cells] or [""] * len(columns) + [
            f"**{spread}**" if row.outcome in (Outcome.FAIL, Outcome.WARN) else spread
        ]
        texts += [""] * (len(names) - len(texts))
        word = f"**{row.word}**" if row.word else ""
        name = row.title if row.title == row.criterion else f"{row.title} ({row.criterion})"
        yield f"| {word} | {_text(name)} | {_text(row.limit)} | {' | '.join(texts)} |"


def _cell(row: Row, cell: Cell | None) -> str:
    if cell is None:
        return ""
    text = _text(row.text(cell))
    return f"**{text}**" if cell.outcome in (Outcome.FAIL, Outcome.WARN) else text


def _everything(matrix: Matrix, verdicts: Sequence[Verdict]) -> Iterable[str]:
    """The folded part: the rows of what passed, and why criteria do not apply."""
    if matrix.quiet:
        yield from _folded("All that passed or has no limit yet", _rows(matrix.columns, matrix.quiet))
    reasons = not_applicable_sentences(verdicts)
    if reasons:
        yield from _folded("Not applicable", [f"- {_text(reason)}" for reason in reasons])


def _folded(title: str, lines: Iterable[str]) -> Iterable[str]:
    yield from (f"\n<details><summary>{title}</summary>", "", *lines, "", "</details>")


def _findings(verdicts: Sequence[Verdict], worded: Worded) -> Iterable[str]:
    legend = severity_legend(verdicts)
    findings = {
        "Failed": [sentence_and_severity(verdict) for verdict in of_outcome(verdicts, Outcome.FAIL)],
        "Warnings": [sentence_and_severity(verdict) for verdict in of_outcome(verdicts, Outcome.WARN)],
        "Not measured": [not_measured_sentence(group) for group in not_measured_groups(verdicts)],
    }
    for title, sentences in findings.items():
        if sentences:
            yield f"\n## {title}\n"
            yield from (f"- {_text(worded(line), 2000)}" for line in sentences)
    if legend:
        yield f"\nWhat kind of action each asks for: {_text('; '.join(legend), 2000)}."
    if any(verdict.outcome in EXPLAINED for verdict in verdicts):
        yield "\nreport.html says what each of these criteria measures, and where its limit comes from."


def _measurements(tables: Sequence[StageTable], note: str, lines_max: int, bytes_max: int) -> str:
    """The stages' tables that fit into so many lines and bytes, folded, and the names of the others."""
    left = bytes_max - 1000
    lines_left = lines_max - 10
    shown: list[str] = []
    others: list[str] = []
    for table in tables:
        lines = list(_stage_table(table))
        size = sum(len(line.encode()) + 1 for line in lines)
        if sum(line.count("\n") + 1 for line in lines) <= lines_left and size <= left:
            shown += lines
            lines_left -= sum(line.count("\n") + 1 for line in lines)
            left -= size
        else:
            others.append(table.title)
    lines = list(_folded("Measurements of the stages", shown)) if shown else []
    if others:
        lines += ["", f"In report.html: {_text(', '.join(others))}."]
    if note:
        lines += ["", f"The tables show {note}"]
    return "\n".join(lines) + "\n" if lines else ""


def _stage_table(table: StageTable) -> Iterable[str]:
    yield f"\n**{_text(table.section)}: {_text(table.title)}**\n"
    yield f"| {' | '.join(_text(column) for column in table.columns)} |"
    yield "|" + "---|" * table.labels + "---:|" * (len(table.columns) - table.labels)
    yield from (f"| {' | '.join(_text(cell) for cell in row)} |" for row in table.rows)
    if table.note:
        yield f"\n{_text(table.note)}"


def _fitting(lines: Sequence[str], room: int, rest: str) -> str:
    """The lines that fit into `room` bytes, then `rest` with the number of those that do not."""
    taken = 0
    for place, line in enumerate(lines):
        taken += len(line.encode()) + 1
        if taken > room:
            return "\n".join([*lines[:place], rest.format(len(lines) - place)]) + "\n"
    return "\n".join(lines) + "\n" if lines else ""


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
