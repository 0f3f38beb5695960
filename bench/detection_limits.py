"""The least of each fault that a run notices: the smallest magnitude or length found in 19 of 20 seeds.

python3 bench/detection_limits.py --level quick --rig two-pcs --out reports/samples/bench/detection.json
python3 bench/detection_limits.py --page --out reports/samples/bench/detection.json

Simulated runs, each against the healthy run of the same seed. A rerun replaces the rows that it finds anew.
"""

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, get_args

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rigproof.judging.catalogue import FAULTS
from rigproof.judging.laps import judge_all
from rigproof.profiles.loading.load import load_rig, over_defaults
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.tables.levels import LevelName
from rigproof.records.recording import Recording
from rigproof.records.verdict import Decision, Outcome, Verdict, decide
from rigproof.run.simulated.trial import simulated_recording
from rigproof.simulation.faults.kinds import FaultKind
from rigproof.simulation.faults.parsing import FaultError
from rigproof.stages.registry import KINDS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "detection.md"
SEEDS = 20
ENOUGH = 19  # of SEEDS
Each = Callable[..., Iterable[Any]]  # as map
Task = tuple[LevelName, str, str, str]  # level, rig, fault, key
LOUD = (Outcome.FAIL, Outcome.WARN, Outcome.NOT_MEASURED)
LEVELS: tuple[LevelName, ...] = get_args(LevelName)[:3]  # a soak has the stages of extended, and more time

# From what is hardly there to what nobody overlooks.
SHARES = tuple(f"{one:g}%" for one in (0.5, 1, 2, 3, 5, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 95))
SECONDS = ("0.5", "0.75", "1", "1.5", "2", "3", "4", "5", "8", "10", "15", "20", "30", "45")
BEGINNINGS = ("98%", "95%", "92%", "90%", "85%", "80%", "75%", "70%", "60%", "50%", "30%", "0%")
MIB = tuple(str(2**one) for one in range(4, 18))
COUNTS = ("1", "2", "5", "10", "20", "50", "100", "1000", "10000")
DEGREES = tuple(map(str, range(60, 112)))
PERCENTS = ("95", "90", "80", "70", "60", "50", "40", "30", "20", "10")


def _of(figure: Callable[[LoadedRig], float], *, down: bool = True) -> Callable[[LoadedRig], Sequence[str]]:
    """Shares of a figure of the first card, from all of it down or up."""
    shares = (98, 95, 92, 90, 85, 80, 75, 70, 60, 50, 40, 30, 20, 10)
    return lambda rig: [f"{figure(rig) * (one if down else 200 - one) / 100:.0f}" for one in shares]


def _power_w(rig: LoadedRig) -> float:
    return rig.devices()[0].sku.power_limit_w  # type: ignore[union-attr]


def _clock_mhz(rig: LoadedRig) -> float:
    return rig.devices()[0].sku.boost_clock_mhz  # type: ignore[union-attr]


# Of faults whose `to` is a magnitude; of the others it says which link, code or state.
TO: Mapping[str, Callable[[LoadedRig], Sequence[str]]] = {
    "foreign-memory": lambda _: MIB,
    "stranger-takes-memory": lambda _: MIB,
    "memory-taken": lambda _: MIB,
    "gpu-half-used": lambda _: PERCENTS,
    "out-of-phase": lambda _: ("1", "2", "3", "5", "8", "10", "12", "15", "20", "30", "50"),
    "power-capped": _of(_power_w),
    "power-limit-off": _of(_power_w),
    "pcie-degraded": lambda _: ("4", "3", "2", "1"),
    "pcie-narrow": lambda _: ("8", "4", "2", "1"),
    "pcie-replays": lambda _: COUNTS,
    "nvlink-replays": lambda _: COUNTS,
    "overheat": lambda _: DEGREES,
    "heat-spike": lambda _: DEGREES,
    "early-heat": lambda _: DEGREES,
    "memory-overheat": lambda _: DEGREES,
    "hot-spot": lambda _: tuple(map(str, range(1, 12))),
    "hidden-throttle": lambda _: ("0.1", "0.2", "0.5", "1", "2", "5", "10"),
    "clock-stuck": _of(_clock_mhz),
    "clock-locked": _of(_clock_mhz),
    "cpu-starved": lambda _: PERCENTS,
    "sensor-impossible": _of(_power_w, down=False),
}


@dataclass(frozen=True, slots=True)
class Row:
    """What was found for one key of one fault. `least`: None where not even the strongest is noticed."""

    level: LevelName
    rig: str
    fault: str
    key: str
    least: str | None
    noticed: int  # of SEEDS runs with `least`
    weaker: str | None  # the strongest that is not noticed in ENOUGH
    criterion: str = ""  # which names it most often
    decision: str = ""  # most often
    refused: str = ""  # why the simulator refuses it on this rig

    @property
    def place(self) -> tuple[str, str, str, str]:
        """What it is about."""
        return (self.level, self.rig, self.fault, self.key)


@cache
def rig_of(name: str) -> LoadedRig:
    """The simulated rig: the seeds' two PCs, one card, or eight equal ones."""
    if name == "two-pcs":
        return load_rig("dual-3090-3070", KINDS)
    cards = {"unknown-card": ["rtx-3090"], "eight-equal": ["h200-sxm"] * 8}[name]
    node = {"name": "node", "cpus": 8 * len(cards), "gpus": [{"sku": sku} for sku in cards]}
    return over_defaults({"name": name, "nodes": [node]}, name, KINDS)


RIGS = ("two-pcs", "unknown-card", "eight-equal")


def judged(name: str, recording: Recording) -> list[Verdict]:
    """Its verdicts; the unknown card is an RTX 3090 that no SKU file knows."""
    if name != "unknown-card":
        return judge_all(recording)
    rig = LoadedRig.restore(recording.run.rig, KINDS)
    (node,), (device,) = rig.rig.nodes, rig.devices()
    assert device.sku is not None
    recording.workers = [replace(one, sms=device.sku.sms) for one in recording.workers]  # as torch tells them
    recording.gpus[device.subject] = replace(recording.gpus[device.subject], sku=None)
    gpu = device.gpu.model_copy(update={"sku": "unknown", "memory_gib": device.sku.memory_gib})
    nodes = (node.model_copy(update={"gpus": (gpu,)}),)
    return judge_all(recording, replace(rig, rig=rig.rig.model_copy(update={"nodes": nodes}), skus={}))


def verdicts_of(name: str, level: LevelName, seed: int, *faults: str) -> list[Verdict]:
    """Those of one run."""
    return judged(name, simulated_recording(rig_of(name), level, faults, seed=seed))


@dataclass(frozen=True, slots=True)
class Run:
    """One simulated run, with a fault as typed after `--hw-inject`, or "" for the healthy one."""

    level: LevelName
    rig: str
    seed: int
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """What a run complains of and how it ends; or why the simulator refuses its fault."""

    loud: frozenset[tuple[str, str, Outcome]] = frozenset()
    decision: Decision = Decision.ACCEPTED
    refused: str = ""


def ended(run: Run) -> Ended:
    """Run and judge it."""
    try:
        verdicts = verdicts_of(run.rig, run.level, run.seed, *([run.fault] if run.fault else []))
    except FaultError as error:
        return Ended(refused=str(error).removeprefix("--hw-inject "))
    loud = ((one.criterion, one.subject, one.outcome) for one in verdicts if one.outcome in LOUD)
    return Ended(frozenset(loud), decide(verdicts))


def healthy(level: LevelName, rig: str, each: Each = map) -> list[Ended]:
    """How the healthy run of each seed ends."""
    return list(each(ended, [Run(level, rig, seed) for seed in range(SEEDS)]))


def ladders(kind: FaultKind, rig: LoadedRig) -> Iterator[tuple[str, Sequence[str]]]:
    """For each key that is a magnitude or a length its values, as typed, from weak to strong."""
    home = kind.home({stage.name: stage.duty for stage in KINDS})
    if kind.soak:  # no level of LEVELS looks for it
        return
    if "by" in kind.keys:
        yield "by", [f"by={one}" for one in SHARES]
    if "to" in kind.keys and kind.name in TO:
        yield "to", [f"to={one}" for one in TO[kind.name](rig)]
    if "for" in kind.keys:
        yield "for", [f"stage={home},after=30%,for={one}" for one in SECONDS]
    if "after" in kind.keys:
        yield "after", [f"stage={home},after={one}" for one in BEGINNINGS]


def least_of(task: Task, quiet: Sequence[Ended], each: Each = map) -> Row:
    """The least value of this key that is noticed, against the healthy run of each seed; `each` maps."""
    level, name, fault, key = task
    values, trips = dict(ladders(FAULTS[fault], rig_of(name)))[key], FAULTS[fault].trips

    def noticed(value: str, seeds: Sequence[int]) -> list[tuple[Counter[str], Decision]]:
        """Of each run that complains of something new: the criteria, and the decision."""
        found = []
        ends = each(ended, [Run(level, name, seed, f"{fault}:{value}") for seed in seeds])
        for seed, end in zip(seeds, ends, strict=True):
            if new := end.loud - quiet[seed].loud:
                own = {one for one in new if one[0] in trips}
                found.append((Counter(one[0] for one in own or new), end.decision))
        return found

    low, high = 0, len(values) - 1  # bisect by the first seed: is values[high] noticed at all?
    (strongest,) = each(ended, [Run(level, name, 0, f"{fault}:{values[high]}")])
    if not strongest.loud - quiet[0].loud:
        weaker = None if strongest.refused else values[high]
        return Row(level, name, fault, key, None, 0, weaker, refused=strongest.refused)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if noticed(values[middle], [0]) else (middle + 1, high)
    for place in range(max(0, low - 1), len(values)):
        seen: list[tuple[Counter[str], Decision]] = []
        for seeds in (range(4), range(4, SEEDS)):  # few first: most values that are too weak show there
            seen += noticed(values[place], seeds)
            if seeds.stop - len(seen) > SEEDS - ENOUGH:
                break
        else:
            named = sum((one for one, _ in seen), Counter[str]())
            return Row(
                *task,
                values[place],
                len(seen),
                values[place - 1] if place else None,
                max(named, key=lambda one: (named[one], one in trips and trips.index(one), one)),
                Counter(one for _, one in seen).most_common(1)[0][0],
            )
    return Row(*task, None, 0, values[-1])


def tasks(levels: Sequence[LevelName], rigs: Sequence[str], faults: Iterable[str]) -> list[Task]:
    """Each key of each of these faults, at each level, on each rig."""
    return [
        (level, name, fault, key)
        for level in levels
        for name in rigs
        for fault in faults
        for key, _ in ladders(FAULTS[fault], rig_of(name))
    ]


def _arguments() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--level", action="append", choices=LEVELS)
    options.add_argument("--rig", action="append", choices=RIGS)
    options.add_argument("--fault", action="append", choices=FAULTS, metavar="FAULT", help="not all of them")
    options.add_argument("--missing", action="store_true", help="only what --out does not hold yet")
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options.add_argument(
        "--page", action="store_true", help="only write docs/detection.md from what --out holds"
    )
    options.add_argument("--out", type=Path, required=True)
    return options.parse_args()


def main() -> int:
    """Find them, and write what was found after each: a run of hours may be stopped."""
    args = _arguments()
    rows = {row.place: row for row in rows_of(args.out)} if args.out.exists() else {}
    if args.page:
        PAGE.write_text(page(list(rows.values())), encoding="utf-8")
        return 0
    begun_s = time.monotonic()
    levels, rigs = args.level or LEVELS, args.rig or RIGS
    wanted = [one for one in tasks(levels, rigs, args.fault or FAULTS) if not (args.missing and one in rows)]
    # Threads wait for processes: each search has several runs at once, and the last one does not work alone.
    with ProcessPoolExecutor(args.jobs) as pool, ThreadPoolExecutor(2 * args.jobs) as searches:
        quiet = {place: healthy(*place, pool.map) for place in dict.fromkeys(one[:2] for one in wanted)}
        found = [searches.submit(least_of, one, quiet[one[:2]], pool.map) for one in wanted]
        for number, done in enumerate(as_completed(found), 1):
            row = done.result()
            rows[row.place] = row
            _write(args.out, rows.values())
            print(
                f"{time.monotonic() - begun_s:5.0f} s {number}/{len(wanted)}",
                *row.place,
                row.least,
                flush=True,
            )
    return 0


def rows_of(file: Path) -> list[Row]:
    """What was found before."""
    return [Row(**one) for one in json.loads(file.read_text(encoding="utf-8"))["rows"]]


def _write(file: Path, rows: Iterable[Row]) -> None:
    order = {fault: number for number, fault in enumerate(FAULTS)}
    known = sorted(
        (row for row in rows if row.fault in order),
        key=lambda row: (LEVELS.index(row.level), RIGS.index(row.rig), order[row.fault], row.key),
    )
    document = {"seeds": SEEDS, "enough": ENOUGH, "rows": [asdict(row) for row in known]}
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(file)


# The page


INTRODUCTION = """\
# Detection limits

What ACCEPTED does not prove: level `quick` has no stage that would show {no_stage}. One card of a model that
nobody measured has no twin and no past: {alone} does not show on it, and neither does a loss that was there
before its first run and leaves it above what its architecture must reach at least; its champion shows only
what is lost later. What only two of a larger team do with each other, where no ring of all passes them
(`pair-slow`), is looked for by a soak alone ([what only one pair does](blame.md#what-only-one-pair-does)).
{missed} Limits of real cards also depend on their own noise.

Written by `python3 bench/detection_limits.py --page --out reports/samples/bench/detection.json`. Do not edit
it by hand.

An instrument states the least that it can see. This page does so for each simulated [fault](faults.md) that
has a magnitude (`by=`, `to=`) or a length (`for=`), or that can begin late in its stage (`after=`): the
smallest of several values that gave a failure, a warning or a criterion that was not measured in at least
{enough} of {seeds} runs with different noise, each compared with the healthy run of the same noise. The value
can be typed after `--inject FAULT:`.

`for=` and `after=` are found with the fault's default magnitude. `for=` counts from 30 % of the fault's own
stage; `after=` is the latest beginning that shows by that stage's end. A letter says how such a run ends: R
rejected, I incomplete, W accepted with a warning. "–": not even the strongest value is noticed. "refused":
`--inject` refuses the fault on this rig. An empty cell: the level does not have the stage.
"not looked for": nobody has run it yet, so nothing is known. The criterion
named is that in which the fault shows most often.

A length that is too short for a fault to act reliably is refused, and the next one tried is listed. 3 s of
`telemetry-gap`: 2 s are no finding, since a busy host may give no readings for so long. 3 s of
`power-over-limit`: the driver's average, which some cards exceed for a second, is judged over 2.5 s. 11 s of
`sensor-frozen`: a sound sensor of whole watts or degrees may stand still for some seconds.

Why not less: sound cards of a model differ by 3 %, so that a card is held against its twins with a margin
(`limits.peer_share`), and 8 % show. Without a twin there is only the floor of its model, which sound cards of
every maker reach (`limits.floor_printed_share` where the rate is printed and not measured): there memory
shows at 15 % and a link at 25 %. The other margins stand, with their sources, in hwprofiles/defaults.toml.
"""
RIG_TITLES = {
    "two-pcs": "Two unlike PCs: RTX 3090 and RTX 3070",
    "unknown-card": "One card of a model that nobody measured, without a champion",
    "eight-equal": "Eight equal cards in one node",
}
NO_STAGE = "the level has no"  # of the simulator's refusals
NO_TWIN = "no other GPU"
ENDS = {Decision.REJECTED: "R", Decision.INCOMPLETE: "I", Decision.ACCEPTED: "W"}


def page(rows: Sequence[Row]) -> str:
    """The whole page."""
    found = {row.place: row for row in rows}
    parts = [INTRODUCTION.format(**_blind(rows), enough=ENOUGH, seeds=SEEDS)]
    for rig in RIGS:
        levels = [level for level in LEVELS if any((row.level, row.rig) == (level, rig) for row in rows)]
        if not levels:
            continue
        parts.append(
            f"\n## {RIG_TITLES[rig]}\n\n| Fault | {' | '.join(levels)} |\n|---|{'---|' * len(levels)}"
        )
        for fault, kind in FAULTS.items():
            for key, _ in ladders(kind, rig_of(rig)):
                cells = [_cell(found.get((level, rig, fault, key))) for level in levels]
                parts.append(f"| `{fault}` `{key}=` | {' | '.join(cells)} |")
    return "\n".join(parts) + "\n"


def _blind(rows: Sequence[Row]) -> dict[str, str]:
    """The blind spots: what quick has no stage for, what needs a twin, and what never shows."""
    quick = [row for row in rows if row.level == LEVELS[0]]
    without = {(row.fault, row.rig) for row in quick if NO_STAGE in row.refused}  # the level's, or the rig's
    no_stage = [one for one in FAULTS if all((one, rig) in without for rig in RIGS)]
    alone = dict.fromkeys(row.fault for row in quick if NO_TWIN in row.refused and row.rig == "unknown-card")
    missed = []
    for rig, level in ((rig, level) for rig in RIGS for level in LEVELS):
        here = [row for row in rows if (row.level, row.rig) == (level, rig)]
        never = [f"`{row.fault}:{row.key}=`" for row in here if row.least is None and not row.refused]
        if never:
            missed.append(f"{RIG_TITLES[rig]}, level `{level}`: {', '.join(never)}.")
    return {
        "no_stage": ", ".join(f"`{one}`" for one in no_stage),
        "alone": ", ".join(f"`{one}`" for one in alone),
        "missed": f"Never noticed, however strong or long. {' '.join(missed)}" if missed else "",
    }


def _cell(row: Row | None) -> str:
    if row is None:
        return "not looked for"
    if row.refused:
        return "" if NO_STAGE in row.refused else "refused"
    if row.least is None:
        return "–"
    value = row.least.rpartition("=")[2]
    return f"{value} {ENDS[Decision(row.decision)]} `{row.criterion}`"


if __name__ == "__main__":
    raise SystemExit(main())
