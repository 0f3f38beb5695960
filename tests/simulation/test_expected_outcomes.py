"""Each fault changes the verdicts that docs/faults.toml lists, and no other, in sentences that read well.

A part of the runs is made anew here: every fault is in it, and every criterion fails in it.
`python -m support.outcomes` makes all of them.
"""

from collections import Counter
from dataclasses import replace
from itertools import chain

import pytest

from rigproof.criteria.evidence.fed import WAITED
from rigproof.judging.catalogue import CATALOGUE, FAULTS
from rigproof.judging.expected_outcomes import ENDS, PATH, Case, cases, shown, shown_by, whole_runs
from rigproof.judging.fault_page import PAGE, SYMPTOMS, faults_page
from rigproof.judging.laps import judge_all
from rigproof.profiles.loading.load import over_defaults
from rigproof.profiles.loading.loaded import LoadedRig
from rigproof.records.verdict import Outcome, sentence
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.registry import KINDS
from support.directions import agrees
from support.fault_matrix import (
    FIRST,
    OTHER,
    SECOND,
    changes_of,
    geforce_rig,
    rig,
    rig_of,
    rig_with,
    run,
    run_changes,
    subject_of,
    subjects_of,
)
from support.lengths import lengths
from support.outcomes import DUTIES, LATE, LEVEL, NODE, Run, runs, stage_rig, typed, wanted, written
from support.sentences import check_sentences

ANEW = "write docs/faults.toml anew: PYTHONPATH=.:tests python -m support.generated"
COOLER = ("clock-locked", "clock-drops-idle")  # than the second card's own working range lets it be
BY_STAGE = [case for case in cases() if case.stage]
BAD = (Outcome.FAIL, Outcome.WARN)
# Judged stage by stage, so that a finding says in which stage it was.
SAY_WHEN = (
    "thermal.core_temperature",
    "thermal.memory_temperature",
    "thermal.throttle",
    "power.draw",
    "clock.ratio",
    "activity.gpu_active",
    "transfer.link",
)
COUNTED = ("pcie-replays", "hidden-throttle")  # in the whole run


def turns() -> list[Run]:
    """Of the runs about a stage: one with many faults, another one than the stage before; some with one."""
    every = runs(BY_STAGE)
    single = [one for one in every if len(one.hurt) == 1]
    found = single[::11]
    for place, stage in enumerate(DUTIES):
        many = [one for one in every if one.stage == stage and len(one.hurt) > 1]
        found += [many[place % len(many)]] if many else []
    return found


TURNS = turns()


def places(case: Case) -> tuple[str, ...]:
    """The subjects on which it may be beside others, as it changes no verdicts but theirs."""
    if rig_of(case.fault) is not rig() or case.fault.host_lacks:
        return ()  # a host may be held against the one beside it
    first = subject_of(case.fault)
    if not all(where.startswith(first) for _, where in case.changes(first, rig())):
        return ()
    if case.fault.scope == "node":
        return ("n2", "n1")
    if slows(case):
        return (first,)
    found = subjects_of(case.fault, rig())
    return tuple(one for one in found if one != SECOND or case.fault.name not in COOLER)


def together() -> list[Run]:
    """Of the whole runs, those of faults that no run of a stage shows here; as many in one as do not meet."""
    shown_there = {case.fault.name for one in TURNS for case, _ in one.hurt}
    left = [case for case in whole_runs() if case.fault.name not in shown_there]
    hurt = [[(case, subject_of(case.fault))] for case in left if not places(case)]
    shared: list[list[tuple[Case, str]]] = []
    for case in sorted(filter(places, left), key=lambda case: len(places(case))):
        free = ((some, where) for some in shared for where in places(case) if fits(case, where, some))
        some, where = next(free, ([], places(case)[0]))
        shared += [some] if not some else []
        some.append((case, where))
    return [Run("", tuple(some)) for some in hurt + shared]


def fits(case: Case, where: str, hurt: list[tuple[Case, str]]) -> bool:
    """Whether no fault hits the subject, its node or a GPU of it; and one at most may lower the rig's sum."""
    if slows(case) and any(slows(one) for one, _ in hurt):
        return False
    return not any(one.startswith(where) or where.startswith(one) for _, one in hurt)


def slows(case: Case) -> bool:
    """Whether its fault concerns the card's work, power or clock."""
    changed = {name.partition(".")[0] for name, _ in shown([case])}
    return bool(changed & {"throughput", "activity", "power", "clock"})


TOGETHER = together()


def test_a_healthy_rig_changes_nothing():
    assert run_changes() == {}
    assert changes_of(run(on=geforce_rig())) == {}


def rig_for(one: Run) -> LoadedRig:
    """The whole rig; of a fault that acts in one stage, that stage alone, or all that exchange data."""
    (first, _), *more = one.hurt
    stage = first.fault.stage
    if more or stage is None or one.rig is not rig():
        return one.rig
    # They are held against each other.
    exchange = frozenset(one.name for one in KINDS if one.exchanges or one.crew in ("network", "node_ring"))
    return rig_with(exchange if stage in exchange else frozenset({stage}))


@pytest.mark.parametrize("one", TOGETHER, ids=str)
def test_a_fault_changes_the_verdicts_that_are_listed_and_no_other(one):
    texts = [typed(case, subject) for case, subject in one.hurt]
    verdicts = judge_all(simulated_recording(rig_for(one), one.level, texts))
    expected = [case.changes(subject, one.rig) for case, subject in one.hurt]
    assert changes_of(verdicts) == dict(chain.from_iterable(map(dict.items, expected))), ANEW
    assert all(map(agrees, verdicts))
    check_sentences(verdicts)


@pytest.mark.parametrize("one", TURNS, ids=str)
def test_a_fault_changes_in_a_stage_what_is_listed(one):
    recording, verdicts = one.judged()
    assert one.found_in(verdicts) == [case for case, _ in one.hurt], ANEW
    if len(one.hurt) > 1:  # the last card is healthy
        well = f"n1/gpu{len(one.hurt)}"
        assert [sentence(each) for each in verdicts if each.subject == well and each.outcome in BAD] == []
    window = recording.stages[one.stage]
    for case, subject in one.hurt:
        for each in verdicts if case.fault.name not in COUNTED else ():
            own = each.subject == subject and each.criterion in case.fault.trips
            if own and each.outcome in BAD and each.criterion in SAY_WHEN:
                at_s = each.from_s
                within = at_s is not None and window.start_s <= at_s <= (window.end_s or at_s) + 1
                assert within or one.stage in sentence(each), case


def test_the_file_has_every_fault_in_every_stage_in_which_it_can_act():
    assert {str(case) for case in wanted()} == {str(case) for case in cases()}, ANEW
    assert PATH.read_text(encoding="utf-8") == written(cases()), ANEW


def test_every_fault_and_every_criterion_is_in_the_part_that_is_made_anew():
    ran = Counter(str(case) for one in (*TOGETHER, *TURNS) for case, _ in one.hurt)
    assert set(ran.values()) == {1}
    part = [case for case in cases() if str(case) in ran]
    assert {case.fault.name for case in part} == set(FAULTS)
    assert shown(part) >= {(name, Outcome.FAIL) for name, one in CATALOGUE.items() if not one.surroundings}


def test_a_fault_trips_the_criteria_that_it_is_made_for():
    for case in whole_runs():
        assert case.keys or set(case.fault.trips) <= set(case.criteria(ENDS[case.fault.ends])), case


def test_no_fault_is_silent():
    silent = [str(case) for case in cases() if case.changed == {} and case.fault.trips]
    assert silent == [], "give other keys to them in docs/faults.toml, or let the stage's `unnoticed` say why"


def test_whatever_a_fault_changes_besides_its_own_criterion_is_explained():
    for case in whole_runs():
        changed = {name for names in case.changed.values() for name in names}
        assert case.why or changed == set(case.fault.trips), f"write the why of {case} into docs/faults.toml"


# Stages in which no simulated fault makes the criterion fail, though it judges them.
NOT_THERE = {
    # A card that idles in one with few rounds leaves too little to be judged.
    "activity.gpu_active": {"bandwidth", "shapes"},
    # A slower core does not slow memory down.
    "throughput.stability": {"pattern", "bandwidth"},
    # A straggler is one of the continuous stage; what is slower in the others fails by their own criteria.
    "throughput.peer_outlier": {"gemm", "pattern", "training", "sharing", "bandwidth"},
}


def test_every_criterion_fails_on_a_fault_in_every_stage_that_it_judges():
    not_there = {}
    for name, criterion in CATALOGUE.items():
        assert bool(shown_by(criterion, Outcome.FAIL)) is not criterion.surroundings, name
        if criterion.surroundings:  # what is not the rig's fault leaves it not measured, or warns
            assert shown_by(criterion, Outcome.NOT_MEASURED) or shown_by(criterion, Outcome.WARN), name
            continue
        judged = criterion.loads(KINDS.names, KINDS)
        without = {one for one in judged if (name, Outcome.FAIL) not in shown(acting_in(one))}
        if without:
            not_there[name] = without
    assert not_there == NOT_THERE, (
        "these criteria do not fail in these stages: let a fault of docs/faults.toml act there (`keys`), "
        "or list them with the reason in NOT_THERE"
    )


def acting_in(stage: str) -> list[Case]:
    """The cases whose fault acts in the stage, or from it on."""
    return [case for case in cases() if stage == (case.stage or case.fault.home(DUTIES))]


def test_what_a_device_that_idles_leaves_undone_is_what_its_criteria_say():
    (idle,) = [case for case in whole_runs() if str(case) == "gpu-idle"]
    found = {name: one for name, one in CATALOGUE.items() if one.scope == "device"}
    for name, criterion in found.items():
        if name not in idle.fault.trips:
            wrong = (
                f"{name}: docs/faults.toml of gpu-idle says otherwise than `idling` ({criterion.idling!r})"
            )
            assert (name in idle.criteria(Outcome.FAIL)) is (criterion.idling == "fails"), wrong
            assert (name in idle.criteria(Outcome.NOT_MEASURED)) is (criterion.idling == "not measured"), (
                wrong
            )


@pytest.mark.parametrize(
    "name",
    [
        n
        for n, one in FAULTS.items()
        if "after" in one.keys and "continuous" in one.duties and n != "nvml-hang"
    ],
)
def test_a_fault_of_the_last_fifth_of_the_continuous_stage_is_noticed(name):
    (late,) = [case for case in cases() if case.fault.name == name and case.keys.startswith(LATE)]
    noticed = set(late.criteria(ENDS[late.fault.ends]))
    assert noticed
    assert late.why or set(late.fault.trips) & noticed


@pytest.mark.parametrize(("words", "faults", "criteria", "more"), SYMPTOMS, ids=lambda one: one[:1])
def test_what_an_owner_sees_is_shown_by_faults_that_trip_the_criteria_named(words, faults, criteria, more):
    trips = {name for fault in faults for name in FAULTS[fault].trips}
    assert set(criteria) <= trips, words
    assert all({*FAULTS[fault].trips} & {*criteria, "inventory.gpus_present"} for fault in faults), words


def test_the_page_of_faults_is_current():
    """Write it anew: PYTHONPATH=.:tests python -m support.generated --pages."""
    assert PAGE.read_text(encoding="utf-8") == faults_page()


TWO = [
    (f"worker-killed@{FIRST}", f"worker-killed@{OTHER}"),
    (f"memory-overheat@{SECOND}", f"xid@{SECOND}"),
]


@pytest.mark.parametrize("faults", TWO, ids=" and ".join)
def test_two_faults_at_once_are_both_named(faults):
    changes = run_changes(*faults)
    hurt = {fault.partition("@")[2] for fault in faults}
    assert {where for name, where in changes if CATALOGUE[name].scope == "device"} == hurt
    for fault in faults:
        name, _, subject = fault.partition("@")
        (case,) = [one for one in whole_runs() if str(one) == name]
        for criterion in {*case.fault.trips, "memory.success_rate"} & {*case.criteria(Outcome.FAIL)}:
            where = "rig" if CATALOGUE[criterion].scope == "rig" else subject
            assert changes[criterion, where] is Outcome.FAIL


EIGHT = over_defaults(
    {
        "name": "eight",
        "sampling": {"rate_hz": 4},
        **lengths("quick", settle_s=4, measure_s=2, sustained=30, round_s=0.5),
        "nodes": [{"name": "n1", "cpus": 64, "gpus": [{"sku": "h200-sxm"}] * 8}],
    },
    "eight",
    KINDS,
)


@pytest.mark.parametrize("seed", range(2))
def test_a_straggler_of_ten_percent_among_eight_equal_gpus_is_caught(seed):
    recording = simulated_recording(EIGHT, "quick", ["straggler@n1/gpu5:by=10%"], seed=seed)
    changes = changes_of(judge_all(recording))
    assert changes == {("throughput.peer_outlier", "n1/gpu5"): Outcome.FAIL}


@pytest.mark.parametrize("seed", range(2))
def test_three_percent_among_eight_equal_gpus_are_no_alarm(seed):
    recording = simulated_recording(EIGHT, "quick", ["straggler@n1/gpu5:by=3%"], seed=seed)
    assert changes_of(judge_all(recording)) == {}


def test_all_that_an_idle_card_changes_follows_from_its_idling():
    verdicts = run(f"gpu-idle@{FIRST}")
    bad = [one for one in verdicts if one.outcome in (Outcome.FAIL, Outcome.NOT_MEASURED)]
    assert {one.criterion for one in bad if not one.follows} == {"activity.gpu_active"}
    assert {"transfer.link", "clock.ratio", "feeding.idle_gaps", "compute.exact"} < {
        one.criterion for one in bad
    }


def test_one_that_idles_while_it_is_fed_waits_for_rewards_and_nothing_is_wrong_with_its_link():
    failed = {
        one.criterion: one for one in run(f"gpu-idle@{FIRST}:stage=feeding") if one.outcome is Outcome.FAIL
    }
    assert failed.keys() == {"feeding.idle_gaps", "transfer.link", "clock.ratio"}
    assert failed["transfer.link"].remedy == failed["clock.ratio"].remedy == WAITED


def test_a_rate_that_is_low_in_another_stage_than_the_card_idled_in_stands_by_itself():
    low = {
        "vram-slow": "memory.bandwidth",
        "pcie-slow": "transfer.h2d",
        "tensor-cores-unused": "training.step",
    }
    verdicts = run(f"gpu-idle@{FIRST}:stage=sustained", *(f"{fault}@{FIRST}" for fault in low))
    failed = {one.criterion: one.follows for one in verdicts if one.outcome is Outcome.FAIL}
    assert failed["activity.gpu_active"] is False
    assert failed["throughput.sustained"] is True
    assert [failed[criterion] for criterion in low.values()] == [False] * len(low)


@pytest.mark.parametrize("stage", KINDS.names)
def test_a_worker_that_something_else_than_the_rig_ended_rejects_nothing(stage):
    """As by the memory monitor of somebody else's Ray: what it would have done is not measured."""
    fault = f"worker-killed@{NODE}/gpu0:stage={stage}"
    beside = "h200-sxm" if KINDS[stage].crew in ("network", "node_ring") else ""
    recording = simulated_recording(stage_rig(stage, "h200-sxm", "h200-sxm", beside=beside), LEVEL, [fault])
    (died,) = (event for event in recording.events if event.kind == "worker_died")
    recording.events.remove(died)
    recording.add(replace(died, data={**died.data, "disturbed": "free some memory"}))
    verdicts = judge_all(recording)
    assert [sentence(one) for one in verdicts if one.outcome in (Outcome.FAIL, Outcome.WARN)] == []
    named = {one.criterion for one in verdicts if one.remedy == "free some memory"}
    assert named >= {"cluster.no_timeouts", "memory.success_rate"}


@pytest.mark.parametrize("after", ["31%", "62%", "88%", "92%"])
def test_a_wrong_result_is_noticed_also_within_a_long_round(after):
    """All results of a round are compared, and a round of three processes takes longer than these faults."""
    names = ("bit-flip", "wrong-element", "wrong-tile")
    where = {f"{NODE}/gpu{place}": name for place, name in enumerate(names)}
    faults = [f"{name}@{card}:stage=sharing,after={after},for=0.5" for card, name in where.items()]
    loaded = stage_rig("sharing", *["rtx-3090"] * len(names))
    verdicts = judge_all(simulated_recording(loaded, LEVEL, faults))
    for card, name in where.items():
        failed = {one.criterion for one in verdicts if one.outcome is Outcome.FAIL and one.subject == card}
        assert set(FAULTS[name].trips) & failed, name
