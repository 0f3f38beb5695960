"""Each fault, at its defaults, in each stage of the seeds' two PCs: refused, or noticed where it acts."""

import tomllib
from functools import cache
from itertools import zip_longest

import pytest

from rigproof.judging.catalogue import FAULTS
from rigproof.judging.judge import judge_all
from rigproof.profiles.loading.load import over_defaults, rig_path
from rigproof.profiles.planning.planning import make_plan
from rigproof.records.verdict import Outcome
from rigproof.run.simulated.trial import simulated_recording
from rigproof.simulation.faults.parsing import FaultError, parse_faults
from rigproof.stages.registry import FORMS, KINDS

LOUD = (Outcome.FAIL, Outcome.WARN, Outcome.NOT_MEASURED)
SEEDS = tomllib.loads(rig_path("dual-3090-3070").read_text(encoding="utf-8"))
RIG = over_defaults(SEEDS | {"sampling": {"rate_hz": 4}}, "seeds", KINDS)
DUTIES = {kind.name: kind.duty for kind in KINDS}
# The stages that a level adds to those of the one before.
ADDED = {
    level: [one.name for one in make_plan(RIG, level).stages if one.name not in below]
    for level, below in (("quick", ()), ("standard", make_plan(RIG, "quick").stage_names))
}


def subject(name, pc):
    return pc if FAULTS[name].scope == "node" else f"{pc}/gpu0"


@cache
def healthy(level):
    return {(one.criterion, one.subject): one.outcome for one in judge_all(simulated_recording(RIG, level))}


def refused(text, level):
    try:
        parse_faults([text], FAULTS, RIG, make_plan(RIG, level).stages, FORMS)
    except FaultError:
        return True
    return False


def texts(level, pc):
    """The faults in each stage that the level adds; in quick also without a stage."""
    for name, fault in FAULTS.items():
        if name == "nvml-hang":  # takes ten real seconds, as its deadline does: the fault matrix has it
            continue
        where = [
            f":stage={one}" for one in ADDED[level] if "stage" in fault.keys and one in fault.acts_in(DUTIES)
        ]
        for keys in ["", *where] if level == "quick" else where:
            text = f"{name}@{subject(name, pc)}{keys}"
            if not refused(text, level):
                yield text


PAIRS = [
    (level, tuple(filter(None, pair)))
    for level in ADDED
    for pair in zip_longest(list(texts(level, "pc1"))[::2], list(texts(level, "pc2"))[1::2])
]


@pytest.mark.parametrize(("level", "faults"), PAIRS, ids=[" ".join(pair) for _, pair in PAIRS])
def test_a_fault_that_is_not_refused_is_noticed_on_its_pc(level, faults):
    """A fault on each PC: they have nothing in common."""
    verdicts = judge_all(simulated_recording(RIG, level, faults))
    loud = [
        one.subject
        for one in verdicts
        if one.outcome in LOUD and one.outcome is not healthy(level)[one.criterion, one.subject]
    ]
    for text in faults:
        pc = text.partition("@")[2].partition("/")[0].partition(":")[0]
        assert any(one == "rig" or one.startswith(pc) for one in loud), text
