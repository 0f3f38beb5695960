"""The table criterion × GPU that terminal, summary.md and report.html show: failures first, passes folded."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter

from rigproof.judging.catalogue import CATALOGUE
from rigproof.profiles.planning.subjects import RIG
from rigproof.records.grouping import grouped
from rigproof.records.verdict import (
    SIGNS,
    Decision,
    Outcome,
    Verdict,
    compared,
    digits_to_distinguish,
    limit_text,
    meets,
)
from rigproof.report.content.order import (
    READING_ORDER,
    folded,
    good_until_the_end,
    loudness,
    not_measured_groups,
)

COLUMNS_MAX = 8  # of more GPUs a row has the range and the worst
LISTED_MAX = 3  # subjects that are no column and have each its own figure; of more, also the range
LOUD = (Outcome.FAIL, Outcome.WARN, Outcome.NOT_MEASURED)
FIGURELESS = {Outcome.FAIL: "no", Outcome.WARN: "!", Outcome.NOT_APPLICABLE: "-"}
MARKED = {Outcome.FAIL: "[{}]", Outcome.WARN: "({})", Outcome.NOT_MEASURED: "{}?"}
MARKS = {
    Outcome.FAIL: "[ ] failed",
    Outcome.WARN: "( ) warning",
    Outcome.NOT_MEASURED: "? not measured",
    Outcome.NOT_APPLICABLE: "- not applicable",
}
COUNTED = {
    Outcome.FAIL: "failed",
    Outcome.WARN: "warned",
    Outcome.NOT_MEASURED: "not measured",
    Outcome.NOT_APPLICABLE: "not applicable",
}
SO_FAR = re.compile(r"\w\?")  # a figure of what was not measured to the end
MISSED = (Outcome.FAIL, Outcome.WARN)  # whose figure is beyond its limit
WORDS = {Outcome.FAIL: "FAIL", Outcome.WARN: "WARN", Outcome.NOT_MEASURED: "?"}


@dataclass(frozen=True, slots=True)
class Cell:
    """A subject's figure as text, marked if it is not good: `[91]` failed, `(91)` warned, `?` not measured.

    `limit` is empty if the row's limit is that of all. `sign`: its own limit's, `≤`; empty if it has none.
    """

    subject: str
    outcome: Outcome
    text: str
    limit: str = ""
    sign: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A criterion and its worst outcome. `limit` has its unit; it is the unit alone if each cell has its own,
    and empty if each cell's has its own unit.

    `cells`: one for each column of the matrix, None where nothing is promised; empty for a row of other
    subjects. `spread`: the figures of all in a few words, for a row without cells or without room for them.
    """

    criterion: str
    title: str
    outcome: Outcome
    limit: str
    cells: tuple[Cell | None, ...]
    spread: str
    subjects: int

    def text(self, cell: Cell | None) -> str:
        """A cell's figure, with its own limit if it has one: `78.0 ≥ 58.5`; empty for None."""
        if cell is None:
            return ""
        return f"{cell.text} {cell.sign or '/'} {cell.limit}" if cell.limit else cell.text

    @property
    def sign(self) -> str:
        """The sign of the cells' own limits; empty if they have several, or none."""
        signs = {cell.sign for cell in self.cells if cell is not None and cell.limit}
        return signs.pop() if len(signs) == 1 else ""

    @property
    def limit_label(self) -> str:
        """The word before `limit` where no column's head says it: `in` (TFLOP/s) if each cell has its own."""
        return "limit" if any(map(str.isdigit, self.limit)) else "in"

    @property
    def word(self) -> str:
        """The mark in front of the row: empty if nothing is wrong."""
        return WORDS.get(self.outcome, "")


@dataclass(frozen=True, slots=True)
class Matrix:
    """`rows`: failures, warnings, not measured, then the key figures; `quiet`: passes and baselines.

    `columns`: the devices, up to COLUMNS_MAX; empty if there are more.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    quiet: tuple[Row, ...]
    notes: tuple[str, ...]  # about quiet rows, one line each
    last_notes: tuple[str, ...]  # about what is in no row

    def shown(self, *, everything: bool) -> tuple[Row, ...]:
        """The rows; with `everything` the quiet ones too."""
        return (*self.rows, *self.quiet) if everything else self.rows

    def legend(self, rows: Iterable[Row]) -> str:
        """The meaning of the marks in these rows' cells; empty if there are none."""
        outcomes = {row.outcome for row in rows}
        outcomes |= {cell.outcome for row in rows for cell in row.cells if cell is not None}
        marks = [text for outcome, text in MARKS.items() if outcome in outcomes]
        if any(SO_FAR.search(row.spread) for row in rows):
            marks = [f"{text} to the end" if text == MARKS[Outcome.NOT_MEASURED] else text for text in marks]
        return ", ".join(marks)


def heading(
    rig: str, decision: Decision, verdicts: Sequence[Verdict], *, simulated: bool, instead: str
) -> str:
    """For example `h200-x8 REJECTED  2 of 222 failed`. `instead`: what a verdict line adds to ACCEPTED."""
    judged = [verdict.outcome for verdict in verdicts if verdict.outcome is not Outcome.NOT_APPLICABLE]
    failed, missing = judged.count(Outcome.FAIL), judged.count(Outcome.NOT_MEASURED)
    good = good_until_the_end(verdicts)
    what = f"{missing} of {len(judged)} not measured{good}" if missing and not failed else ""
    what = what or f"{failed or 'none'} of {len(judged)} failed"
    mark = "SIMULATED " if simulated else ""
    return f"{rig} {mark}{decision.value}{instead}  {what}"


def title_of(criterion: str) -> str:
    """The title that a criterion declares; its name if the catalogue lacks it."""
    known = CATALOGUE.get(criterion)
    return criterion if known is None else known.title


def matrix_of(verdicts: Sequence[Verdict], devices: Sequence[str]) -> Matrix:
    """The matrix of all verdicts. `devices`: the subjects of all devices, in the order of the columns."""
    columns = tuple(devices) if len(devices) <= COLUMNS_MAX else ()
    explained = _explained_together(verdicts)
    by_criterion = grouped(verdicts, lambda verdict: verdict.criterion)
    loud: list[tuple[tuple[int, bool], Row]] = []
    key: list[Row] = []
    quiet: list[Row] = []
    absent: list[str] = []
    inapplicable: list[str] = []
    partly: list[str] = []  # do not apply to some subjects
    known_devices = set(devices)
    for name, group in by_criterion.items():
        own = [verdict for verdict in group if id(verdict) not in explained]
        row = _row(name, group, own, columns, known_devices)
        known = CATALOGUE.get(name)
        if row.outcome is Outcome.NOT_APPLICABLE:
            inapplicable.append(row.title)
        elif any(verdict.outcome is Outcome.NOT_APPLICABLE for verdict in group):
            partly.append(row.title)
        loudest = [one for one in own if one.outcome in LOUD and not one.good_so_far]
        if loudest:
            first = min(loudest, key=loudness)
            loud.append((loudness(first), row))
        elif known is not None and known.key_figure:
            key.append(row)
        elif not own:
            absent.append(row.title)
        elif row.outcome is not Outcome.NOT_APPLICABLE:
            quiet.append(row)
    loud.sort(key=lambda pair: pair[0])
    return Matrix(
        columns,
        (*(row for _, row in loud), *key),
        tuple(sorted(quiet, key=lambda row: READING_ORDER.index(row.outcome))),
        tuple(_notes(quiet, partly, explained=bool(explained))),
        tuple(_last_notes(absent, inapplicable, partly)),
    )


def _explained_together(verdicts: Sequence[Verdict]) -> set[int]:
    """Ids of verdicts "not measured" that one sentence explains for a whole subject, such as a lost GPU."""
    groups = [group for group in not_measured_groups(verdicts) if folded(group)]
    whole = [
        group
        for group in groups
        if len({verdict.subject for verdict in group}) == 1 and not group[0].good_so_far
    ]
    return {id(verdict) for group in whole for verdict in group}


def _row(
    name: str, group: Sequence[Verdict], own: Sequence[Verdict], columns: tuple[str, ...], devices: set[str]
) -> Row:
    judged = [verdict for verdict in group if verdict.limit is not None]
    units = dict.fromkeys(verdict.unit for verdict in judged or group if verdict.unit)
    unit = next(iter(units)) if len(units) == 1 else ""
    digits = digits_to_distinguish(_missed(group))
    unlike = {(verdict.limit, verdict.direction): verdict for verdict in judged}  # mostly only one
    limits = {(_limit(verdict, digits), verdict.direction) for verdict in unlike.values()}
    applies = [one for one in group if one.outcome is not Outcome.NOT_APPLICABLE]
    same = (
        len(limits) == 1
        and len(units) < 2
        and all(one.limit is not None or one.measured is None for one in applies)
    )

    def own_limit(verdict: Verdict) -> str:
        """A verdict's limit as text, if the row's is not that of all."""
        return "" if same else _limit(verdict, digits, verdict.unit if len(units) > 1 else "")

    by_device = bool(columns) and all(verdict.subject in devices for verdict in group)
    cells: tuple[Cell | None, ...] = ()
    if by_device:
        by_subject = {verdict.subject: _cell(verdict, digits, own_limit(verdict)) for verdict in group}
        cells = tuple(by_subject.get(subject) for subject in columns)
    return Row(
        name,
        title_of(name),
        min({verdict.outcome for verdict in own or group}, key=READING_ORDER.index),
        limit_text(judged[0].limit or 0.0, unit, judged[0].direction, digits) if same else unit,
        cells,
        _spread(group, digits, own_limit, of_devices=all(verdict.subject in devices for verdict in group)),
        len(group),
    )


def _missed(group: Iterable[Verdict]) -> Iterable[tuple[float, float]]:
    """Each figure that is not good, with its limit."""
    for verdict in group:
        if verdict.outcome in MISSED and verdict.measured is not None and verdict.limit is not None:
            yield verdict.measured, verdict.limit


def _limit(verdict: Verdict, more_digits: int, unit: str = "") -> str:
    """A verdict's limit as text, without its sign; empty if it has none."""
    return "" if verdict.limit is None else compared(verdict.limit, unit, more_digits)


def _sign(verdict: Verdict) -> str:
    """The sign of a verdict's limit, `≤`; empty if it has no direction."""
    return "" if verdict.direction is None else SIGNS[verdict.direction]


def _in_brackets(verdict: Verdict, limit: str) -> str:
    """A limit behind a figure: ` (limit ≤ 80)`; empty if there is none."""
    return f" ({' '.join(filter(None, ['limit', _sign(verdict), limit]))})" if limit else ""


def _cell(verdict: Verdict, digits: int, own_limit: str) -> Cell:
    text = _figure(verdict, digits)
    if not own_limit or verdict.measured is None:
        return Cell(verdict.subject, verdict.outcome, text)
    return Cell(verdict.subject, verdict.outcome, text, own_limit, _sign(verdict))


def _figure(verdict: Verdict, more_digits: int) -> str:
    """A verdict's figure without the unit, marked by its outcome."""
    if verdict.outcome is Outcome.NOT_MEASURED and not verdict.good_so_far:
        return "?"
    text = FIGURELESS.get(verdict.outcome, "ok")
    if verdict.measured is not None:
        text = compared(verdict.measured, "", _digits(verdict, verdict.measured, more_digits))
    return MARKED.get(verdict.outcome, "{}").format(text)


def _digits(verdict: Verdict, measured: float, more_digits: int) -> int:
    """The row's digits; a good figure gets the fewest with which it does not read as beyond its limit."""
    if verdict.outcome in MISSED or verdict.direction is None or verdict.limit is None:
        return more_digits if verdict.limit is not None else 0
    limit = float(_limit(verdict, more_digits))
    fewer = (
        digits
        for digits in range(more_digits)
        if meets(float(compared(measured, "", digits)), limit, verdict.direction)
    )
    return next(fewer, more_digits)


def _spread(
    group: Sequence[Verdict], digits: int, own_limit: Callable[[Verdict], str], *, of_devices: bool
) -> str:
    """All figures in a few words, such as `[594]…660, worst node3/gpu2`. What is not of devices says so."""
    if len(group) <= LISTED_MAX:
        return ", ".join(_alone(verdict, digits, own_limit(verdict)) for verdict in group)
    by_badness = [(_badness(verdict), verdict) for verdict in group]
    worst = max(by_badness, key=itemgetter(0))[1]
    counted = list(_counted(group, worst.outcome))
    applies = [verdict for verdict in group if verdict.outcome is not Outcome.NOT_APPLICABLE] or group
    figures = [verdict.measured for verdict in group if verdict.measured is not None]
    if not figures:
        where = worst.subject if worst.outcome in LOUD else f"on all {len(applies)}"
        return ", ".join([f"{_figure(worst, digits)} {where}", *counted])
    # Of several with the same figure the worst one, so that its mark is seen.
    low, high = (
        max((one for one in by_badness if one[1].measured == figure), key=itemgetter(0))[1]
        for figure in (min(figures), max(figures))
    )
    texts = [_figure(low, digits), _figure(high, digits)]
    text = texts[0] if texts[0] == texts[1] else "…".join(texts)
    if worst.outcome in LOUD or (worst.limit is not None and texts[0] != texts[1]):
        at_end = worst.measured in (low.measured, high.measured)
        figure = "" if at_end else f"{_figure(worst, digits)} "
        text += f", worst {figure}{worst.subject}{_in_brackets(worst, own_limit(worst))}"
    elif not of_devices:
        known = CATALOGUE.get(worst.criterion)
        text += f" on {len(applies)} {'subject' if known is None else known.scope}s"
    return ", ".join([text, *counted])


def _counted(group: Sequence[Verdict], worst: Outcome) -> Iterable[str]:
    """The number of each outcome that the worst one does not show: `3 failed`, `1 not measured`."""
    numbers = Counter(verdict.outcome for verdict in group)
    for outcome, words in COUNTED.items():
        number = numbers[outcome]
        alone = outcome in (Outcome.NOT_MEASURED, Outcome.NOT_APPLICABLE) and worst is not outcome
        if number > 1 or (number and alone):
            yield f"{number} {words}"


def _alone(verdict: Verdict, digits: int, own_limit: str) -> str:
    where = "the rig" if verdict.subject == RIG else verdict.subject
    return f"{_figure(verdict, digits)}{_in_brackets(verdict, own_limit)} on {where}"


def _badness(verdict: Verdict) -> tuple[int, float]:
    """A sort key: first by outcome, then by how near the limit is, or how far beyond."""
    loud = -READING_ORDER.index(verdict.outcome)
    if verdict.measured is None or verdict.limit is None:
        return loud, -1e9
    away = abs(verdict.measured - verdict.limit) / max(abs(verdict.limit), 1e-9)
    return loud, away if verdict.outcome is Outcome.FAIL else -away


def _notes(quiet: Sequence[Row], partly: Sequence[str], *, explained: bool) -> Iterable[str]:
    passed = [row.title for row in quiet if row.outcome is Outcome.PASS]
    one = len(passed) == 1
    conditions = []
    if set(partly).intersection(passed):
        conditions.append("applies" if one else "apply")
    if explained:
        conditions.append("was measured" if one else "were measured")
    where = f"wherever {'it' if one else 'they'} {' and '.join(conditions)}" if conditions else "on all"
    if passed:
        yield f"{len(passed)} more pass{'es' if one else ''} {where}"
    good = [row for row in quiet if row.outcome is Outcome.NOT_MEASURED]
    if good:
        yield f"{len(good)} more {'was' if len(good) == 1 else 'were'} good until the run ended"
    baselines = [row.title for row in quiet if row.outcome is Outcome.NO_LIMIT]
    if baselines:
        yield f"{len(baselines)} measured without a limit yet: {', '.join(baselines)}"


def _last_notes(absent: Sequence[str], inapplicable: Sequence[str], partly: Sequence[str]) -> Iterable[str]:
    if absent:
        yield f"{len(absent)} more not measured on any: {', '.join(absent)}"
    names = [*inapplicable, *(f"{title} (on some)" for title in sorted(partly))]
    if names:
        yield f"{len(names)} not applicable: {', '.join(names)}"
