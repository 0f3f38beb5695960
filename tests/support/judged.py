"""How much of each stage is judged, and why the rest is not: docs/judged.md.

`support.generated` writes it down; a test keeps it current.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from rigproof.criteria.criterion import NotMeasured
from rigproof.criteria.evidence.devices import DeviceEvidence
from rigproof.criteria.evidence.evidence import Evidence
from rigproof.criteria.evidence.loads import BOOST_S, load_of
from rigproof.criteria.evidence.rounds import JOINING_S
from rigproof.profiles.kinds.stages import DUTIES
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.records.disk.store import read_recording
from rigproof.records.recording import Recording
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.registry import KINDS

RIG, LEVELS = "dual-3090-3070", ("standard", "extended")
SAMPLES = ("h200-x2-standard", "h100-extended")
CHECKOUT = Path(__file__).parents[2]
FOLDER, PATH = CHECKOUT / "reports" / "samples", CHECKOUT / "docs" / "judged.md"
INTRODUCTION = f"""\
# What is judged of each stage

Written by `PYTHONPATH=.:tests python -m support.generated`; a test keeps it current. Do not edit it by
hand.

The card's temperatures (`thermal.core_temperature`, `thermal.memory_temperature`) are judged in the whole
run, and `thermal.throttle` in every stage from its beginning to its end, also while the card rests (transfer,
peer, ram, disk). The work of a continuous load (`activity.gpu_active`) is judged in all seconds of its
window.

`clock.ratio`, `power.draw`, `transfer.link` and the power of `activity.gpu_active` are judged where the card
works, warm-up included. Of the time under load of each stage, of the card with the least, this is judged, and
the rest is not, for these reasons:

- *begins*: the first {BOOST_S:g} s of a stage, until the clock has come down to the power cap, and the first
  second of warm-up after a break, until the sensors have followed: the link is read once a second, and some
  power sensors are means of one.
- *no work*: the card has nothing to do: a model is made, a process starts, or a pattern has to stay in
  memory for a while (bit-fade). Its clock and its link may go down then. A fed card's waiting is judged.
- *short*: work of less than a second at a time, which is over before the sensors follow.

The transient stage switches all cards of a host on and off together: what that does to them is judged by
`power.transient` for all of them, and no steady clock or power is expected there. Nor is the link judged: a
card that rests half of the time may let it go down, and no data is sent over it. `transfer.link` judges it in
the stages before; what a link under switching load lacks shows as replays, which warn.
"""
RATES = """\
## What each rate is held against

Within a stage every rate is held against its own best quarter, and the slowest fifth of its rounds against
the fastest (`throughput.stability`); no card may pause in a measurement (`activity.gpu_active`); and a card
is held against cards of its model (`throughput.peer_outlier` and the criteria of the stage). A lone card
whose rate is low from the beginning of a stage to its end is held against:

| Stage | The card's own | At least |
|---|---|---|
| gemm, sustained, bandwidth | champion; else its model's figure or architecture | see their criteria |
| training | champion; else its model's figure, products; its other steps | see `training.step` |
| sharing | products of one process | see `scaling.sharing` |
| transfer | floor of its link; later, in company, its rate alone | see `transfer.h2d` |
| peer, each two | floor of what connects them; other pairs, connected alike | see `transfer.peer` |
| transient | sustained rate, slower waves, its median burst | see `power.transient` |
__OWN__

A soak also holds the sustained rate of each lap against that of the best one
(`stages.sustained.stability_drop_share`): a lone card that loses 7 % from the second lap on fails, and 4 % do
not show. What it lost before the first lap, its laps do not show.

The fastest work of the stage counts, and of the patterns each operation. A lone card cannot show that one
size or batch is slow by itself, nor less than the figures leave room for. There is no such reference:

- for pattern at level quick, which has no bandwidth stage, and where torch's operations take the place of
  Triton's kernels, since they are several times slower;
- for feeding where there is no bandwidth stage, and for replay where the training stage did not do its batch;
- for the passes of bit-fade after its pauses: 30 ms on a card that wakes from idle are no rate;
- for ram and disk of a lone host, whose models are not known.

So a lone H100 or H200 shows a loss of a quarter in an operation of the patterns, a third in replay and
feeding, and two fifths in shapes. Of a model without a figure only the loss of two thirds of a training
step shows. Less shows beside a peer or by a champion. These limits are not tighter since no card with
another kind of memory, or a small one, has been measured. A pause shows between rounds of one work, not in
a warm-up or between two works.

Two cards of a host that lose the same share of their links in company may share lanes of a switch: that is
reported (`stages.transfer.together_share` judges it where each has lanes of its own). A direction of 0.15 s
that is slow in company warns, two fail: a busy moment of the host slows one.
"""
SIMULATED = f"""\
## On a simulated rig

`{RIG}`, healthy:
"""
MEASURED = """\
## On GPUs

The kept recordings of reports/samples:
"""
Span = tuple[float, float]


class Share(NamedTuple):
    """Of the time under load of a stage: how long that is, and the shares of it, which make 1 together."""

    stage: str
    seconds: float
    judged: float
    begins: float
    idle: float
    short: float


def shares(recording: Recording) -> list[Share]:
    """Of each stage in which cards work, that of the card with the least judged share."""
    evidence = Evidence(recording, LoadedRig.restore(recording.run.rig, KINDS))
    cards = [one for one in evidence.devices if not one.is_cpu]
    stages = [one for one in evidence.stages_with(*DUTIES) if one in recording.stages]
    return [min((_share(one, stage) for one in cards), key=lambda one: one.judged) for stage in stages]


def _share(device: DeviceEvidence, stage: str) -> Share:
    window = device.evidence.loaded_window(stage)
    try:
        load = load_of(device, stage)
    except NotMeasured:
        return Share(stage, window.length_s, 0.0, 0.0, 0.0, 1.0)
    judged = [(one.from_s, one.to_s) for one in load.stretches]
    rounds = device.rounds(stage)
    spans = zip(rounds.begins_s.tolist(), rounds.t_s.tolist(), strict=True)
    loads = judged if load.duty == "fed" else list(_joined(spans))
    begun_s = float(rounds.begins_s.min())
    begins_s = short_s = idle_s = 0.0
    for from_s, to_s in loads:
        own_s = sum(_overlap(one, (from_s, to_s)) for one in judged)
        left_s = _overlap((from_s, to_s), window[:2]) - sum(
            _overlap(one, (max(from_s, window.from_s), min(to_s, window.to_s))) for one in judged
        )
        early_s = left_s if own_s else min(left_s, _overlap((from_s, to_s), (begun_s, begun_s + BOOST_S)))
        begins_s, short_s = begins_s + early_s, short_s + left_s - early_s
    whole_s = window.length_s
    judged_s = sum(_overlap(one, window[:2]) for one in judged)
    if load.duty == "fed":  # from its first round on it counts, waiting included
        begins_s = whole_s - judged_s
    idle_s = max(0.0, whole_s - judged_s - begins_s - short_s)
    return Share(stage, whole_s, *(one / whole_s for one in (judged_s, begins_s, idle_s, short_s)))


def _overlap(one: Span, other: Span) -> float:
    return max(0.0, min(one[1], other[1]) - max(one[0], other[0]))


def _joined(spans: Iterable[Span]) -> Iterator[Span]:
    """Those with breaks of at most JOINING_S as one."""
    begin = end = None
    for from_s, to_s in sorted(spans):
        if begin is None or end is None:
            begin, end = from_s, to_s
        elif from_s > end + JOINING_S:
            yield begin, end
            begin, end = from_s, to_s
        else:
            end = max(end, to_s)
    if begin is not None and end is not None:
        yield begin, end


@cache
def simulated(level: str) -> list[Share]:
    """On the healthy simulated rig."""
    return shares(simulated_recording(load_rig(RIG, KINDS), level))  # type: ignore[arg-type]


def markdown() -> str:
    """The whole page."""
    found = [INTRODUCTION, RATES.replace("__OWN__", "\n".join(_held_against())), SIMULATED]
    found += [_table(f"Level {level}", simulated(level)) for level in LEVELS]
    found.append(MEASURED)
    found += [_table(name, shares(read_recording(FOLDER / name))) for name in SAMPLES]
    return "\n".join(found).rstrip() + "\n"


def _held_against() -> Iterator[str]:
    """The rows of the stages without a figure of their own."""
    stages = load_rig(RIG, KINDS).rig.stages
    for kind in KINDS:
        if kind.held_against is not None:
            share = getattr(stages, kind.name).own_share
            yield f"| {kind.name} | {kind.held_against.words} | {share:g} of what follows from them |"


def _table(title: str, rows: Iterable[Share]) -> str:
    lines = [f"| {title} | Under load | Judged | Begins | No work | Short |", "|---|---|---|---|---|---|"]
    for row in rows:
        each = (f"{100 * one:.0f} %" for one in (row.judged, row.begins, row.idle, row.short))
        lines.append(f"| {row.stage} | {row.seconds:.0f} s | {' | '.join(each)} |")
    return "\n".join([*lines, ""])
