"""`rigproof history`: the rates of each card, oldest first, and the rig's champions."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from textwrap import wrap
from typing import Any

from rigproof.history.champions import (
    ChampionError,
    ChampionRun,
    GpuFigure,
    RigFigure,
    StoredChampions,
    label_words,
    read_champions,
)
from rigproof.history.models import Beside, beside, beside_lines, way_out
from rigproof.history.names import SIMULATED
from rigproof.history.reading import (
    History,
    Kept,
    Key,
    StoredRate,
    figure_key,
    heading,
    in_words,
    once,
    painter,
)
from rigproof.history.trends import Trend, shared_and_changed, trend_of
from rigproof.profiles.tables.sku import Sku
from rigproof.records.grouping import grouped
from rigproof.records.message_text import one_line
from rigproof.records.verdict import figure

LINE = 400  # characters
NOTABLE_PERCENT = 1.0  # from this change on, it has a colour
SHOWN_ELSEWHERE = ("rig", "card", "slot")  # in the lines above the figures
AGAINST = "; each change is against the line above it"
OF_FIGURE = {"title", "unit", "gpu_uuid", "labels"}  # what all runs of it have alike
COLUMNS = ("rig", "number", "measured_at", *(one for one in Kept.model_fields if one != "labels"), "labels")
Trends = dict[tuple[str | None, Key], Trend]
Skus = Mapping[str, Sku]
NO_SKUS: Skus = {}
NOTHING = "nothing is kept yet; a real run keeps its good rates (simulated ones: --simulated)"
NOTHING_SIMULATED = "nothing is kept yet; a simulated run keeps its good rates with --keep-history"


def listing_lines(
    folder: Path,
    histories: Sequence[History],
    selected: Sequence[StoredRate],
    rig: str | None = None,
    numbers: Collection[str] = (),
    *,
    each: bool = False,
    color: bool = False,
    skus: Skus = NO_SKUS,
) -> Iterator[str]:
    """The lines of `rigproof history`: how each figure of each card of each rig went on.

    `histories` are those in the `folder`, of one rig or of all, and `selected` the rates of theirs to show.
    `each`: the rates of all runs instead, oldest first; `numbers` are those of the runs to show then, all
    without one. `skus`: the models whose cards are said to be normal or not, by their files' stems.
    Cards are identified by UUID, so one that moved to another slot or node keeps its history.
    """
    if not histories:
        known = ", ".join(path.name for path in sorted(folder.glob("*")) if path.is_dir())
        nothing = NOTHING_SIMULATED if folder.name == SIMULATED else NOTHING
        yield f"{folder}: {f'{rig}: no such rig; there are: {known}' if rig and known else nothing}"
    rates_of = grouped(selected, lambda one: one.rig)
    for found in histories:
        own = rates_of.get(found.rig, [])
        if own and (each or numbers):
            yield from _rate_lines(own, numbers, color=color)
        elif own:
            yield from trend_lines(own, color=color, skus=skus)
        elif not found.everything:
            yield f"{found.rig}: {'no kept run can be read' if found.problems else NOTHING}"
        yield from (f"  {problem}" for problem in found.problems)


def trend_lines(rates: Sequence[StoredRate], *, color: bool = False, skus: Skus = NO_SKUS) -> Iterator[str]:
    """A rig's conditions, what changed in which run, its cards' figures, and whether these are normal."""
    styled = painter(color)
    trends = _trends(rates)
    told = _told(rates, trends)
    runs, alike = figure(len(told["runs"]), "runs"), told["alike"]
    yield f"{styled(told['mark'] + told['rig'], 'bold')}: {runs}, {told['days']}"
    lines = [f"all runs: {alike}"] if alike else []
    lines += [
        f"from {one['number']} of {one['measured_at'][:10]} on: {one['text']}" for one in told["changes"]
    ]
    for line in lines:
        yield from wrap(line, 80, initial_indent="  ", subsequent_indent="    ")
    width = max(len(key[0]) for _, key in trends)
    twins = Counter((uuid, key[0]) for uuid, key in trends)
    latest = {one.kept.gpu_uuid: one for one in rates}
    every: list[Beside] = []
    for uuid, own in grouped(trends.items(), lambda item: item[0][0]).items():
        yield styled(heading(told["mark"], latest[uuid].card), "bold")
        known: list[tuple[Kept, Beside]] = []
        for (_, (title, unit, labels)), trend in own:
            last, spread = trend.runs[-1].kept, trend.spread_percent
            words, answer = f"median {figure(trend.median)}", ""
            if trend.steps:
                since, change = trend.runs[trend.steps[-1].place].number, trend.steps[-1].change
                words, answer = f"{change.percent:+.2g} % since {since}", change.answer
            words += f"{'' if spread is None else f' ±{spread:.2g} %'} n {len(trend.runs)}"
            work = f" ({labels})" if twins[uuid, title] > 1 else ""
            line = f"  {title:<{width}} {trend.sparkline} {figure(last.rate, unit)} "
            yield f"{line}{styled(words, answer)}{work}"
            if skus and (one := beside(last, skus)) is not None:
                known.append((last, one))
        for normal, text in beside_lines(known):
            for line in wrap(text, 80, initial_indent="  ", subsequent_indent="    "):
                yield styled(line, normal)
        every += [one for _, one in known]
    if not told["mark"]:
        yield from way_out(every)


def history_content(rates: Sequence[StoredRate], skus: Skus = NO_SKUS) -> dict[str, Any]:
    """The same for a page: what the lines above the figures say, and `trends` as `trends_json` has them."""
    return {**_told(rates, _trends(rates)), "trends": trends_json(rates, skus)}


def _told(rates: Sequence[StoredRate], trends: Trends) -> dict[str, Any]:
    """The rig, its runs, what all of them share, and what changed with which run."""
    shared, changed = shared_and_changed(rates)
    runs = {one.file: one for one in rates}
    days = dict.fromkeys(sorted(one.measured_at[:10] for one in rates)[:: max(1, len(rates) - 1)])
    stepped = {trend.runs[step.place].file for trend in trends.values() for step in trend.steps}
    changes = []
    for file in (file for file in runs if file in changed or file in stepped):
        steps = ((name, in_words(name, old), in_words(name, now)) for name, old, now in changed.get(file, ()))
        every = ", ".join(f"{name} {before} → {now}" for name, before, now in steps)
        changes.append({**runs[file].run, "text": every or "no condition that is kept changed"})
    alike = (f"{name} {value}" for name, value in shared.items() if name not in SHOWN_ELSEWHERE)
    return {
        "mark": rates[0].mark,
        "rig": rates[0].rig,
        "runs": [(one.number, one.measured_at) for one in runs.values()],
        "days": " to ".join(days),
        "alike": ", ".join(alike),
        "changes": changes,
    }


def trends_json(rates: Sequence[StoredRate], skus: Skus = NO_SKUS) -> list[dict[str, Any]]:
    """The same for programs, with every run of each figure."""
    found = []
    for (uuid, (title, unit, labels)), trend in _trends(rates).items():
        begun = [(trend.runs[one.place], one.change) for one in trend.steps]
        steps = [{**one.run, "run_id": one.kept.run_id, **asdict(change)} for one, change in begun]
        runs = [{**one.run, **one.kept.model_dump(exclude=OF_FIGURE)} for one in trend.runs]
        figures = {"last": trend.rates[-1], "median": trend.median, "spread_percent": trend.spread_percent}
        place = {"rig": rates[0].rig, "gpu_uuid": uuid, "title": title, "unit": unit, "labels": labels}
        one = beside(trend.runs[-1].kept, skus)
        model = None if one is None else asdict(one)
        found.append({**place, "n": len(runs), **figures, "model": model, "steps": steps, "runs": runs})
    return found


def csv_rows(rates: Sequence[StoredRate]) -> Iterator[dict[str, Any]]:
    """A row for each kept rate."""
    for one in rates:
        as_text = {"labels": figure_key(one)[2], "tags": " ".join(one.kept.tags)}
        yield {"rig": one.rig, **one.run, **one.kept.model_dump(), **as_text}


def _trends(rates: Sequence[StoredRate]) -> Trends:
    figures = grouped(once(rates), lambda one: (one.kept.gpu_uuid, figure_key(one)))
    return {place: trend_of(own, len(figures)) for place, own in figures.items()}


def _rate_lines(rates: Sequence[StoredRate], numbers: Collection[str], *, color: bool) -> Iterator[str]:
    """Every rate of these runs, each with its change."""
    styled, mark = painter(color), rates[0].mark
    shown = [one for one in rates if not numbers or one.number in numbers]
    runs = len({one.file for one in shown})
    counted = f"{figure(len(shown), 'measurements')} of {figure(runs, 'runs')}"
    yield f"{styled(mark + rates[0].rig, 'bold')}: {counted}{AGAINST if runs > 1 else ''}"
    groups = grouped(shown, lambda one: (one.kept.gpu_uuid, one.kept.title, one.kept.unit))
    for (uuid, title, _), group in groups.items():
        subject, model = group[-1].kept.subject, group[-1].kept.gpu_name or ""
        yield f"  {styled(f'{mark}{subject} {title}', 'bold')}  {model} {uuid}"
        for before, one in pairwise((group[0], *group)):
            percent = (one.kept.rate / before.kept.rate - 1) * 100
            change = "" if one is group[0] else f"{percent:+.1f} %"
            style = "" if abs(percent) < NOTABLE_PERCENT else "slower" if percent < 0 else "faster"
            versions = f"driver {one.kept.driver or 'none'}, torch {one.kept.torch or 'unknown'}"
            when = one.measured_at[:16].replace("T", " ")
            origin = "imported" if one.kept.imported else ""
            notes = "".join(f", {note}" for note in (one.kept.shortened, origin, *one.kept.tags) if note)
            rate = f"{one.kept.rate:.2f}" if one.kept.rate >= 0.1 else figure(one.kept.rate)
            rate = f"{rate:>9} {one.kept.unit} {styled(f'{change:>8}', style)}"
            yield f"    {one.number}  {when}  {rate}  {versions}{notes}"


def champions_listing(champions: Path, rig: str | None = None) -> Iterator[str]:
    """The champions of each rig in the folder `champions`, or of one. An unreadable file is named."""
    for folder in sorted(path for path in champions.glob("*") if path.is_dir() and rig in (None, path.name)):
        try:
            yield from champion_lines(read_champions(folder), folder.name)
        except ChampionError as error:
            yield f"champions of {folder.name}: {error}"


def champion_lines(stored: StoredChampions, rig: str) -> Iterator[str]:
    """Each champion with its conditions and its run; nothing if there are none."""
    if stored.rig is not None or stored.gpus:
        yield one_line(f"champions of {rig}", LINE)
    if stored.rig is not None:
        for cards, figures in grouped(stored.rig.figures, lambda one: tuple(one.cards.items())).items():
            for combined in figures:
                yield _figure_line(combined, "", stored.rig.runs[combined.run_id])
            for subject, card in cards:
                yield one_line(f"      {subject} {card.name} {card.uuid}{_at(card.power_limit_w)}", LINE)
    for gpu in stored.gpus.values():
        yield one_line(f"  {gpu.gpu_name} {gpu.gpu_uuid}", LINE)
        for one in gpu.figures:
            processes = "1 process" if one.workers == 1 else f"{one.workers} processes"
            work = ", ".join([_at(one.power_limit_w), label_words(one.labels), processes])
            yield _figure_line(one, work, gpu.runs[one.run_id])


def _figure_line(one: GpuFigure | RigFigure, work: str, run: ChampionRun) -> str:
    return one_line(f"    {one.title}  {one.value:.2f} {one.unit}{work}  {run.level}, {run.folder}", LINE)


def _at(power_limit_w: float | None) -> str:
    return "" if power_limit_w is None else f" at {power_limit_w:.0f} W"
