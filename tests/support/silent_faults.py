"""Simulated faults that are neither refused nor noticed: each at its defaults, in each stage, on any rig.

A fault acts in a run in which its stage takes as long as its level says, and the others hardly any time. It
is noticed if a criterion of its own node says so; several act in one run, each on a node of its own.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

from rigproof.judging.catalogue import FAULTS
from rigproof.judging.laps import judge_all
from rigproof.profiles.auto import completed
from rigproof.profiles.kinds.stages import StagePlan
from rigproof.profiles.loading.files import profile_folder
from rigproof.profiles.loading.load import all_skus, load_rig
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.profiles.planning.planning import make_plan
from rigproof.profiles.tables.levels import LevelName
from rigproof.records.verdict import Outcome
from rigproof.run.simulated.trial import simulated_recording
from rigproof.simulation.faults.parsing import FaultError, parse_faults
from rigproof.simulation.host import simulated_inventory
from rigproof.stages.registry import FORMS, KINDS

LOUD = (Outcome.FAIL, Outcome.WARN, Outcome.NOT_MEASURED)
DUTIES = {kind.name: kind.duty for kind in KINDS}
ANYWHERE = ""  # in place of a stage, for faults that act for the whole run
HANGS = "nvml-hang"  # takes ten real seconds, as its deadline does: the fault matrix has it
LEVELS: tuple[LevelName, ...] = ("quick", "standard", "extended")


def _nodes(*nodes: Sequence[str]) -> str:
    text = ""
    for number, skus in enumerate(nodes):
        text += f'[[nodes]]\nname = "n{number}"\ncpus = {8 * len(skus)}\n'
        text += "".join(f'[[nodes.gpus]]\nsku = "{sku}"\n' for sku in skus)
    return text


# By name, the tables of a profile: all rigs of hwprofiles; unlike cards; and a host for each model.
OWN = {path.stem: f'extends = "{path.stem}"\n' for path in sorted((profile_folder() / "rigs").glob("*.toml"))}
EVERY_MODEL = "every-model"
MODELS = [[sku] for sku in sorted(all_skus(KINDS))]
MADE = {
    "unlike-cards": _nodes(["a10g"], ["l4"], ["rtx-4090"], ["h100-sxm", "rtx-3070"]),
    EVERY_MODEL: _nodes(*MODELS),
}
RIGS = (*OWN, *MADE)
STAGES = (ANYWHERE, *DUTIES)


@cache
def level_of(stage: str) -> LevelName:
    """The shortest level that has the stage, on two hosts or on one with two cards."""
    rigs = [load_rig(name, KINDS) for name in ("dual-3090-3070", "h200-x2")]
    plans = {one: {name for rig in rigs for name in make_plan(rig, one).stage_names} for one in LEVELS}
    return next(one for one in LEVELS if stage in ("", *plans[one]))


@cache
def rig_of(name: str, stage: str) -> LoadedRig:
    """The rig, with what its profile leaves open; at this stage's level the other stages are short."""
    level, shortened = level_of(stage), ""
    for kind in KINDS if stage else ():
        if kind.name != stage and "length_s" in kind.settings.model_fields:
            shortened += f"stages.{kind.name}.length_s.{level} = {16 if kind.name == 'sustained' else 0}\n"
    if stage not in (ANYWHERE, "gemm"):
        shortened += f"stages.gemm.settle_s.{level} = 4\nstages.gemm.measure_s.{level} = 2\n"
    own, made = OWN.get(name, ""), MADE.get(name, "")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rig.toml"
        path.write_text(f'name = "swept"\n{own}sampling.rate_hz = 4\n{shortened}{made}', encoding="utf-8")
        loaded = load_rig(str(path), KINDS)
    return completed(loaded, simulated_inventory(loaded))


def texts_of(fault: str, stage: str, rig: str) -> list[str]:
    """The fault in the stage as `--hw-inject` takes it, on each device or node of the rig, refused or not."""
    loaded = rig_of(rig, stage)
    subjects = [one.subject for one in loaded.devices()]
    if FAULTS[fault].scope == "node":
        subjects = [one.name for one in loaded.rig.nodes]
    return [f"{fault}@{subject}" + (f":stage={stage}" if stage else "") for subject in subjects]


@cache
def refused(text: str, stage: str, rig: str) -> bool:
    """Whether the simulator refuses the fault on that rig."""
    try:
        parse_faults([text], FAULTS, rig_of(rig, stage), _stages(rig, stage), FORMS)
    except FaultError:
        return True
    return False


@cache
def _stages(rig: str, stage: str) -> tuple[StagePlan, ...]:
    return make_plan(rig_of(rig, stage), level_of(stage)).stages


def faults_in(stage: str) -> list[str]:
    """The faults that can act in a stage; without one, those that take none. None that only a soak shows."""
    return [
        name
        for name, kind in FAULTS.items()
        if name != HANGS
        and not kind.soak
        and (("stage" in kind.keys and stage in kind.acts_in(DUTIES)) if stage else "stage" not in kind.keys)
    ]


def together(texts: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Those that can act in one run: one on each node."""
    by_node: dict[str, list[str]] = {}
    for text in texts:
        by_node.setdefault(node_of(text), []).append(text)
    for several in zip_longest(*by_node.values()):
        yield tuple(text for text in several if text is not None)


def node_of(text: str) -> str:
    """The node on which a fault acts."""
    return text.partition("@")[2].partition(":")[0].partition("/")[0]


def silent(rig: str, stage: str, texts: Sequence[str]) -> list[str]:
    """Those of these faults that nothing on their nodes notices in a run; a lone one may show on the rig."""
    recording = simulated_recording(rig_of(rig, stage), level_of(stage), texts)
    loud = [one.subject for one in judge_all(recording) if one.outcome in LOUD]
    nodes = {subject.partition("/")[0] for subject in loud}
    return [text for text in texts if node_of(text) not in nodes and (len(texts) > 1 or "rig" not in nodes)]
