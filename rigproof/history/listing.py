"""`rigproof history`: the rates of each card, oldest first, and the rig's champions."""

from collections.abc import Collection, Iterator
from pathlib import Path

from rigproof.history.champions import (
    ChampionError,
    ChampionRun,
    GpuFigure,
    RigFigure,
    StoredChampions,
    read_champions,
)
from rigproof.history.reading import History, StoredRate, read_history
from rigproof.records.message_text import one_line
from rigproof.records.verdict import figure

LINE = 400  # characters
BOLD, RED, GREEN = "1", "31", "32"
NOTABLE_PERCENT = 1.0  # from this change on, it has a colour
AGAINST = "; each change is against the line above it"
NOTHING = "nothing is kept yet; a run of real devices keeps its good rates"


def listing_lines(
    history: Path, rig: str | None = None, numbers: Collection[str] = (), *, color: bool = False
) -> Iterator[str]:
    """The lines of `rigproof history`: the rates of each rig, card and figure, oldest first.

    `history` is the folder that holds one folder for each rig; `numbers` are those of the runs to show, all
    without one. Cards are identified by UUID, so a card that moved to another slot or node keeps its history.
    """
    folders = sorted(path for path in history.glob("*") if path.is_dir()) if history.is_dir() else []
    chosen = [path for path in folders if rig is None or path.name == rig]
    if not chosen:
        known = ", ".join(path.name for path in folders)
        what = f"{rig}: no such rig; there are: {known}" if rig and known else NOTHING
        yield f"{history}: {what}"
    for folder in chosen:
        yield from _rig_lines(read_history(folder), numbers, color=color)


def _rig_lines(history: History, numbers: Collection[str], *, color: bool) -> Iterator[str]:
    def styled(text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if color and code else text

    shown = [one for one in history.rates if not numbers or one.number in numbers]
    runs = len({one.file for one in shown})
    if not runs and not history.problems:
        yield f"{history.rig}: {NOTHING}"
        return
    counted = f"{figure(len(shown), 'measurements')} of {figure(runs, 'runs')}"
    yield f"{styled(history.rig, BOLD)}: {counted}{AGAINST if runs > 1 else ''}"
    groups: dict[tuple[str | None, str, str], list[StoredRate]] = {}
    for one in shown:
        groups.setdefault((one.kept.gpu_uuid, one.kept.title, one.kept.unit), []).append(one)
    for (uuid, title, _), group in groups.items():
        yield f"  {styled(f'{group[-1].kept.subject} {title}', BOLD)}  {group[-1].kept.gpu_name or ''} {uuid}"
        before: float | None = None
        for one in group:
            percent = 0.0 if before is None else (one.kept.rate / before - 1) * 100
            change = "" if before is None else f"{percent:+.1f} %"
            style = RED if percent <= -NOTABLE_PERCENT else GREEN if percent >= NOTABLE_PERCENT else ""
            before = one.kept.rate
            versions = f"driver {one.kept.driver or 'none'}, torch {one.kept.torch or 'unknown'}"
            when = one.measured_at[:16].replace("T", " ")
            short = f", {one.kept.shortened}" if one.kept.shortened else ""
            rate = f"{one.kept.rate:9.2f} {one.kept.unit} {styled(f'{change:>8}', style)}"
            yield f"    {one.number}  {when}  {rate}  {versions}{short}"
    yield from (f"  {problem}" for problem in history.problems)


def champions_listing(champions: Path, rig: str | None = None) -> Iterator[str]:
    """The champions of each rig in the folder `champions`, or of one. An unreadable file is named."""
    folders = sorted(path for path in champions.glob("*") if path.is_dir()) if champions.is_dir() else []
    for folder in folders:
        if rig not in (None, folder.name):
            continue
        try:
            yield from champion_lines(read_champions(folder), folder.name)
        except ChampionError as error:
            yield f"champions of {folder.name}: {error}"


def champion_lines(stored: StoredChampions, rig: str) -> Iterator[str]:
    """Each champion with its conditions and its run; nothing if there are none."""
    return (one_line(line, LINE) for line in _champion_lines(stored, rig))


def _champion_lines(stored: StoredChampions, rig: str) -> Iterator[str]:
    if stored.rig is None and not stored.gpus:
        return
    yield f"champions of {rig}"
    for combined in stored.rig.figures if stored.rig else ():
        assert stored.rig is not None
        yield _figure_line(combined, "", stored.rig.runs[combined.run_id])
        for subject, card in combined.cards.items():
            yield f"      {subject} {card.name} {card.uuid}{_at(card.power_limit_w)}"
    for gpu in stored.gpus.values():
        yield f"  {gpu.gpu_name} {gpu.gpu_uuid}"
        for one in gpu.figures:
            processes = "1 process" if one.workers == 1 else f"{one.workers} processes"
            work = ", ".join([_at(one.power_limit_w), *map(_label, one.labels.items()), processes])
            yield _figure_line(one, work, gpu.runs[one.run_id])


def _label(label: tuple[str, str | int]) -> str:
    """A label in words: `bf16`, but `size 8192`."""
    name, value = label
    return value if isinstance(value, str) else f"{name} {value}"


def _figure_line(one: GpuFigure | RigFigure, work: str, run: ChampionRun) -> str:
    return f"    {one.title}  {one.value:.2f} {one.unit}{work}  {run.level}, {run.folder}"


def _at(power_limit_w: float | None) -> str:
    return "" if power_limit_w is None else f" at {power_limit_w:.0f} W"
