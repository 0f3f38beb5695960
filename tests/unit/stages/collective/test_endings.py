"""What makes a group worthless or ends it early: wrong answers, and ranks that hang, die or are lost."""

import re

import pytest

from rigproof.records.measurements import Event
from rigproof.records.verdict import Outcome
from rigproof.stages.collective.stage import ALL_REDUCE, BROADCAST, OPERATIONS, STAGE
from support.collective_bench import RAN_SHORT, RANKS, TEAM, died, stuck

PASS, FAIL, NOT_MEASURED = Outcome.PASS, Outcome.FAIL, Outcome.NOT_MEASURED


def test_a_wrong_answer_fails_whatever_the_rate(bench):
    message = "all_reduce of 16 MiB on rank 1 (localhost/gpu1): 1 of 5 elements are wrong"
    data = {"operation": ALL_REDUCE, "group": "", "rank": 1, "arm": "as it is"}
    bench.recording.events.append(Event(160.0, "wrong_result", TEAM, message, STAGE, RANKS[1], data))
    found = bench.found()
    assert (found.outcome, found.detail, found.from_s) == (FAIL, message, 160.0)
    assert bench.found(BROADCAST).outcome is PASS


def test_a_wrong_answer_that_no_event_tells_fails_too(bench):
    bench.give(TEAM, {"operation": BROADCAST}, verified=False)
    assert re.fullmatch(r"wrong answers in \d+ rounds of broadcast", bench.found(BROADCAST).detail)
    assert bench.found(BROADCAST).outcome is FAIL
    assert bench.found().outcome is PASS


@pytest.mark.parametrize("told", [True, False])
def test_a_wrong_answer_fails_although_a_signal_ended_the_group_later(bench, told):
    if told:
        data = {"operation": ALL_REDUCE, "group": "", "rank": 1, "arm": "as it is"}
        bench.recording.events.append(Event(160.0, "wrong_result", TEAM, "x", STAGE, RANKS[1], data))
    else:
        bench.give(TEAM, {"operation": ALL_REDUCE, "mib": 1}, verified=False)
    stuck(bench, 0, operation=ALL_REDUCE, sequence=9)
    stuck(bench, 1, operation=ALL_REDUCE, sequence=8, held=True)
    assert bench.found().outcome is FAIL


def test_a_wrong_answer_of_a_part_of_the_team_fails_it_and_its_rounds_are_not_the_teams(bench):
    bench.give(TEAM, {"operation": BROADCAST}, group="localhost/gpu0")
    assert bench.found().outcome is PASS
    assert bench.found(BROADCAST).outcome is NOT_MEASURED
    data = {"operation": ALL_REDUCE, "group": "localhost/gpu0", "rank": 0, "arm": "as it is"}
    bench.recording.events.append(Event(160.0, "wrong_result", TEAM, "x", STAGE, RANKS[0], data))
    assert (bench.found().outcome, bench.found().detail) == (FAIL, "x")


def test_a_group_that_got_stuck_fails_there_and_is_not_measured_after(bench):
    for rank in (0, 1):
        stuck(bench, rank, operation="reduce_scatter", sequence=80 - rank)
    for operation in OPERATIONS[2:]:
        bench.without(TEAM, operation=operation)
    assert list(bench.outcomes().values()) == [PASS, PASS, FAIL, NOT_MEASURED, NOT_MEASURED]
    assert bench.found("reduce_scatter").detail.startswith("rank 1 (localhost/gpu1) stood still inside")
    assert bench.found(BROADCAST).detail.startswith("the group did not get that far: rank 1 (localhost/gpu1)")


def told_of(bench, *ranks):
    """These ranks work without P2P, as a variable says."""
    for rank in ranks:
        data = {"device": f"localhost/gpu{rank}", "variables": {"NCCL_P2P_DISABLE": "1"}}
        bench.recording.events.append(Event(150.0, "rank_variables", TEAM, "", STAGE, RANKS[rank], data))


def test_what_nccl_was_told_is_said_where_it_may_be_why(bench):
    told_of(bench, 0, 1)
    assert "NCCL_" not in bench.found().detail
    stuck(bench, 0, operation=ALL_REDUCE, sequence=9)
    assert bench.found().detail.endswith("; NCCL_P2P_DISABLE=1 is set")


def test_what_only_one_rank_was_told_is_said_with_its_device(bench):
    told_of(bench, 1)
    stuck(bench, 0, operation=ALL_REDUCE, sequence=9)
    assert bench.found().detail.endswith("; NCCL_P2P_DISABLE=1 on localhost/gpu1 alone")


@pytest.mark.parametrize("operation", ["join", "start", ALL_REDUCE])
def test_a_group_that_never_came_together_fails_by_its_first_operation(bench, operation):
    bench.without(TEAM)
    stuck(bench, 0, operation=operation, sequence=1)
    assert list(bench.outcomes().values()) == [FAIL, *[NOT_MEASURED] * 4]


def test_a_rank_that_a_signal_stopped_rejects_no_rig(bench):
    stuck(bench, 0, operation=ALL_REDUCE, sequence=9)
    stuck(bench, 1, operation=ALL_REDUCE, sequence=8, held=True)
    found = bench.found()
    assert found.outcome is NOT_MEASURED
    assert found.detail.startswith("the process of rank 1 (localhost/gpu1) was stopped by a signal")
    assert "who sent the signal" in found.remedy


def test_a_rank_that_others_kept_from_the_cpu_rejects_no_rig(bench):
    bench.host("localhost", 140, 175, cpu_percent=100, own_percent=1, own_waited_percent=90)
    stuck(bench, 0, operation=ALL_REDUCE, sequence=9)
    stuck(bench, 1, operation=ALL_REDUCE, sequence=8, limit_s=20)
    found = bench.found()
    assert found.outcome is NOT_MEASURED
    stood = "rank 1 (localhost/gpu1) stood still inside all_reduce 8 (16 MiB) while others left"
    assert found.detail.startswith(stood)
    assert found.remedy.startswith("end these programs")


@pytest.mark.parametrize(("error", "asked"), RAN_SHORT)
def test_a_rank_whose_host_gives_it_too_little_rejects_no_rig(bench, error, asked):
    died(bench, 1, error, operation=ALL_REDUCE, sequence=8)
    found = bench.found()
    assert found.outcome is NOT_MEASURED
    assert "ran short on rank 1 (localhost/gpu1) inside all_reduce 8 (16 MiB)" in found.detail
    assert found.remedy.startswith(asked)
    bench.recording.events.pop()
    died(bench, 1, "RuntimeError: it broke", operation=ALL_REDUCE, sequence=8)
    assert bench.found().outcome is FAIL


def test_what_a_signal_ended_takes_nothing_from_the_operations_before(bench):
    bench.without(TEAM, operation=BROADCAST)
    bench.without(TEAM, operation=OPERATIONS[-1])
    stuck(bench, 1, operation=BROADCAST, sequence=8, held=True)
    assert list(bench.outcomes().values()) == [PASS, PASS, PASS, NOT_MEASURED, NOT_MEASURED]
    assert "who sent the signal" in bench.found(OPERATIONS[-1]).remedy


def test_hosts_that_do_not_reach_each_other_fail_with_where_to_look(bench):
    stuck(bench, 1, operation=ALL_REDUCE, sequence=8, unreached="10.0.0.1 (timed out)")
    found = bench.found()
    assert found.outcome is FAIL
    assert found.detail.startswith("rank 1 (localhost/gpu1) could not reach rank 0's host 10.0.0.1")
    assert found.remedy.startswith("run `ping` from one of them")


def test_a_worker_that_is_lost_is_named_and_fails_elsewhere(bench):
    bench.without(TEAM)
    message = "it lost localhost/gpu1#0; the others were told to stop"
    data = {"workers": ["localhost/gpu1#0"]}
    bench.recording.events.append(Event(170.0, "crew_failed", TEAM, message, STAGE, data=data))
    found = bench.found()
    assert found.outcome is NOT_MEASURED
    assert message in found.detail
