"""Reads a rig's history back, oldest first, and shows it and the rig's champions: `rigproof history`."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rigproof.history.champions import (
    ChampionError,
    ChampionRun,
    GpuFigure,
    KeptChampions,
    RigFigure,
    read_champions,
)

FILE_BYTES_MAX = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Kept:
    """One stored measurement. `rate_tflops` is the device's work over its time, in TFLOP/s."""

    file: str
    run_id: str
    measured_at: str  # UTC, ISO 8601
    criterion: str
    subject: str
    gpu_uuid: str
    gpu_name: str
    rate_tflops: float
    rounds: int
    driver: str | None
    torch: str | None


@dataclass(frozen=True, slots=True)
class History:
    """A rig's measurements in the order of their files; `problems` name the files that could not be read."""

    rig: str
    kept: tuple[Kept, ...]
    problems: tuple[str, ...]


def read_history(folder: Path) -> History:
    """Everything in a rig's folder. A damaged or foreign file is left out and named, never an exception."""
    kept: list[Kept] = []
    problems: list[str] = []
    for path in sorted(folder.glob("*.json")):
        try:
            if path.stat().st_size > FILE_BYTES_MAX:
                raise ValueError(f"is larger than {FILE_BYTES_MAX} bytes")
            kept += _kept_in(path)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            said = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
            problems.append(f"{path}: left out: {said}; move it out of this folder")
    return History(folder.name, tuple(kept), tuple(problems))


def _kept_in(path: Path) -> list[Kept]:
    content = json.loads(path.read_text(encoding="utf-8"))
    return [_kept(path.name, content, one) for one in content["benchmarks"]]


def _kept(file: str, content: dict[str, Any], benchmark: dict[str, Any]) -> Kept:
    extra = benchmark["extra_info"]
    rate = float(benchmark["stats"]["ops"])
    if not (math.isfinite(rate) and rate > 0):
        raise ValueError(f"ops = {rate} is no rate")
    return Kept(
        file=file,
        run_id=str(extra.get("run_id") or Path(file).stem.partition("_")[2]),
        measured_at=str(content["datetime"]),
        criterion=str(extra["criterion"]),
        subject=str(extra["subject"]),
        gpu_uuid=str(extra["gpu_uuid"]),
        gpu_name=str(extra.get("gpu_name") or ""),
        rate_tflops=rate,
        rounds=int(benchmark["stats"]["rounds"]),
        driver=extra.get("driver"),
        torch=extra.get("torch"),
    )


def listing_lines(history: Path, rig: str | None = None) -> Iterator[str]:
    """What `rigproof history` prints: for each rig, card and criterion its rates, oldest first.

    `history` is the folder that holds one folder for each rig. Cards are told apart by their UUID, so a
    card that moved to another slot or node keeps its history.
    """
    folders = sorted(path for path in history.glob("*") if path.is_dir()) if history.is_dir() else []
    chosen = [path for path in folders if rig is None or path.name == rig]
    if not chosen:
        known = ", ".join(path.name for path in folders)
        what = f"{rig}: no such rig" if rig else "nothing is kept yet"
        yield f"{history}: {what}; " + (f"there are: {known}" if known else "an accepted run keeps its rates")
    for folder in chosen:
        yield from _rig_lines(read_history(folder))


def _rig_lines(history: History) -> Iterator[str]:
    runs = len({one.file for one in history.kept})
    yield f"{history.rig}: {len(history.kept)} measurements of {runs} runs"
    groups: dict[tuple[str, str], list[Kept]] = {}
    for one in history.kept:
        groups.setdefault((one.gpu_uuid, one.criterion), []).append(one)
    for (uuid, criterion), group in groups.items():
        yield f"  {group[-1].subject} {criterion}  {group[-1].gpu_name} {uuid}"
        before: float | None = None
        for one in group:
            change = "" if before is None else f"{(one.rate_tflops / before - 1) * 100:+.1f} %"
            before = one.rate_tflops
            versions = f"driver {one.driver or 'none'}, torch {one.torch or 'unknown'}"
            when = one.measured_at[:16].replace("T", " ")
            yield f"    {when}  {one.rate_tflops:9.2f} TFLOP/s {change:>8}  {versions}"
    yield from (f"  {problem}" for problem in history.problems)


def champions_listing(champions: Path, rig: str | None = None) -> Iterator[str]:
    """The champions of each rig in the folder `champions`, or of one. A file that cannot be read is named."""
    folders = sorted(path for path in champions.glob("*") if path.is_dir()) if champions.is_dir() else []
    for folder in folders:
        if rig not in (None, folder.name):
            continue
        try:
            yield from champion_lines(read_champions(folder), folder.name)
        except ChampionError as error:
            yield f"champions of {folder.name}: {error}"


def champion_lines(kept: KeptChampions, rig: str) -> Iterator[str]:
    """Each figure with its conditions and the run that it comes from; nothing where nothing is kept."""
    if kept.rig is None and not kept.gpus:
        return
    yield f"champions of {rig}"
    for combined in kept.rig.figures if kept.rig else ():
        assert kept.rig is not None
        yield _figure_line(combined, "", kept.rig.runs[combined.run_id])
        for subject, card in combined.cards.items():
            yield f"      {subject} {card.name} {card.uuid}{_at(card.power_limit_w)}"
    for gpu in kept.gpus.values():
        yield f"  {gpu.gpu_name} {gpu.gpu_uuid}"
        for one in gpu.figures:
            processes = "1 process" if one.workers == 1 else f"{one.workers} processes"
            work = f"{_at(one.power_limit_w)}, {one.precision}, size {one.size}, {processes}"
            yield _figure_line(one, work, gpu.runs[one.run_id])


def _figure_line(one: GpuFigure | RigFigure, work: str, run: ChampionRun) -> str:
    return f"    {one.criterion}  {one.value:.2f} {one.unit}{work}  {run.level}, {run.folder}"


def _at(power_limit_w: float | None) -> str:
    return "" if power_limit_w is None else f" at {power_limit_w:.0f} W"
