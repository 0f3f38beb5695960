"""Faults on a rig on which each of them can be noticed, and the verdicts that they change there."""

import tomllib
from functools import cache
from pathlib import Path

from rigproof.judging.laps import judge_all
from rigproof.profiles.loading.load import load_rig, over_defaults
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.tables.levels import LevelName
from rigproof.records.verdict import Outcome, Verdict
from rigproof.run.simulated.trial import simulated_recording
from rigproof.simulation.faults.kinds import FaultKind
from rigproof.stages.registry import KINDS
from support.equal_hosts import NONE
from support.lengths import lengths

PROFILE = Path(__file__).parent / "fault_matrix.toml"
LEVEL: LevelName = "extended"  # the first one with every stage
FIRST, SECOND, OTHER = "n1/gpu0", "n1/gpu1", "n2/gpu0"
GOOD = (Outcome.PASS, Outcome.NO_LIMIT, Outcome.NOT_APPLICABLE)

Changes = dict[tuple[str, str], Outcome]  # by criterion and subject: verdicts that are not good


@cache
def rig() -> LoadedRig:
    """The matrix's rig."""
    return load_rig(str(PROFILE), KINDS)


@cache
def geforce_rig() -> LoadedRig:
    """The matrix's rig as two GeForce cards, for faults that no H200 can have."""
    tables = tomllib.loads(PROFILE.read_text(encoding="utf-8"))
    del tables["stages"]["sustained"]["combined_floor_tflops"]  # of H200s
    tables["nodes"] = [{"name": "n1", "cpus": 32, "ram_gib": 128, "gpus": [{"sku": "rtx-3090"}] * 2}]
    return over_defaults(tables, f"{tables['name']}-geforce", KINDS)


@cache
def ring_rig(level: LevelName = "soak", sku: str = "h200-sxm") -> LoadedRig:
    """Four cards in one node, whose ring does not pass each two; a soak has one lap."""
    exchange = {"sustained": 16, "peer": 0.5, "collective": 4}
    tables = lengths(level, settle_s=4, measure_s=2, **(NONE | exchange))
    tables["levels"]["soak_s"] = 30
    node = {"name": "n1", "cpus": 32, "ram_gib": 1024, "gpus": [{"sku": sku}] * 4}
    return over_defaults({"name": "fault-matrix-ring", **tables, "nodes": [node]}, "ring", KINDS)


@cache
def rig_with(stages: frozenset[str]) -> LoadedRig:
    """The matrix's rig with these stages, and those that no profile leaves out."""
    tables = tomllib.loads(PROFILE.read_text(encoding="utf-8"))
    for kind in KINDS:
        if kind.name not in stages and kind.duty != "continuous" and "length_s" in kind.settings.model_fields:
            tables["stages"].setdefault(kind.name, {})["length_s"] = {LEVEL: 0}
    return over_defaults(tables, tables["name"], KINDS)


def rig_of(fault: FaultKind) -> LoadedRig:
    """The first of these rigs on which it can be noticed."""
    rigs = (rig(), geforce_rig(), ring_rig())
    return next(one for one in rigs if fault.scope == "node" or subjects_of(fault, one))


def level_of(fault: FaultKind) -> LevelName:
    """The level of its runs."""
    return "soak" if fault.soak else LEVEL


def subject_of(fault: FaultKind) -> str:
    """The first one of its rig on which it can be noticed."""
    return "n1" if fault.scope == "node" else subjects_of(fault, rig_of(fault))[0]


def subjects_of(fault: FaultKind, on: LoadedRig) -> list[str]:
    """The devices of a rig on which it can be noticed."""
    lacks = fault.lacks
    return [one.subject for one in on.devices() if lacks is None or not lacks(on, one)]


def changes_of(verdicts: list[Verdict]) -> Changes:
    """Those of a run."""
    return {(one.criterion, one.subject): one.outcome for one in verdicts if one.outcome not in GOOD}


def run(*faults: str, on: LoadedRig | None = None, seed: int = 0) -> list[Verdict]:
    """All verdicts of the matrix's rig, or of another one, with these faults."""
    return judge_all(simulated_recording(on or rig(), LEVEL, faults, seed=seed))


def run_changes(*faults: str, seed: int = 0) -> Changes:
    """What these faults change."""
    return changes_of(run(*faults, seed=seed))


__all__ = [
    "FIRST",
    "LEVEL",
    "OTHER",
    "PROFILE",
    "SECOND",
    "changes_of",
    "geforce_rig",
    "level_of",
    "rig",
    "rig_of",
    "rig_with",
    "ring_rig",
    "run",
    "run_changes",
    "subject_of",
    "subjects_of",
]
