"""`rigproof history compare`: two sets of kept runs, two cards or two rigs, figure by figure."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from statistics import fmean, geometric_mean
from typing import Any

from rigproof.criteria.changes import Change, change
from rigproof.history.reading import CONDITIONS, Key, StoredRate, figure_key, heading, in_words, once, painter
from rigproof.records.champions import same_power
from rigproof.records.grouping import grouped
from rigproof.records.verdict import figure

SHOWN = 4  # values of a condition that a line names

# What makes runs alike, so that their spread is that of measuring, and not of a change.
ALIKE = ("rig", "driver", "torch", "CUDA", "power limit", "level", "shortened", "imported", "tags")


class SelectionError(Exception):
    """A set of runs that cannot be compared; the message says why, and the way out."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure on both sides. `clock_mhz` and `temperature_c`: how their means changed; None if unknown."""

    title: str
    unit: str
    labels: str  # the work, as in `size 8192`
    before: float  # geometric mean, in `unit`
    after: float
    runs: tuple[int, int]
    change: Change
    clock_mhz: float | None
    temperature_c: float | None


@dataclass(frozen=True, slots=True)
class Compared:
    """What two sets have in common, card by card; or card against card, if they share none."""

    sides: tuple[tuple[StoredRate, ...], tuple[StoredRate, ...]]
    differs: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]
    cards: Mapping[str, tuple[Row, ...]]
    left_out: tuple[str, ...]  # what only one side has

    def as_json(self) -> dict[str, Any]:
        """The comparison for programs; `answer` of each figure is what people read."""

        def told(row: Row) -> dict[str, Any]:
            return {**asdict(row), "change": {**asdict(row.change), "answer": row.change.answer}}

        return {
            "simulated": bool(self.sides[0][0].mark),
            "runs": [sorted({one.file for one in side}) for side in self.sides],
            "differs": self.differs,
            "cards": {card: [told(row) for row in every] for card, every in self.cards.items()},
            "left_out": self.left_out,
        }


def chosen(rates: Sequence[StoredRate], selection: str) -> tuple[StoredRate, ...]:
    """The rates of a selection, such as `0003`, `0001-0007` or `driver=580,card=pc1/gpu0`. SelectionError.

    Its terms, parted by commas, hold together. Keys: run, rig, card (UUID or subject), driver, torch, cuda,
    level, tag, figure (a part of its name), power (W), since and before (a date).
    """
    found = tuple(rates)
    for term in map(str.strip, selection.split(",")):
        key, given, value = term.partition("=")
        try:
            date.fromisoformat(value if key in ("since", "before") else "2026-11-27")
        except ValueError:
            raise SelectionError(f"{value or term}: no date; write it like 2026-11-27") from None
        if given and not value:
            raise SelectionError(f"{term}: write a value behind it")
        if key not in TERMS if given else not all(map(str.isdecimal, term.split("-", 1))):
            known = f"use numbers, as 0003 or 0001-0007, or {', '.join(TERMS)}"
            raise SelectionError(f"{term or 'an empty term'}: unknown; {known}")
        matches = TERMS[key] if given else _has_number
        kept = tuple(one for one in found if matches(one, value or term))
        if rates and not kept:
            nothing = f"no kept run is of {term}"
            raise SelectionError(f"{selection}: {nothing}; {_known(found, key)}")
        if not given and len(rigs := {one.rig for one in kept}) > 1:
            those = ", ".join(sorted(rigs))
            raise SelectionError(f"{selection}: {those} have such runs; write rig=NAME,{term}")
        found = kept
    return found


def _has_number(one: StoredRate, numbers: str) -> bool:
    """Whether its run's number is that, such as 0003, or within those, such as 0001-0007."""
    first, _, last = numbers.partition("-")
    numbered = first.isdecimal() and one.number.isdecimal()
    return numbered and int(first) <= int(one.number) <= int(last if last.isdecimal() else first)


def _is_version(known: str | None, value: str) -> bool:
    """Whether a version is this one, or one of its kind: 580 is 580.65, and not 5801."""
    return known is not None and (known == value or known.startswith((f"{value}.", f"{value}+")))


TERMS: dict[str, Callable[[StoredRate, str], bool]] = {
    "run": lambda one, value: _has_number(one, value) or (one.kept.run_id or "").startswith(value),
    "rig": lambda one, value: one.rig == value,
    "card": lambda one, value: one.kept.subject == value or (one.kept.gpu_uuid or "").startswith(value),
    "driver": lambda one, value: _is_version(one.kept.driver, value),
    "torch": lambda one, value: _is_version(one.kept.torch, value),
    "cuda": lambda one, value: _is_version(one.kept.cuda, value),
    "level": lambda one, value: one.kept.level == value,
    "tag": lambda one, value: value in one.kept.tags,
    "figure": lambda one, value: value in one.kept.title,
    "power": lambda one, value: value.isdecimal() and same_power(one.kept.power_limit_w, float(value)),
    "since": lambda one, value: one.measured_at >= value,
    "before": lambda one, value: one.measured_at < value,
}


def _known(rates: Sequence[StoredRate], key: str) -> str:
    """The values that there are in the place of one that there is not."""
    places = {"cuda": "CUDA", "power": "power limit", "card": "slot", "tag": "tags"}
    read = CONDITIONS.get(places.get(key, key))
    texts = (read(one) if read else f"{one.number} of {one.measured_at[:10]}" for one in rates)
    values = sorted({*filter(None, texts)})
    return f"there are: {', '.join(values[:SHOWN])}{' …' if len(values) > SHOWN else ''}"


def compare(
    before: Sequence[StoredRate], after: Sequence[StoredRate], rates: Sequence[StoredRate]
) -> Compared:
    """Compare two sets out of all kept `rates`, whose other runs tell how far a card's runs spread.

    SelectionError if both have a run in common, or cards that are not of one kind.
    """
    sides = tuple(once(before)), tuple(once(after))
    places = [{*map(_place, side)} for side in sides]
    if both := places[0] & places[1]:
        raise SelectionError(f"{min(both)[0]} is on both sides; name sets that have no run in common")
    others = [one for one in once(rates) if _place(one) not in places[0] | places[1]]
    pairs = _pairs(*sides)
    figures = {name: [grouped(side, figure_key) for side in pair] for name, pair in pairs.items()}
    comparisons = sum(len(one.keys() & other.keys()) for one, other in figures.values())
    cards, alone = {}, []
    for name, (one, other) in figures.items():
        uuids = {rate.kept.gpu_uuid for side in pairs[name] for rate in side}
        more = grouped((rate for rate in others if rate.kept.gpu_uuid in uuids), figure_key)
        shared = [key for key in one if key in other]
        cards[name] = tuple(_row(key, one[key], other[key], more.get(key, ()), comparisons) for key in shared)
        for letter, own, its in (("A", one, other), ("B", other, one)):
            only = [f"{key[0]} {key[2]}".rstrip() for key in own if key not in its]
            alone += [f"only in {letter}, of {name}: {', '.join(only)}"] if only else []
    differs = {
        name if len(pairs) == 1 else f"{name} of {card.partition(' ')[0]}": values
        for card, (one, other) in pairs.items()
        for name, read in CONDITIONS.items()
        if (values := (_counted(read, one), _counted(read, other)))[0] != values[1] or len(values[0]) > 1
    }
    return Compared(sides, differs, cards, tuple(alone))


def _counted(read: Callable[[StoredRate], str | None], side: Sequence[StoredRate]) -> tuple[str, ...]:
    """The values of a condition; of several, each with the number of its runs."""
    runs = {(one.file, one.measured_at): read(one) for one in side}
    counts = Counter(text for text in runs.values() if text)
    return tuple(text if len(counts) == 1 else f"{text} ({counts[text]})" for text in sorted(counts))


def _pairs(
    before: Sequence[StoredRate], after: Sequence[StoredRate]
) -> dict[str, tuple[list[StoredRate], list[StoredRate]]]:
    """The sides of each card that both have; if they share none, of all cards of a side, which are alike."""
    first, second = (grouped(side, lambda one: one.kept.gpu_uuid) for side in (before, after))
    if common := [uuid for uuid in first if uuid in second]:
        return {second[uuid][-1].card: (first[uuid], second[uuid]) for uuid in common}
    names = {one.kept.gpu_name or "" for one in (*before, *after)}
    if len(names) > 1:
        unlike = f"{', '.join(sorted(names))} are not alike"
        raise SelectionError(f"the sets have no card in common, and {unlike}; choose one kind")
    return {f"other cards of one kind: {names.pop()}": ([*before], [*after])}


def _place(one: StoredRate) -> tuple[str, str, str]:
    return one.file, one.measured_at, one.kept.gpu_uuid or ""


def _row(
    key: Key,
    before: Sequence[StoredRate],
    after: Sequence[StoredRate],
    others: Sequence[StoredRate],
    comparisons: int,
) -> Row:
    alike = grouped(others, lambda one: (one.kept.gpu_uuid, *(CONDITIONS[name](one) for name in ALIKE)))
    spreads = [[one.kept.rate for one in every] for every in alike.values()]
    first, second = ([one.kept.rate for one in side] for side in (before, after))
    return Row(
        *key,
        before=geometric_mean(first),
        after=geometric_mean(second),
        runs=(len(first), len(second)),
        change=change(first, second, spreads, comparisons),
        clock_mhz=_shift(before, after, "sm_clock_mean_mhz"),
        temperature_c=_shift(before, after, "core_temperature_mean_c"),
    )


def _shift(before: Sequence[StoredRate], after: Sequence[StoredRate], name: str) -> float | None:
    """How the mean of a reading changed; None if a side does not have it."""
    read = ([getattr(one.kept, name) for one in side] for side in (before, after))
    known = [[value for value in side if value is not None] for side in read]
    return fmean(known[1]) - fmean(known[0]) if all(known) else None


def comparison_lines(found: Compared, names: tuple[str, str], *, color: bool = False) -> Iterator[str]:
    """What people read, 80 columns wide but for long names."""
    styled = painter(color)
    mark = found.sides[0][0].mark
    for letter, name, side in zip("AB", names, found.sides, strict=True):
        files = sorted({(one.measured_at[:10], one.number) for one in side})
        days = " to ".join(dict.fromkeys((files[0][0], files[-1][0])))
        yield f"{mark}{letter}: {name}: {figure(len(files), 'runs')}, {days}"
    for condition, values in found.differs.items():
        first, second = (", ".join(one[:SHOWN]) + (" …" if len(one) > SHOWN else "") for one in values)
        name = condition.partition(" of ")[0]
        yield f"{condition}: {in_words(name, first)} in A, {in_words(name, second)} in B"
    if not found.differs:
        yield "no condition that is kept differs"
    for card, rows in found.cards.items():
        yield styled(heading(mark, card), "bold")
        works = Counter(row.title for row in rows)
        for row in rows:
            title = f"{row.title}{f' ({row.labels})' if works[row.title] > 1 else ''}"
            yield f"  {styled(title, 'bold')}: {figure(row.before)} → {figure(row.after, row.unit)}"
            answer = f"{row.change.answer}{_interval(row)}"
            means = ((row.clock_mhz, "MHz"), (row.temperature_c, "°C"))
            read = "".join(f", {value:+.0f} {unit}" for value, unit in means if value and round(value))
            yield f"    {styled(answer, row.change.answer)}{read}"
    yield from found.left_out
    answers = Counter(row.change.answer for rows in found.cards.values() for row in rows)
    counted = ", ".join(f"{answer} in {number}" for answer, number in answers.items())
    of = figure(answers.total(), "figures")
    yield f"B against A: {counted}, of {of}" if answers else "nothing to compare"


def _interval(row: Row) -> str:
    """The change with two significant digits, and its interval with as many decimals."""
    own = row.change
    largest = max(abs(own.percent), own.high - own.low if own.high is not None and own.low is not None else 0)
    decimals = min(3, max(0, 1 - math.floor(math.log10(largest)))) if largest else 1
    percent = f" {own.percent:+.{decimals}f} %"
    if own.low is None or own.high is None:
        return f":{percent} by {row.runs[0]} and {row.runs[1]}"
    colon = ":" if own.answer == "no difference shown" else ""
    return f"{colon}{percent} ({own.low:+.{decimals}f} to {own.high:+.{decimals}f})"
