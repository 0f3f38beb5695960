"""Each fault changes the verdicts that it should, and no other, in sentences that read well."""

import math
from collections import Counter
from itertools import chain

import pytest

from rigproof.criteria.evidence.fed import WAITED
from rigproof.judging.catalogue import CATALOGUE, FAULTS
from rigproof.judging.fault_matrix import ENDS, cases, shown_by
from rigproof.judging.fault_page import PAGE, SYMPTOMS, faults_page
from rigproof.judging.laps import judge_all
from rigproof.profiles.loading.load import over_defaults
from rigproof.records.verdict import Outcome
from rigproof.run.simulated.trial import simulated_recording
from rigproof.simulation.faults.kinds import Late
from rigproof.stages.registry import KINDS
from support.directions import agrees
from support.fault_matrix import (
    FIRST,
    OTHER,
    SECOND,
    changes_of,
    continuous_rig,
    geforce_rig,
    rig,
    rig_of,
    run,
    run_changes,
    subject_of,
    subjects_of,
    written,
)
from support.lengths import lengths
from support.sentences import check_sentences

CASES = tuple(cases())
IDS = list(map(str, CASES))
CARDS, NODES = (FIRST, SECOND, OTHER), ("n1", "n2")


def late_of(name):
    return FAULTS[name].late or Late("")


def noticed_by(name):
    late = late_of(name)
    return FAULTS[name].trips if late.criterion is None else (late.criterion,)


LATE = [one.name for one in FAULTS.values() if "after" in one.keys and "continuous" in one.duties]
# They show on their own card alone, so that a run has one on each card.
SHARED = [name for name in LATE if all(CATALOGUE[one].scope == "device" for one in noticed_by(name))]
RUNS = math.ceil(len(SHARED) / len(CARDS))
LATE_TOGETHER = [(name,) for name in LATE if name not in SHARED] + [
    tuple(SHARED[one::RUNS]) for one in range(RUNS)
]


COOLER = ("clock-locked", "clock-drops-idle")  # than the second card's own working range lets it be


def places(case):
    """Where it may be beside others: on each of these subjects it changes no verdicts but theirs."""
    one_node = case.fault.scope == "node"
    if rig_of(case.fault) is not rig() or case.fault.name in COOLER:
        return ()
    first = subject_of(case.fault)
    alone = all(where.startswith(first) for _, where in case.changes(first, rig()))
    every = NODES if one_node else CARDS
    return every if alone and (one_node or set(every) <= set(subjects_of(case.fault, rig()))) else ()


def together():
    """The cases of each run, with their subjects; those that change others' verdicts have their own run."""
    of_case = [(case, places(case)) for case in CASES]
    found = [[(case, subject_of(case.fault))] for case, where in of_case if not where]
    for everywhere in (CARDS, NODES):
        some = [case for case, where in of_case if where == everywhere]
        runs = math.ceil(len(some) / len(everywhere))
        found += [list(zip(some[one::runs], everywhere, strict=False)) for one in range(runs)]
    return found


def test_a_healthy_rig_changes_nothing():
    assert run_changes() == {}
    assert changes_of(run(on=geforce_rig())) == {}


TOGETHER = together()


@pytest.mark.parametrize("hurt", TOGETHER, ids=lambda hurt: " ".join(str(case) for case, _ in hurt))
def test_a_fault_changes_the_verdicts_that_it_says_and_no_other(hurt):
    on = rig_of(hurt[0][0].fault)
    verdicts = run(*(written(case.fault, case.keys, on=subject) for case, subject in hurt), on=on)
    expected = [case.changes(subject, on) for case, subject in hurt]
    assert changes_of(verdicts) == dict(chain.from_iterable(map(dict.items, expected)))
    assert all(map(agrees, verdicts))
    check_sentences(verdicts)


def test_every_case_has_its_run():
    ran = Counter(str(case) for hurt in TOGETHER for case, _ in hurt)
    assert ran == Counter(IDS)


def test_whatever_a_fault_changes_besides_its_own_criterion_is_explained():
    for case in CASES:
        changed = {name for name, _ in case.changes(subject_of(case.fault), rig_of(case.fault))}
        assert changed, case
        assert case.why or changed == set(case.fault.trips), case


def test_every_criterion_fails_on_a_fault_and_names_none_that_there_is_not():
    for name, criterion in CATALOGUE.items():
        assert bool(shown_by(criterion, Outcome.FAIL)) is not criterion.surroundings, name
        if criterion.surroundings:  # what is not the rig's fault leaves it not measured, or warns
            assert shown_by(criterion, Outcome.NOT_MEASURED) or shown_by(criterion, Outcome.WARN), name
        assert {*criterion.also.fails, *criterion.also.warns, *criterion.also.unmeasured} <= set(IDS), name


def test_a_fault_is_there_for_criteria_of_the_catalogue_that_do_not_name_it_again():
    for fault in FAULTS.values():
        for name in fault.trips:
            also = CATALOGUE[name].also
            assert fault.name not in (*also.fails, *also.warns, *also.unmeasured), name


@pytest.mark.parametrize(("words", "faults", "criteria", "more"), SYMPTOMS, ids=lambda one: one[:1])
def test_what_an_owner_sees_is_shown_by_faults_that_trip_the_criteria_named(words, faults, criteria, more):
    trips = {name for fault in faults for name in FAULTS[fault].trips}
    assert set(criteria) <= trips, words
    assert all({*FAULTS[fault].trips} & {*criteria, "inventory.gpus_present"} for fault in faults), words


def test_the_page_of_faults_is_current():
    """Write it anew: python -m rigproof.judging.document."""
    assert PAGE.read_text(encoding="utf-8") == faults_page()


@pytest.mark.parametrize("faults", LATE_TOGETHER, ids=" ".join)
def test_a_fault_of_the_last_fifth_of_the_sustained_stage_is_noticed(faults):
    on = CARDS[: len(faults)] if len(faults) > 1 else [subject_of(FAULTS[faults[0]])]
    texts = [f"{name}@{subject}:{late_of(name).keys}" for name, subject in zip(faults, on, strict=True)]
    changes = changes_of(run(*texts, on=continuous_rig()))
    for name, subject in zip(faults, on, strict=True):
        outcome = ENDS[FAULTS[name].ends]
        noticed = {
            one for (one, where), found in changes.items() if found is outcome and where in (subject, "rig")
        }
        assert set(noticed_by(name)) & noticed, name
        assert noticed_by(name) == FAULTS[name].trips or not set(FAULTS[name].trips) & noticed, name


TWO = [
    (f"overheat@{FIRST}", f"overheat@{SECOND}"),
    (f"worker-killed@{FIRST}", f"worker-killed@{OTHER}"),
    (f"memory-overheat@{SECOND}", f"xid@{SECOND}"),
    (f"gpu-lost@{FIRST}", f"power-limit-off@{OTHER}"),
]


@pytest.mark.parametrize("faults", TWO, ids=" and ".join)
def test_two_faults_at_once_are_both_named(faults):
    changes = run_changes(*faults)
    for fault in faults:
        name, _, subject = fault.partition("@")
        for criterion in FAULTS[name].trips:
            where = "rig" if CATALOGUE[criterion].scope == "rig" else subject
            assert changes[criterion, where] is Outcome.FAIL


def test_two_workers_that_are_killed_are_both_named():
    by_subject = {v.subject: v for v in run(*TWO[1]) if v.criterion == "memory.success_rate"}
    failed = {subject for subject, verdict in by_subject.items() if verdict.outcome is Outcome.FAIL}
    assert failed == {FIRST, OTHER}


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


@pytest.mark.parametrize("seed", range(3))
def test_a_straggler_of_ten_percent_among_eight_equal_gpus_is_caught(seed):
    recording = simulated_recording(EIGHT, "quick", ["straggler@n1/gpu5:by=10%"], seed=seed)
    changes = changes_of(judge_all(recording))
    assert changes == {("throughput.peer_outlier", "n1/gpu5"): Outcome.FAIL}


@pytest.mark.parametrize("seed", range(3))
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


@pytest.mark.parametrize(
    ("fault", "criterion"),
    [
        ("vram-slow", "memory.bandwidth"),
        ("pcie-slow", "transfer.h2d"),
        ("tensor-cores-unused", "training.step"),
    ],
)
def test_a_rate_that_is_low_in_another_stage_than_the_card_idled_in_stands_by_itself(fault, criterion):
    verdicts = run(f"gpu-idle@{FIRST}:stage=sustained", f"{fault}@{FIRST}")
    failed = {one.criterion: one.follows for one in verdicts if one.outcome is Outcome.FAIL}
    assert failed["activity.gpu_active"] is False
    assert failed["throughput.sustained"] is True
    assert failed[criterion] is False
