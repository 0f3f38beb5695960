"""The matrix as lines of a terminal."""

import io
import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich.console import Console
from rich.text import Text

from rigproof.records.verdict import Decision, Outcome
from rigproof.report.content.matrix import Cell, Matrix, Row

WIDTH_MAX = 120  # of what is no terminal, such as a CI's log
CELL_MIN = 5
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
    """The matrix in lines of at most `width` columns. `head` stands beside the columns' names.

    `everything`: `-v`: all rows, each with its criterion's name.
    """
    rows = matrix.shown(everything=everything)
    lines = [*_Layout(matrix.columns, rows, width).lines(head, decision, named=everything)]
    legend = matrix.legend(rows)
    notes = [legend] if legend else []
    notes += [] if everything else [f"{note} (-v)" for note in matrix.notes]
    notes += matrix.last_notes
    lines += [Text(line) for note in notes for line in wrapped(note, width)]
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
    for line in lines:
        line.truncate(width, overflow="ellipsis")
        console.print(line, no_wrap=True, overflow="ignore", crop=False)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def shortened(text: str, width: int) -> str:
    """The text with words of at most `width`: of long subjects the longest nodes lose their first letters."""
    return " ".join(_shortened_word(word, width) for word in text.split(" "))


def _shortened_word(word: str, width: int) -> str:
    if len(word) <= width:
        return word
    if not DEVICE.search(word):
        return _end(word, width)
    shorter = (_with_nodes_of(word, room) for room in range(width, 0, -1))
    return next((one for one in shorter if len(one) <= width), word)


def _with_nodes_of(word: str, width: int) -> str:
    return DEVICE.sub(lambda found: _end(found[1], width) + found[2], word)


def _end(text: str, width: int) -> str:
    return text if len(text) <= width else "…" + text[len(text) - width + 1 :]


class _Layout:
    """The places of the parts of each row."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Row], width: int) -> None:
        self._columns = columns
        self._rows = rows
        self._width = width
        self._title = max([len(row.title) for row in rows], default=0) + 1
        self._limits_end = WORD + self._title + max([len(row.limit) for row in rows], default=0)
        self._left = self._limits_end  # of the columns
        self._most = max(width - self._left, 0) // max(len(columns), 1)
        fitting = [row for row in rows if row.cells and self._cell_width(row) <= self._most]
        # With each cell's own limit beside it, where there is room for that, else on a line below.
        self._beside = all(self._cell_width(row, beside=True) <= self._most for row in fitting)
        self._fitting = {id(row) for row in fitting}
        needed = [self._cell_width(row, beside=self._beside) for row in fitting]
        self._heads = list(self._headings())
        self._cell = min(
            max([CELL_MIN, *needed, *(len(name) + 1 for name in self._heads)]), max(self._most, 1)
        )

    def _cell_width(self, row: Row, *, beside: bool = False) -> int:
        texts = [self._text(row, cell, beside=beside) for cell in row.cells]
        limits = [] if beside else self._limits(row)
        return max(map(len, [*texts, *limits])) + 1

    @staticmethod
    def _limits(row: Row) -> list[str]:
        """The cells' own limits as they stand on the line below: with their signs, if those are several."""
        return [
            "" if cell is None else cell.limit if row.sign or not cell.limit else cell.sign + cell.limit
            for cell in row.cells
        ]

    @staticmethod
    def _text(row: Row, cell: Cell | None, *, beside: bool) -> str:
        return row.text(cell) if beside or cell is None else cell.text

    def _headings(self) -> Sequence[str]:
        """The devices' names: with their node if there is room, else without, else their numbers."""
        short = [subject.partition("/")[2] or subject for subject in self._columns]
        for names in (self._columns, short):
            if max(map(len, names), default=0) < self._most:
                return names
        return [found[0] if (found := INDEX.search(name)) else name for name in short]

    def lines(self, head: str, decision: Decision, *, named: bool) -> Iterator[Text]:
        """The heading, with the columns' names beside it or below it, then each row.

        `named`: with its criterion's name behind it, or below it if there is no room behind all of them.
        """
        # At least two blanks are between the heading and the first column's name.
        room = len(head) + max(0, 2 + len(self._heads[0]) - self._cell if self._heads else 0)
        if room + len(self._columns) * self._cell <= self._width:
            self._left = max(self._left, room)
        above, names = self._nodes(), "".join(name.rjust(self._cell) for name in self._heads)
        if not self._fitting:
            above = names = ""
        beside = room <= self._left and not above
        heads = [head.ljust(self._left) + names] if beside else wrapped(head, self._width)
        for line in heads:
            text = Text(line)
            text.highlight_words([decision.value], DECISIONS[decision])
            yield text
        yield from (Text(" " * self._left + line) for line in (above, "" if beside else names) if line)
        rows = [(row, list(self._row(row))) for row in self._rows]
        start = max([len(lines[0]) for _, lines in rows], default=0) + 2
        behind = start + max([len(row.criterion) for row, _ in rows], default=0) <= self._width
        for row, lines in rows:
            if named and behind:
                lines[0].pad_right(start - len(lines[0]))
                lines[0].append(row.criterion, "dim")
            elif named:
                lines.insert(1, Text(" " * WORD + row.criterion, "dim"))
            yield from lines

    def _nodes(self) -> str:
        """The nodes' names above their devices, if the devices' names are without them and of several."""
        nodes = [subject.partition("/")[0] for subject in self._columns]
        if len(set(nodes)) == 1 or self._heads == list(self._columns):
            return ""
        parts = []
        for node, same in groupby(nodes):
            room = self._cell * len(list(same))
            short = node if len(node) < room else "…" + node[len(node) - room + 2 :]
            parts.append(short.rjust(room))
        return "".join(parts)

    def _row(self, row: Row) -> Iterator[Text]:
        style = STYLES.get(row.outcome, "")
        line = Text.assemble((row.word.ljust(WORD), style), row.title.ljust(self._title), row.limit)
        if id(row) in self._fitting:
            line.pad_right(self._left - len(line))
            for cell in row.cells:
                text = self._text(row, cell, beside=self._beside).rjust(self._cell)
                line.append(text, "" if cell is None else STYLES.get(cell.outcome, ""))
            yield line
            limits = self._limits(row)
            if any(limits) and not self._beside:
                start = f"{'':{WORD}}  limit {row.sign}".ljust(self._left)
                yield Text(start + "".join(limit.rjust(self._cell) for limit in limits))
            return
        if len(row.spread) < self._width - self._limits_end:
            line.pad_right(self._limits_end - len(line))
            yield line.append(f" {row.spread}", style)
        else:
            yield line
            room = self._width - WORD
            for part in wrapped(shortened(row.spread, room), room, ""):
                yield Text(" " * WORD + part, style)
