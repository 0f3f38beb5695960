"""How much of a level's length was done: an accepted run of 6 s is not a soak, however it was shortened."""

from dataclasses import dataclass
from math import isfinite
from typing import Any

from rigproof.profiles.kinds.stages import Duty, StageFacts
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.subjects import number_of_turns
from rigproof.profiles.tables.levels import LEVELS, Levels
from rigproof.records.measurements import Stage
from rigproof.records.recording import Recording

RUN_OF = {
    "quick": "a quick run",
    "standard": "a standard run",
    "extended": "an extended run",
    "soak": "a soak",
}


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A stage that was shorter than its level promises; `done_s` is 0 if none of it counts."""

    stage: str
    done_s: float
    length_s: float  # the level's own
    duty: Duty


def shortfalls(recording: Recording, own: LoadedRig) -> tuple[Shortfall, ...]:
    """The stages of fixed length that did less than `levels.least_share` of the level's own length.

    By the recorded load, not by the plan: of a continuous load in all laps together, else in the shortest.
    `own` has the levels' own lengths (`default_rig`); a stage added after the run does not count as missing.
    """
    level, levels = recording.run.level, own.rig.levels
    known = recording.run.rig.get("stages", own.stages)
    if level not in LEVELS:
        return ()
    found, laps = [], _laps(own) if level == "soak" else 1
    done = [*recording.earlier_laps, *recording.stages.values()]
    for kind in own.kinds:
        length_s = kind.length_s(own.stages[kind.name], level) if kind.name in known else 0.0
        if length_s and not _without_crew(recording, kind, level):
            each_s = [_done_s(kind, one, levels) for one in done if one.name == kind.name]
            if kind.duty == "continuous":  # what matters is the heat of all laps; the others are whole or not
                done_s, length_s = sum(each_s), laps * length_s
            else:
                done_s = min(each_s, default=0.0)
            if done_s < levels.least_share * length_s:
                found.append(Shortfall(kind.name, done_s, length_s, kind.duty))
    return tuple(found)


def _laps(own: LoadedRig) -> int:
    """How often a soak of the level's own lengths goes round its stages."""
    round_s = own.rig.levels.round_s.soak
    kinds = [kind for kind in own.kinds if number_of_turns(kind.crew, own)]  # others have nobody here
    plans = [kind.planned(own.stages[kind.name], "soak", round_s) for kind in kinds]
    lap_s = sum(one.expected_s for one in plans if one is not None)
    return max(1, round(own.rig.levels.soak_s / lap_s)) if lap_s else 1


def _without_crew(recording: Recording, kind: StageFacts[Any], level: str) -> bool:
    """Whether the rig has nobody for the stage, such as no two devices for pairs: its plan then lacks it."""
    run = recording.run
    stated = run.rig.get("stages", {}).get(kind.name, {}).get("length_s", {}).get(level)
    return not kind.by_device and bool(stated) and bool(run.stages) and kind.name not in run.stages


def in_place_of_level(found: tuple[Shortfall, ...], level: str) -> str:
    """What a verdict line adds to ACCEPTED: `for 6 s of load, not a soak`; empty for a run of full length."""
    if not found:
        return ""
    done = [f"{_in_words(one.done_s)} of {_name(one)}" for one in found if one.done_s]
    absent = [one.stage for one in found if not one.done_s]
    parts = [f"for {_list_of(done)}"] if done else []
    parts += [f"without {_list_of(absent)}"] if absent else []
    return f"{', '.join(parts)}, not {RUN_OF.get(level, level)}"


def _done_s(kind: StageFacts[Any], stage: Stage, levels: Levels) -> float:
    """Seconds of the stage that count.

    A continuous load counts while all workers are under it. Others count from the stage's beginning, set-up
    included, to the load's end. Stages of bursts, of arms, of crews and of hosts end when their work is done:
    one that filled `levels.least_work_share` of the length it was given did all of it.
    """
    if stage.loaded_from_s is None or stage.loaded_to_s is None:
        return 0.0
    begun_s = stage.loaded_from_s if kind.duty == "continuous" else stage.start_s
    done_s = stage.loaded_to_s - begun_s
    if not isfinite(done_s) or done_s <= 0:
        return 0.0
    given_s = stage.settings.get("measure_s")
    done_by_work = kind.duty in ("bursts", "arms", "idle") or not kind.by_device
    if done_by_work and isinstance(given_s, int | float) and isfinite(given_s):
        least_s = levels.least_work_share * given_s
        return float(given_s) if stage.status == "finished" and done_s >= least_s else min(done_s, given_s)
    return done_s


def _name(one: Shortfall) -> str:
    return "load" if one.duty == "continuous" else one.stage


def _list_of(parts: list[str]) -> str:
    """`a, b and c`."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def _in_words(seconds: float) -> str:
    """A length in words, rounded down."""
    if seconds < 10:
        return f"{seconds:.2g} s"
    return f"{int(seconds)} s" if seconds < 120 else f"{int(seconds // 60)} min"
