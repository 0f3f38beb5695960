"""The matrix as lines of a terminal."""

import io
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rigproof.records.verdict import Decision, Outcome
from rigproof.report.content.matrix import Cell, Matrix, Row

WIDTH_MAX = 120  # of what is no terminal, such as a CI's log
CELL_MIN = 4
WORD = 5  # `FAIL `
COMMAND = re.compile(r"`[^`]*`")
DEVICE = re.compile(r"([^/\s]+)(/[a-z]+\d+-?)")
INDEX = re.compile(r"\d+$")
UNBROKEN = "\x1f"  # for a space; no text of a run has control characters
STYLES = {
    Outcome.FAIL: "bold red",
    Outcome.WARN: "yellow",
    Outcome.NOT_MEASURED: "yellow",
}
DECISIONS = {
    Decision.ACCEPTED: "bold green",
    Decision.REJECTED: "bold red",
    Decision.INCOMPLETE: "bold yellow",
}


def terminal_width() -> int:
    """The columns of the terminal, or COLUMNS; WIDTH_MAX if it is neither."""
    return max(shutil.get_terminal_size((WIDTH_MAX, 24)).columns, 40)


def colored() -> bool:
    """Whether standard output is a terminal that shows colours; not if NO_COLOR is set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def wrapped(text: str, width: int, indent: str = "  ") -> list[str]:
    """Text in lines of at most `width`. Longer words are not broken, nor a `command`, which may be copied."""
    whole = COMMAND.sub(lambda found: found[0].replace(" ", UNBROKEN), text)
    lines = textwrap.wrap(
        whole, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )
    return [line.replace(UNBROKEN, " ") for line in lines] or [""]


def on_screen(lines: Iterable[str], width: int) -> Iterator[str]:
    """Text in lines for a terminal, where a line that goes on is indented by two more columns."""
    for line in lines:
        yield from wrapped(line, width, " " * (len(line) - len(line.lstrip()) + 2))


def matrix_lines(
    matrix: Matrix,
    head: str,
    decision: Decision,
    width: int,
    *,
    everything: bool = False,
    color: bool = False,
) -> list[str]:
    """The matrix in lines of at most `width` columns, below its heading `head`.

    `everything`: `-v`: all rows, each with its criterion's name.
    """
    rows = matrix.shown(everything=everything)
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
    lines = [Text(line) for line in wrapped(head, width)]
    for line in lines:
        line.highlight_words([decision.value], DECISIONS[decision])
    lines += _rows(console, matrix.columns, rows, named=everything)
    legend = matrix.legend(rows)
    notes = [legend] if legend else []
    notes += [] if everything else [f"{note} (-v)" for note in matrix.notes]
    notes += matrix.last_notes
    lines += [Text(line) for note in notes for line in wrapped(note, width)]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
        console.print(line, no_wrap=True, overflow="ignore", crop=False)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def _rows(console: Console, columns: Sequence[str], rows: Sequence[Row], *, named: bool) -> Iterator[Text]:
    """The columns' names, then each row. `named`: with its criterion's name behind it, or below it.

    A rich table aligns what has a column of its own. It has no text that spans columns, as the figures of
    other subjects, ranges and the names below a row do: these are added to the table's lines.
    """
    width = console.width
    titles, limits = ([getattr(row, name) for row in rows] for name in ("title", "limit"))
    left = WORD + sum(max(map(len, texts), default=0) + 1 for texts in (titles, limits))
    most = (width - left + 1) // max(len(columns), 1) - 1  # characters of a column
    in_columns = [row for row in rows if row.cells and _cell_width(row) <= most]
    # With each cell's own limit beside it, where there is room for that, else on a line below.
    beside = all(_cell_width(row, beside=True) <= most for row in in_columns)
    table = Table.grid("", "", "", padding=(0, 1))
    table.columns[0].min_width = WORD - 1
    heads = _heads(columns, most) if in_columns else []
    for _ in columns if heads else ():
        table.add_column(justify="right", min_width=min(CELL_MIN, most))
    for names in heads:
        table.add_row("", "", "", *names)
    lines_of = []  # how many lines of the table each row has
    for row in rows:
        cells = row.cells if row in in_columns else ()
        texts = [
            Text(row.text(cell) if beside else cell.text, STYLES.get(cell.outcome, "")) if cell else ""
            for cell in cells
        ]
        table.add_row(Text(row.word, STYLES.get(row.outcome, "")), row.title, row.limit, *texts)
        below = [] if beside else [_limit(row, cell) for cell in cells]
        if any(below):
            table.add_row("", f"  limit {row.sign}", "", *below)
        lines_of.append(2 if any(below) else 1)
    for column in table.columns:
        column.no_wrap = True
    rendered = (
        Text.assemble(*((part.text, part.style or "") for part in line))
        for line in console.render_lines(table, pad=False)
    )
    yield from islice(rendered, len(heads))
    blocks = [list(islice(rendered, number)) for number in lines_of]
    for row, lines in zip(rows, blocks, strict=True):
        if row not in in_columns:
            lines[0].rstrip()
            lines.extend(_add_spread(lines[0], row, left, width))
    start = max([len(lines[0]) for lines in blocks], default=0) + 2
    behind = start + max([len(row.criterion) for row in rows], default=0) <= width
    for row, lines in zip(rows, blocks, strict=True):
        if named and behind:
            lines[0].pad_right(start - len(lines[0]))
            lines[0].append(row.criterion, "dim")
        elif named:
            lines.insert(1, Text(" " * WORD + row.criterion, "dim"))
        yield from lines


def _add_spread(line: Text, row: Row, left: int, width: int) -> list[Text]:
    """Add a row's figures in words to its line; returns lines with them if they do not fit there."""
    style = STYLES.get(row.outcome, "")
    if left + len(row.spread) <= width:
        line.pad_right(left - len(line))
        line.append(row.spread, style)
        return []
    room = width - WORD
    return [Text(" " * WORD + part, style) for part in wrapped(shortened(row.spread, room), room, "")]


def _cell_width(row: Row, *, beside: bool = False) -> int:
    """The characters of the row's widest cell, with its own limit `beside` it or below."""
    cells = [cell for cell in row.cells if cell is not None]
    return max(
        len(row.text(cell)) if beside else max(len(cell.text), len(_limit(row, cell))) for cell in cells
    )


def _limit(row: Row, cell: Cell | None) -> str:
    """A cell's own limit as it stands on the line below: with its sign, if the row's cells have several."""
    if cell is None or not cell.limit:
        return ""
    return cell.limit if row.sign else cell.sign + cell.limit


def _heads(columns: Sequence[str], most: int) -> list[Sequence[str]]:
    """The devices' names in columns of at most `most` characters, or only their numbers.

    If there is no room for the nodes in them, and several, each stands above its first device.
    """
    if max(map(len, columns)) <= most:
        return [columns]
    nodes = [subject.partition("/")[0] for subject in columns]
    names = [subject.partition("/")[2] or subject for subject in columns]
    if max(map(len, names)) > most:
        names = [found[0] if (found := INDEX.search(name)) else name for name in names]
    above = [_end(node, most) if node != before else "" for before, node in pairwise(["", *nodes])]
    return [above, names] if len(set(nodes)) > 1 else [names]


def shortened(text: str, width: int) -> str:
    """The text with words of at most `width`: of long subjects the longest nodes lose their first letters."""
    return " ".join(_shortened_word(word, width) for word in text.split(" "))


def _shortened_word(word: str, width: int) -> str:
    if len(word) <= width:
        return word
    if not DEVICE.search(word):
        return _end(word, width)
    shorter = (
        DEVICE.sub(lambda found: _end(found[1], room) + found[2], word)  # noqa: B023
        for room in range(width, 0, -1)
    )
    return next((one for one in shorter if len(one) <= width), word)


def _end(text: str, width: int) -> str:
    return text if len(text) <= width else "…" + text[len(text) - width + 1 :]
