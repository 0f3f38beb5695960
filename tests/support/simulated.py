"""Simulated rigs and their parts, for tests of what is simulated."""

from functools import cache
from pathlib import Path

from rigproof.profiles.auto import completed
from rigproof.profiles.kinds.stages import StageKinds
from rigproof.profiles.loading.load import load_rig
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.planning import make_plan
from rigproof.profiles.tables.levels import LevelName
from rigproof.run.simulated.making import planned_faults
from rigproof.simulation.faults.injected import StageWindow
from rigproof.simulation.host import simulated_inventory
from rigproof.simulation.rig import SimulatedRig
from rigproof.simulation.silicon.card import SimulatedCard
from rigproof.stages.registry import FORMS, KINDS

DUAL = "dual-3090-3070"
GEMM, SUSTAINED = StageWindow("gemm", 1.0, 20.0), StageWindow("sustained", 22.0, 59.5)  # of 60 s
STAGES = (GEMM, SUSTAINED)


@cache
def rig_named(name: str) -> LoadedRig:
    """A rig of the repository, completed by its own simulated inventory."""
    loaded = load_rig(name, KINDS)
    return completed(loaded, simulated_inventory(loaded))


def rig_from(folder: Path, text: str, kinds: StageKinds = KINDS) -> LoadedRig:
    """A rig by the text of its profile."""
    path = folder / "rig.toml"
    path.write_text(text)
    loaded = load_rig(str(path), kinds)
    return completed(loaded, simulated_inventory(loaded))


def simulated(loaded: LoadedRig, *faults: str, level: LevelName = "standard", seed: int = 0) -> SimulatedRig:
    """The rig with these faults."""
    plan = make_plan(loaded, level)
    return SimulatedRig(loaded, plan, FORMS, planned_faults(faults, loaded, plan), seed)


def card_of(subject: str, *faults: str, rig: str = DUAL, seed: int = 0) -> SimulatedCard:
    """A card of a rig of the repository."""
    return simulated(rig_named(rig), *faults, seed=seed).node(subject.partition("/")[0]).cards[subject]
