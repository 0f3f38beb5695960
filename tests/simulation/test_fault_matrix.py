"""Each fault of the catalogue changes the verdicts that it should, and no other."""

from pathlib import Path

import pytest

from rigproof.judging.catalogue import CATALOGUE
from rigproof.judging.judge import judge_all
from rigproof.profiles.loading.load import over_defaults
from rigproof.records.verdict import Outcome
from rigproof.run.simulated.trial import simulated_recording
from rigproof.simulation.faults.catalogue import BY_NAME, KINDS
from rigproof.stages.registry import KINDS as STAGE_KINDS
from support.fault_matrix import (
    CASES,
    FIRST,
    LATE,
    LONGER,
    OTHER,
    SECOND,
    Changes,
    changes_of,
    markdown,
    run,
    run_changes,
)
from support.lengths import lengths

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"
LATE_KINDS = [kind for kind in KINDS if "after" in kind.keys and kind.stage == "sustained"]


def test_a_healthy_rig_changes_nothing():
    assert run_changes() == Changes()


@pytest.mark.parametrize("case", CASES, ids=[case.fault for case in CASES])
def test_a_fault_changes_the_verdicts_that_it_says_and_no_other(case):
    assert run_changes(case.fault) == case.stated()


@pytest.mark.parametrize("case", CASES, ids=[case.fault for case in CASES])
def test_whatever_a_fault_changes_besides_its_own_criterion_is_explained(case):
    stated = case.stated()
    changed = {name for name, _ in stated.fails | stated.warns | stated.unmeasured}
    assert case.why or changed == set(case.kind.trips)


def test_every_fault_of_the_catalogue_is_in_the_matrix():
    assert {case.kind.name for case in CASES} == set(BY_NAME)


@pytest.mark.parametrize("kind", KINDS, ids=BY_NAME)
def test_what_a_fault_is_said_to_trip_is_what_it_trips_and_says_so_itself(kind):
    own = next(case for case in CASES if case.kind is kind).stated()
    found = {1: own.fails, 0: own.warns, 6: own.unmeasured}[kind.ends]
    assert set(kind.trips) <= {name for name, _ in found}
    if kind.ends == 1:
        assert all(kind.name in CATALOGUE[name].faults for name in kind.trips)
    if kind.ends == 0:
        assert all(kind.name in CATALOGUE[name].warns_on for name in kind.trips)


@pytest.mark.parametrize("criterion", CATALOGUE.values(), ids=CATALOGUE)
def test_every_criterion_has_faults_and_each_that_it_names_is_shown_tripping_it(criterion):
    failed, warned = set(), set()
    for case in CASES:
        stated = case.stated()
        failed |= {case.kind.name for name, _ in stated.fails if name == criterion.name}
        warned |= {case.kind.name for name, _ in stated.warns if name == criterion.name}
    assert criterion.faults
    assert set(criterion.faults) <= failed
    assert set(criterion.warns_on) <= warned


def test_the_page_of_faults_is_current():
    """Write it anew: PYTHONPATH=.:tests python -m support.fault_matrix > docs/faults.md."""
    assert PAGE.read_text(encoding="utf-8") == markdown()


@pytest.mark.parametrize("kind", LATE_KINDS, ids=[kind.name for kind in LATE_KINDS])
def test_a_fault_of_the_last_fifth_of_the_sustained_stage_is_noticed(kind):
    by = {"throughput-sag": ",by=30%"}.get(kind.name, "")
    after, _ = LONGER.get(kind.name, ("80%", ""))
    changes = run_changes(f"{kind.name}:after={after}{by}")
    changed = {0: changes.warns, 1: changes.fails, 6: changes.unmeasured}[kind.ends]
    noticed = {name for name, _ in changed}
    if kind.name in LATE:
        assert LATE[kind.name][0] in noticed
        assert not set(kind.trips) & noticed
    else:
        assert set(kind.trips) & noticed


TWO = [
    (f"overheat@{FIRST}", f"ecc-uncorrected@{OTHER}"),
    (f"overheat@{FIRST}", f"overheat@{SECOND}"),
    (f"worker-killed@{FIRST}", f"worker-killed@{OTHER}"),
    (f"memory-overheat@{SECOND}", f"xid@{SECOND}"),
    (f"gpu-lost@{FIRST}", f"power-limit-off@{OTHER}"),
    (f"clock-stuck@{SECOND}", f"pcie-degraded@{OTHER}"),
    ("cpu-starved@n1", "host-frozen@n2"),
]


@pytest.mark.parametrize("faults", TWO, ids=" and ".join)
def test_two_faults_at_once_are_both_named(faults):
    changes = run_changes(*faults)
    for fault in faults:
        name, _, subject = fault.partition("@")
        for criterion in BY_NAME[name].trips:
            where = "rig" if CATALOGUE[criterion].scope == "rig" else subject
            assert (criterion, where) in changes.fails


def test_two_workers_that_are_killed_are_both_named():
    told = {v.subject: v for v in run(*TWO[2]) if v.criterion == "memory.success_rate"}
    failed = {subject for subject, verdict in told.items() if verdict.outcome is Outcome.FAIL}
    assert failed == {FIRST, OTHER}


EIGHT = over_defaults(
    {
        "name": "eight",
        "sampling": {"rate_hz": 4},
        **lengths("quick", settle_s=4, measure_s=2, sustained=30, round_s=0.5),
        "nodes": [{"name": "n1", "cpus": 64, "gpus": [{"sku": "h200-sxm"}] * 8}],
    },
    "eight",
    STAGE_KINDS,
)


@pytest.mark.parametrize("seed", range(3))
def test_a_straggler_of_ten_percent_among_eight_equal_gpus_is_caught(seed):
    recording = simulated_recording(EIGHT, "quick", ["straggler@n1/gpu5:by=10%"], seed=seed)
    changes = changes_of(judge_all(recording))
    assert changes == Changes(fails=frozenset({("throughput.peer_outlier", "n1/gpu5")}))


@pytest.mark.parametrize("seed", range(3))
def test_three_percent_among_eight_equal_gpus_are_no_alarm(seed):
    recording = simulated_recording(EIGHT, "quick", ["straggler@n1/gpu5:by=3%"], seed=seed)
    assert changes_of(judge_all(recording)) == Changes()
