"""What the ways between a node's GPUs are judged by: arms that are fine, slow, lie or hang."""

import re
from dataclasses import replace

import pytest

from rigproof.profiles.loading.load import over_defaults
from rigproof.records.measurements import Event
from rigproof.records.verdict import Outcome
from rigproof.run.simulated.trial import simulated_recording
from rigproof.stages.collective.stage import ALL_REDUCE, STAGE
from rigproof.stages.registry import KINDS
from support.collective_bench import RAN_SHORT, RANKS, TEAM, CollectiveBench, died, stuck
from support.equal_hosts import NONE
from support.lengths import lengths
from support.sentences import check_sentences

PASS, FAIL, NOT_MEASURED = Outcome.PASS, Outcome.FAIL, Outcome.NOT_MEASURED
NO_LIMIT, NOT_APPLICABLE, WARN = Outcome.NO_LIMIT, Outcome.NOT_APPLICABLE, Outcome.WARN


@pytest.fixture(scope="module")
def extended():
    """Two H200 that do little else."""
    node = {"name": TEAM, "cpus": 32, "ram_gib": 512, "gpus": [{"sku": "h200-sxm"}] * 2}
    tables = lengths("extended", settle_s=1, measure_s=1, **(NONE | {"sustained": 2, "peer": 0.6, STAGE: 20}))
    loaded = over_defaults({"name": "two", **tables, "nodes": [node]}, "two.toml", KINDS)
    return simulated_recording(loaded, "extended"), loaded


@pytest.fixture
def arms(extended):
    return CollectiveBench(*extended, STAGE)


P2P_OFF, SHM_OFF = "without P2P", "without P2P and shared memory"


def test_a_size_that_an_arm_was_told_to_do_is_due(arms):
    arms.without(TEAM, mib=0, arm=SHM_OFF)
    found = arms.found("path")
    assert found.outcome is NOT_MEASURED
    assert found.detail == "too few verified rounds of all_reduce of 4 B (odd numbers)"


def test_without_what_the_ranks_were_told_nobody_knows_of_arms(arms):
    stage = arms.recording.stages[STAGE]
    arms.recording.stages = {**arms.recording.stages, STAGE: replace(stage, settings={})}
    found = arms.found("path")
    assert (found.outcome, found.detail) == (NOT_MEASURED, "what its workers were told to do is not recorded")


def test_arms_tell_what_each_way_carries(arms):
    found = arms.found("path")
    assert (found.outcome, found.limit) == (PASS, None)
    told = rf"16 MiB as it is 22\d, {P2P_OFF} 1\d\.\d, {SHM_OFF} 2\.\d\d"
    assert re.fullmatch(told, found.detail)


def test_a_level_without_arms_has_none_to_judge(bench):
    assert bench.found("path").outcome is NOT_APPLICABLE
    assert bench.found("path").detail == "this level has arms only after a failure"


@pytest.mark.parametrize("missing", [P2P_OFF, SHM_OFF, "as it is"])
def test_an_arm_that_was_not_measured_is_no_pass(arms, missing):
    arms.without(TEAM, arm=missing)
    assert arms.found("path").outcome is NOT_MEASURED


def test_p2p_that_is_slower_than_the_host_warns_with_what_works_around_it(arms):
    arms.slower(TEAM, 0.05, arm="as it is")
    found = arms.found("path")
    assert found.outcome is WARN
    assert re.search(r"; `export NCCL_P2P_DISABLE=1` gives 1\d\.\d of 11\.\d GB/s as it is$", found.detail)
    assert "ACS" in found.remedy
    check_sentences([found])


HOST_SLOW, SOCKETS_ONLY = "host memory is slow: sockets are faster", "as slow as by sockets"


@pytest.mark.parametrize(
    ("as_it_is", "without_p2p", "outcome", "said"),
    [
        (1.0, 1.0, PASS, ""),
        (0.078, 1.0, PASS, "P2P is not used, or gives nothing"),
        (1.0, 0.13, PASS, HOST_SLOW),
        (1.0, 0.15, PASS, ""),  # as fast as sockets, but for noise
        (0.0125, 0.15, PASS, SOCKETS_ONLY),
        (0.0125, 0.05, PASS, f"{HOST_SLOW}; {SOCKETS_ONLY}"),
        (0.0125, 1.0, WARN, SOCKETS_ONLY),
        (0.01, 0.05, WARN, HOST_SLOW),  # which explains the other
    ],
)
def test_what_the_difference_between_arms_says_is_a_sentence(arms, as_it_is, without_p2p, outcome, said):
    arms.slower(TEAM, as_it_is, arm="as it is")
    arms.slower(TEAM, without_p2p, arm=P2P_OFF)
    found = arms.found("path")
    parts = [one for one in found.detail.split("; ")[1:] if not one.startswith("`export")]
    assert (found.outcome, "; ".join(parts)) == (outcome, said)
    check_sentences([found])


def test_where_sockets_alone_are_fastest_host_memory_is_to_be_looked_at(arms):
    arms.slower(TEAM, 0.01, arm="as it is")
    arms.slower(TEAM, 0.05, arm=P2P_OFF)
    found = arms.found("path")
    assert "; `export NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1` gives 2.7" in found.detail
    assert found.remedy.startswith("check host memory")


@pytest.mark.parametrize(("arm", "remedy"), [(P2P_OFF, "check host memory"), (SHM_OFF, "check the network")])
def test_an_arm_that_lies_is_no_pass_and_where_it_is_right_as_it_is_nothing_is_to_be_switched_off(
    arms, arm, remedy
):
    lie(arms, arm)
    found = arms.found("path")
    assert (found.outcome, found.detail) == (FAIL, f"{arm}: wrong answers; as it is: right")
    assert found.remedy.startswith(remedy)
    assert arms.found().outcome is PASS
    check_sentences([found])


def test_where_p2p_lies_what_works_around_it_is_said_with_what_it_costs(arms):
    lie(arms, "as it is")
    done = {"arm": "by LL alone", "teams": [TEAM], "done": {TEAM: [[ALL_REDUCE, 16]]}}
    arms.recording.events.append(Event(170.0, "arm_tried", "rig", "x", STAGE, data=done))
    found = arms.found("path")
    said = r"as it is: wrong answers; `export NCCL_P2P_DISABLE=1` gives 1\d\.\d of 22\d GB/s as it is"
    assert re.fullmatch(said, found.detail)
    assert "ACS" in found.remedy
    assert arms.found().outcome is FAIL


def lie(arms, arm):
    """A rank's answers are wrong in this arm."""
    data = {"operation": ALL_REDUCE, "mib": 16, "group": "", "rank": 1, "arm": arm}
    arms.recording.events.append(Event(160.0, "wrong_result", TEAM, "x", STAGE, RANKS[1], data))


def test_where_each_arm_lies_no_way_is_to_blame(arms):
    for arm in ("as it is", P2P_OFF, SHM_OFF):
        lie(arms, arm)
    found = arms.found("path")
    assert (found.outcome, found.detail.endswith("; so it is none of the ways between them")) == (FAIL, True)
    assert found.remedy.startswith("see whom collective.all_reduce names")


def test_an_arm_that_hangs_fails(arms):
    for rank in (0, 1):
        stuck(arms, rank, operation=ALL_REDUCE, sequence=9, arm=P2P_OFF)
    assert arms.found("path").detail == f"{P2P_OFF}: stuck; as it is: right"
    assert arms.found().outcome is PASS


def test_an_arm_that_a_signal_ended_is_not_measured(arms):
    stuck(arms, 1, operation=ALL_REDUCE, sequence=9, arm=P2P_OFF, held=True)
    assert arms.found("path").outcome is NOT_MEASURED


@pytest.mark.parametrize("error", [error for error, _ in RAN_SHORT])
def test_an_arm_whose_host_gives_it_too_little_is_not_measured(arms, error):
    died(arms, 1, error, operation=ALL_REDUCE, sequence=9, arm=P2P_OFF)
    assert arms.found("path").outcome is NOT_MEASURED
    arms.recording.events.pop()
    died(arms, 1, "RuntimeError: it broke", operation=ALL_REDUCE, sequence=9, arm=P2P_OFF)
    assert arms.found("path").outcome is FAIL


def test_an_arm_that_lies_fails_although_a_signal_ended_another_one(arms):
    lie(arms, P2P_OFF)
    stuck(arms, 1, operation=ALL_REDUCE, sequence=9, held=True)
    arms.without(TEAM, arm=SHM_OFF)  # and what works around it was not measured
    found = arms.found("path")
    assert (found.outcome, found.detail.split(";")[0]) == (FAIL, f"{P2P_OFF}: wrong answers")
