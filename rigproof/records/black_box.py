"""The last words of a host: what its agent leaves on its own disk while a run goes on. Pure.

A file holds JSON lines: a `head`, then a `line` a second and one before each stage, each of them with all
that is known at that moment; an `end` where the run ended in an orderly way. Power may fail in the middle of
any of them, so a line that is none is passed over.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from pydantic import FiniteFloat, TypeAdapter
from pydantic_core import from_json

from rigproof.records.disk.clean import plain
from rigproof.records.measurements import Event
from rigproof.records.samples import GpuSample
from rigproof.records.telling import shortened

FINISHED = "finished"  # how a run ends by itself; else the name of the signal that ended it
CARDS_NAMED = 4  # whose watts are told one by one


@dataclass(frozen=True, slots=True)
class Head:
    """Whose last words these are. `machine` is /etc/machine-id, None where there is none."""

    run_id: str
    node: str  # as the profile calls it
    host: str
    machine: str | None
    boot_id: str


@dataclass(frozen=True, slots=True)
class CardWords:
    """What a GPU said last; None is "not read"."""

    power_w: FiniteFloat | None = None
    core_temperature_c: FiniteFloat | None = None
    sm_clock_mhz: FiniteFloat | None = None
    utilization_percent: FiniteFloat | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One moment. `stage` is the one that is about to begin or goes on, since run time `stage_s`."""

    t_s: FiniteFloat  # run time
    wall_s: FiniteFloat  # since 1970, by the host's own clock
    stage: str | None = None
    stage_s: FiniteFloat = 0.0
    steps: dict[str, str] = field(default_factory=dict)  # worker: what its latest round was
    gpus: dict[str, CardWords] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class End:
    """How the run ended on this host: FINISHED, or by which signal."""

    how: str


@dataclass(frozen=True, slots=True)
class Told:
    """A later run has told its reader of this one."""

    run_id: str


Entry = Head | Line | End | Told
_TYPES: dict[str, type] = {"head": Head, "line": Line, "end": End, "told": Told}
_TAGS = {kind: tag for tag, kind in _TYPES.items()}
_ADAPTERS: dict[str, TypeAdapter[Any]] = {}

# How a run that is not `finished` came to its end on a host.
Fate = Literal["finished", "restarted", "shut_down", "killed"]


@dataclass(frozen=True, slots=True)
class Box:
    """What is left of one agent's file."""

    head: Head
    last: Line | None = None
    end: str | None = None
    told: bool = False


def words_of(sample: GpuSample) -> CardWords:
    """What a sample has of them."""
    return CardWords(
        sample.power_w, sample.core_temperature_c, sample.sm_clock_mhz, sample.utilization_percent
    )


def text_of(entry: Entry) -> bytes:
    """An entry as its line."""
    content = {"type": _TAGS[type(entry)], **plain(asdict(entry))}
    return json.dumps(content, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def read_box(content: bytes) -> Box | None:
    """What a file says, as far as it is whole; None where it does not even say whose it is."""
    box = None
    for line in content.split(b"\n"):
        entry = _entry(line)
        match entry:
            case Head() if box is None:
                box = Box(entry)
            case Line() if box is not None:
                box = replace(box, last=entry)
            case End() if box is not None:
                box = replace(box, end=entry.how)
            case Told() if box is not None:
                box = replace(box, told=True)
    return box


def _entry(line: bytes) -> Entry | None:
    try:
        found = from_json(line, allow_inf_nan=False)
        tag: str = found.pop("type")
        if tag not in _ADAPTERS:
            _ADAPTERS[tag] = TypeAdapter(_TYPES[tag])
        entry: Entry = _ADAPTERS[tag].validate_python(found)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):  # torn, zeros, or somebody else's
        return None
    return entry


def together(boxes: Iterable[Box]) -> Box | None:
    """One box of those that the agents of one run on one host left: an agent may take another's place.

    The words are those of the latest, and so is a signal: an agent that was ended by one was replaced. The
    run has finished, or was told of, where one of them says so.
    """
    found = list(boxes)
    if not found:
        return None
    spoken = [box for box in found if box.last is not None]
    latest = max(spoken, key=lambda box: box.last.t_s if box.last else 0.0) if spoken else found[-1]
    end = FINISHED if any(box.end == FINISHED for box in found) else latest.end
    return replace(latest, end=end, told=any(box.told for box in found))


def fate(box: Box, boot_id: str, shut_down: bool | None) -> Fate:
    """How the run ended on a host whose boot id is now this one.

    `shut_down`: whether the system's own log has an orderly shutdown as the first thing after the last words;
    None where it says nothing.
    """
    if box.end == FINISHED:
        return "finished"
    if box.head.boot_id == boot_id:
        return "killed"
    return "shut_down" if shut_down or box.end is not None else "restarted"


def event_of(box: Box, found: Fate, kind: str, subject: str, *, t_s: float | None = None) -> Event:
    """A run's end as an event about this node, at run time `t_s`; by default that of the last words."""
    last_s = box.last.t_s if box.last is not None else 0.0
    data: dict[str, Any] = {"run_id": box.head.run_id, "restarted": found == "restarted"}
    if box.last is not None:
        data |= {"stage": box.last.stage, "last_s": last_s, "wall_s": box.last.wall_s}
        data["gpus"] = {name: asdict(words) for name, words in box.last.gpus.items()}
    return Event(last_s if t_s is None else t_s, kind, subject, sentence(box, found), data=data)


def sentence(box: Box, found: Fate) -> str:
    """`pc2 restarted 4 s into sustained, both cards at 100 %, last 348 + 231 W, 71 °C`."""
    name = shortened(box.head.node, 60)
    when = _when(box.last)
    if found == "restarted":
        return ", ".join([f"{name} restarted {when}", *_cards(box.last)])
    if found == "shut_down":
        return f"{name} was shut down in an orderly way after its last words {when}"
    how = f" by {shortened(box.end, 20)}" if box.end else ""
    return f"the run was ended from outside{how}, on {name} {when}; the host did not restart"


def _when(last: Line | None) -> str:
    if last is None:
        return "before any load"
    if last.stage is None:
        return f"outside of any stage, {last.t_s:.0f} s into the run"
    steps = sorted(set(last.steps.values()))
    doing = f" ({shortened(', '.join(steps), 60)})" if steps else ""
    return f"{max(0.0, last.t_s - last.stage_s):.0f} s into {shortened(last.stage, 40)}{doing}"


def _cards(last: Line | None) -> list[str]:
    """How busy, how many watts, and how hot the hottest was."""
    words = list(last.gpus.values()) if last is not None else []
    busy = [one.utilization_percent for one in words if one.utilization_percent is not None]
    watts = [one.power_w for one in words if one.power_w is not None]
    heat = [one.core_temperature_c for one in words if one.core_temperature_c is not None]
    told = []
    if busy:
        cards = {1: "its card", 2: "both cards"}.get(len(words), f"all {len(words)} cards")
        low, high = f"{min(busy):.0f}", f"{max(busy):.0f}"
        told.append(f"{cards} at {low if low == high else f'{low} to {high}'} %")
    if watts:
        shown = [f"{one:.0f}" for one in watts]
        told.append(f"last {' + '.join(shown) if len(shown) <= CARDS_NAMED else f'{sum(watts):.0f}'} W")
    if heat:
        told.append(f"{max(heat):.0f} °C")
    return told


def step_of(work: Iterable[tuple[str, str | int]]) -> str:
    """The labels that tell work apart, as one step of load: `bf16`, `fp16 sweep`, `bf16 processes=2`."""
    return " ".join(
        dict.fromkeys(value if isinstance(value, str) else f"{name}={value}" for name, value in work)
    )
