"""Each fault that can act in a stage is noticed there, by the criterion that it is there for.

Faults of one card do not reach another, so that many of them share a run: a fault a card.
"""

from dataclasses import replace
from functools import cache

import pytest

from rigproof.judging.catalogue import CATALOGUE, FAULTS
from rigproof.judging.fault_matrix import ENDS
from rigproof.judging.laps import judge_all
from rigproof.profiles.loading.load import over_defaults
from rigproof.records.verdict import Outcome, sentence
from rigproof.run.simulated.trial import simulated_recording
from rigproof.simulation.faults.injected import InjectedFault
from rigproof.simulation.faults.kinds import Noticed
from rigproof.simulation.stage import CardWork
from rigproof.stages.registry import KINDS, SLICES
from support.fault_matrix import rig_of as rig_with
from support.lengths import lengths

DUTY_OF = {kind.name: kind.duty for kind in KINDS}
STAGES = tuple(DUTY_OF)

NODE, LEVEL = "n1", "extended"
LENGTHS = {kind.name: 30 for kind in KINDS if "length_s" in kind.settings.model_fields}
LENGTHS |= {"sustained": 40, "training": 40, "transient": 60}


def level_of(stage):
    """As short as the stage lets it be."""
    own = {stage: LENGTHS[stage]} if stage in LENGTHS else {}
    stages = dict.fromkeys(LENGTHS, 0) | {"sustained": 8} | own
    return lengths(LEVEL, settle_s=4, measure_s=4 if stage == "gemm" else 2, round_s=0.5, **stages)


def sku_of(name):
    """A card that can have the fault: one of those that the fault matrix uses."""
    return rig_with(FAULTS[name]).devices()[0].sku_stem


def rig_of(skus, stage):
    tables = {
        "name": "a-fault-a-card",
        "sampling": {"rate_hz": 4},
        "limits": {
            "core_temperature_c": 80,
            "core_temperature_warn_c": 78,
            "core_temperature_never_c": 84,
            "working_temperature_c": [50, 75],
            "working_power_w": [300, 700],
        },
        **level_of(stage),
        "nodes": [{"name": NODE, "cpus": 8 * len(skus), "gpus": [{"sku": sku} for sku in skus]}],
    }
    return over_defaults(tables, "a-fault-a-card", KINDS)


def noticed(name, stage):
    return SLICES[stage].noticed.get(name, Noticed())


def noticing(name, stage):
    """The criteria that notice a fault in a stage."""
    here = noticed(name, stage)
    return FAULTS[name].trips if here.criterion is None else (here.criterion,)


# They end the work of the whole run, or of the whole node: each has a run of its own in the fault matrix.
NOT_BESIDE_OTHERS = ("node-lost", "gpu-lost", "nvml-hang", "ecc-uncorrected")
OF_THE_PROCESS = ("hung-kernel", "worker-killed", "worker-frozen", "timeout")
# Judged stage by stage, so that a finding says in which stage it was.
BY_STAGE = (
    "thermal.core_temperature",
    "thermal.memory_temperature",
    "thermal.throttle",
    "power.draw",
    "clock.ratio",
    "activity.gpu_active",
    "transfer.link",
)
COUNTED = ("pcie-replays", "hidden-throttle")  # in the whole run
CARD = next(CardWork(one, device) for one in [rig_of(["h200-sxm"], STAGES[0])] for device in one.devices())
OF_CARDS = {
    stage: [
        name
        for name, fault in FAULTS.items()
        if stage in fault.acts_in(DUTY_OF)
        and fault.scope == "gpu"
        and not SLICES[stage].simulated.misses(fault, InjectedFault(name, NODE, stage), CARD)
        and name not in (*NOT_BESIDE_OTHERS, *OF_THE_PROCESS)
    ]
    for stage in STAGES
}
# Noticed by a criterion of the node, which has one verdict for all its cards: a run each.
OF_NODES = [
    (name, stage)
    for stage, names in OF_CARDS.items()
    for name in names
    if any(CATALOGUE[one].scope == "node" for one in noticing(name, stage))
]
OF_CARDS = {
    stage: [name for name in names if (name, stage) not in OF_NODES] for stage, names in OF_CARDS.items()
}
# A criterion of the rig names one of its devices: one run each.
OF_RUNS = [
    (name, stage) for stage in STAGES for name in OF_THE_PROCESS if stage in FAULTS[name].acts_in(DUTY_OF)
]


def fault_text(name, stage, subject):
    more = noticed(name, stage).keys
    keys = ",".join(filter(None, (f"stage={stage}" if "stage" in FAULTS[name].keys else "", more)))
    return f"{name}@{subject}" + (f":{keys}" if keys else "")


@cache
def judged(stage):
    """The stage's recording with a fault on each card, and its verdicts by criterion and subject."""
    faults = [fault_text(name, stage, f"{NODE}/gpu{place}") for place, name in enumerate(OF_CARDS[stage])]
    skus = [*map(sku_of, OF_CARDS[stage]), "h200-sxm"]  # the last one is healthy
    recording = simulated_recording(rig_of(skus, stage), LEVEL, faults)
    return recording, {(one.criterion, one.subject): one for one in judge_all(recording)}


@pytest.mark.parametrize("stage", STAGES)
def test_a_fault_is_noticed_in_the_stage_in_which_it_acts(stage):
    recording, verdicts = judged(stage)
    for place, name in enumerate(OF_CARDS[stage]):
        fault, subject, here = FAULTS[name], f"{NODE}/gpu{place}", noticed(name, stage)
        outcome = ENDS[here.ends or fault.ends]
        for criterion in noticing(name, stage):
            verdict = verdicts[criterion, "rig" if CATALOGUE[criterion].scope == "rig" else subject]
            assert verdict.outcome is outcome, f"{name}: {sentence(verdict)}"
            if criterion in BY_STAGE and name not in COUNTED and outcome is not Outcome.NOT_MEASURED:
                window = recording.stages[stage]
                at_s = verdict.from_s
                within = at_s is not None and window.start_s <= at_s <= (window.end_s or at_s) + 1
                assert within or stage in sentence(verdict), name


@pytest.mark.parametrize(("name", "stage"), OF_NODES)
def test_a_fault_of_a_card_is_noticed_as_its_node_s_in_the_stage_in_which_it_acts(name, stage):
    recording = simulated_recording(
        rig_of(["h200-sxm"] * 2, stage), LEVEL, [fault_text(name, stage, f"{NODE}/gpu0")]
    )
    verdicts = {(one.criterion, one.subject): one for one in judge_all(recording)}
    for criterion in noticing(name, stage):
        verdict = verdicts[criterion, NODE]
        assert verdict.outcome is ENDS[noticed(name, stage).ends or FAULTS[name].ends], sentence(verdict)


def test_the_card_without_a_fault_is_well():
    for stage in STAGES:
        healthy = f"{NODE}/gpu{len(OF_CARDS[stage])}"
        _, verdicts = judged(stage)
        bad = [
            sentence(one)
            for (_, subject), one in verdicts.items()
            if subject == healthy and one.outcome in (Outcome.FAIL, Outcome.WARN)
        ]
        assert not bad


@pytest.mark.parametrize(("name", "stage"), OF_RUNS)
def test_a_process_that_is_hurt_is_noticed_in_its_stage(name, stage):
    recording = simulated_recording(rig_of(["h200-sxm"], stage), LEVEL, [f"{name}:stage={stage}"])
    [verdict] = [one for one in judge_all(recording) if one.criterion == "cluster.no_timeouts"]
    assert verdict.outcome is Outcome.FAIL
    assert verdict.from_s is not None
    assert recording.stages[stage].start_s <= verdict.from_s <= (recording.stages[stage].end_s or 0) + 1


def test_a_stage_says_how_faults_show_that_can_act_in_it():
    for stage in STAGES:
        alone = {name for name, where in OF_NODES if where == stage}
        assert set(SLICES[stage].noticed) <= {*OF_CARDS[stage], *alone}


def test_every_declared_fault_is_shown_here_or_in_the_matrix():
    shown = {name for names in OF_CARDS.values() for name in names} | set(OF_THE_PROCESS)
    shown |= {name for name, _ in OF_NODES}
    declared = {name: fault for name, fault in FAULTS.items() if fault.acts_in(DUTY_OF)}
    of_nodes = {name for name, fault in declared.items() if fault.scope == "node"}
    assert set(declared) - shown == of_nodes | set(NOT_BESIDE_OTHERS)


@pytest.mark.parametrize("stage", STAGES)
def test_a_worker_that_something_else_than_the_rig_ended_rejects_nothing(stage):
    """As by the memory monitor of somebody else's Ray: what it would have done is not measured."""
    fault = f"worker-killed@{NODE}/gpu0:stage={stage}"
    recording = simulated_recording(rig_of(["h200-sxm"] * 2, stage), LEVEL, [fault])
    (died,) = (event for event in recording.events if event.kind == "worker_died")
    recording.events.remove(died)
    recording.add(replace(died, data={**died.data, "disturbed": "free some memory"}))
    verdicts = judge_all(recording)
    assert [sentence(one) for one in verdicts if one.outcome in (Outcome.FAIL, Outcome.WARN)] == []
    named = {one.criterion for one in verdicts if one.remedy == "free some memory"}
    assert named >= {"cluster.no_timeouts", "memory.success_rate"}


@pytest.mark.parametrize("name", ["bit-flip", "wrong-element", "wrong-tile"])
@pytest.mark.parametrize("after", ["31%", "62%", "88%", "92%"])
def test_a_wrong_result_is_noticed_also_within_a_long_round(name, after):
    """All results of a round are compared, and a round of three processes takes longer than this fault."""
    fault = f"{name}:stage=sharing,after={after},for=0.5"
    verdicts = judge_all(simulated_recording(rig_of(["rtx-3090"], "sharing"), LEVEL, [fault]))
    failed = {one.criterion for one in verdicts if one.outcome is Outcome.FAIL}
    assert set(noticing(name, "sharing")) & failed
