"""A host's black box: what its agent writes to the host's own disk during a run. Pure.

A file holds JSON lines: a `head`, then one `line` per second and one before each stage, each with everything
known at that moment, and an `end` if the run ended in an orderly way. Power may fail in the middle of any of
them, so an invalid line is skipped.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from pydantic import FiniteFloat, TypeAdapter
from pydantic_core import from_json

from rigproof.records.disk.clean import plain
from rigproof.records.measurements import Event
from rigproof.records.message_text import one_line
from rigproof.records.samples import GpuSample

FINISHED = "finished"  # the `end` of a run that ended by itself; otherwise the signal's name
CARDS_NAMED = 4  # up to this many cards, each one's power is listed


@dataclass(frozen=True, slots=True)
class Head:
    """The run and host of a file. `machine` is /etc/machine-id, None if there is none."""

    run_id: str
    node: str  # as the profile calls it
    host: str
    machine: str | None
    boot_id: str


@dataclass(frozen=True, slots=True)
class CardWords:
    """A GPU's last readings; None means not read."""

    power_w: FiniteFloat | None = None
    core_temperature_c: FiniteFloat | None = None
    sm_clock_mhz: FiniteFloat | None = None
    utilization_percent: FiniteFloat | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """The host at one moment. `stage`: the one in progress or about to begin, since run time `stage_s`."""

    t_s: FiniteFloat  # run time
    wall_s: FiniteFloat  # since 1970, by the host's own clock
    stage: str | None = None
    stage_s: FiniteFloat = 0.0
    steps: dict[str, str] = field(default_factory=dict)  # by worker: the work of its latest round
    gpus: dict[str, CardWords] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class End:
    """How the run ended on this host: FINISHED, or the signal's name."""

    how: str


@dataclass(frozen=True, slots=True)
class Reported:
    """A later run (`run_id`) has reported how this one ended."""

    run_id: str


Entry = Head | Moment | End | Reported
_TYPES: dict[str, type] = {"head": Head, "line": Moment, "end": End, "reported": Reported}
_TAGS = {kind: tag for tag, kind in _TYPES.items()}
_ADAPTERS: dict[str, TypeAdapter[Any]] = {}

# How a run ended on a host.
Fate = Literal["finished", "restarted", "shut_down", "killed"]


@dataclass(frozen=True, slots=True)
class Box:
    """The readable content of one agent's file."""

    head: Head
    last: Moment | None = None
    end: str | None = None
    reported: bool = False  # by a later run


def words_of(sample: GpuSample) -> CardWords:
    """The readings that a black box keeps of a sample."""
    return CardWords(
        sample.power_w, sample.core_temperature_c, sample.sm_clock_mhz, sample.utilization_percent
    )


def text_of(entry: Entry) -> bytes:
    """The line of an entry in the file."""
    content = {"type": _TAGS[type(entry)], **plain(asdict(entry))}
    return json.dumps(content, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def read_box(content: bytes) -> Box | None:
    """The content of a file, as far as it is intact; None without a readable head."""
    box = None
    for line in content.split(b"\n"):
        entry = _entry(line)
        match entry:
            case Head() if box is None:
                box = Box(entry)
            case Moment() if box is not None:
                box = replace(box, last=entry)
            case End() if box is not None:
                box = replace(box, end=entry.how)
            case Reported() if box is not None:
                box = replace(box, reported=True)
    return box


def _entry(line: bytes) -> Entry | None:
    try:
        found = from_json(line, allow_inf_nan=False)
        tag: str = found.pop("type")
        if tag not in _ADAPTERS:
            _ADAPTERS[tag] = TypeAdapter(_TYPES[tag])
        entry: Entry = _ADAPTERS[tag].validate_python(found)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):  # torn, zeros, or not ours
        return None
    return entry


def together(boxes: Iterable[Box]) -> Box | None:
    """The boxes of one run's agents on one host as one box: an agent may have been replaced during the run.

    The last line is the latest of all, and only that box's signal counts: an earlier agent ended by one was
    replaced. The run finished, or was reported, if any box says so.
    """
    parts = list(boxes)
    if not parts:
        return None
    with_lines = [box for box in parts if box.last is not None]
    latest = max(with_lines, key=lambda box: box.last.t_s if box.last else 0.0) if with_lines else parts[-1]
    end = FINISHED if any(box.end == FINISHED for box in parts) else latest.end
    return replace(latest, end=end, reported=any(box.reported for box in parts))


def fate(box: Box, boot_id: str, shut_down: bool | None) -> Fate:
    """How the run ended on a host that now has this boot id.

    `shut_down`: whether the first entry of the system's log after the box's last line is an orderly shutdown;
    None if the log does not say.
    """
    if box.end == FINISHED:
        return "finished"
    if box.head.boot_id == boot_id:
        return "killed"
    return "shut_down" if shut_down or box.end is not None else "restarted"


def event_of(box: Box, ended: Fate, kind: str, subject: str, *, t_s: float | None = None) -> Event:
    """A run's end as an event about this node, at run time `t_s`; by default that of the last line."""
    last_s = box.last.t_s if box.last is not None else 0.0
    data: dict[str, Any] = {"run_id": box.head.run_id, "restarted": ended == "restarted"}
    if box.last is not None:
        data |= {"stage": box.last.stage, "last_s": last_s, "wall_s": box.last.wall_s}
        data["gpus"] = {name: asdict(words) for name, words in box.last.gpus.items()}
    return Event(last_s if t_s is None else t_s, kind, subject, sentence(box, ended), data=data)


def sentence(box: Box, ended: Fate) -> str:
    """`pc2 restarted 4 s into sustained, both cards at 100 %, last 348 + 231 W, 71 °C`."""
    name = one_line(box.head.node, 60)
    when = _when(box.last)
    if ended == "restarted":
        return ", ".join([f"{name} restarted {when}", *_cards(box.last)])
    if ended == "shut_down":
        return f"{name} was shut down in an orderly way after its last words {when}"
    how = f" by {one_line(box.end, 20)}" if box.end else ""
    return f"the run was ended from outside{how}, on {name} {when}; the host did not restart"


def _when(last: Moment | None) -> str:
    if last is None:
        return "before any load"
    if last.stage is None:
        return f"outside any stage, {last.t_s:.0f} s into the run"
    steps = sorted(set(last.steps.values()))
    doing = f" ({one_line(', '.join(steps), 60)})" if steps else ""
    return f"{max(0.0, last.t_s - last.stage_s):.0f} s into {one_line(last.stage, 40)}{doing}"


def _cards(last: Moment | None) -> list[str]:
    """The cards' utilization and power, and the temperature of the hottest."""
    cards = list(last.gpus.values()) if last is not None else []
    busy = [card.utilization_percent for card in cards if card.utilization_percent is not None]
    watts = [card.power_w for card in cards if card.power_w is not None]
    temperatures = [card.core_temperature_c for card in cards if card.core_temperature_c is not None]
    parts = []
    if busy:
        which = {1: "its card", 2: "both cards"}.get(len(cards), f"all {len(cards)} cards")
        low, high = f"{min(busy):.0f}", f"{max(busy):.0f}"
        parts.append(f"{which} at {low if low == high else f'{low} to {high}'} %")
    if watts:
        shown = [f"{power_w:.0f}" for power_w in watts]
        parts.append(f"last {' + '.join(shown) if len(shown) <= CARDS_NAMED else f'{sum(watts):.0f}'} W")
    if temperatures:
        parts.append(f"{max(temperatures):.0f} °C")
    return parts


def step_of(work: Iterable[tuple[str, str | int]]) -> str:
    """The labels that distinguish work, as one step of load: `bf16`, `fp16 sweep`, `bf16 processes=2`."""
    return " ".join(
        dict.fromkeys(value if isinstance(value, str) else f"{name}={value}" for name, value in work)
    )
