"""What the driver notes of a task that a worker was given."""

import dataclasses

from rigproof.records.crews import Member
from rigproof.records.measurements import Event
from support.driven_workers import FIRST, SECOND, START_S, done_round


def test_a_task_is_given_to_who_is_ready_for_it(staff):
    alone = Member("pc1/gpu0")
    assert not staff.workers.ready("pc9/gpu0#0")
    assert not staff.workers.ready(FIRST)  # still starting
    staff.answers(FIRST, "ready")
    assert staff.workers.ready(FIRST)
    staff.workers.begin(FIRST, "spec", 1.5, alone)
    assert staff.made[0][2].calls[1:] == [("start", 1, "spec", 1.5, alone, 0)]
    assert not staff.workers.ready(FIRST)  # at work
    staff.answers(FIRST, "finished", progress=1)
    assert staff.workers.ready(FIRST)
    staff.workers.begin(FIRST, "other", 3.0, alone, ahead=2)
    assert staff.made[0][2].calls[-1] == ("start", 2, "other", 3.0, alone, 2)
    staff.workers.lost("pc1", "off")
    assert not staff.workers.ready(FIRST)


def test_a_worker_that_takes_part_in_several_turns_of_a_stage_is_replaced_once_in_it(lonely):
    lonely.works()
    lonely.check_at(START_S + 1)
    lonely.works(begin_s=70.0)
    lonely.check_at(70.0 + START_S + 1)
    assert (len(lonely.made), lonely.slot().state) == (2, "vacant")


def test_a_task_s_rounds_and_end_are_noted(lonely):
    lonely.works()
    lonely.answers(progress=1, records=[done_round(3.0)])
    lonely.answers(progress=2, records=[done_round(4.0), done_round(5.0)])
    lonely.answers(progress=2, state="finished")
    slot = lonely.slot()
    assert (slot.first_round_s, slot.last_round_s, slot.finished_s) == (3.0, 5.0, 5.0)
    assert (slot.state, slot.outcome, slot.progress) == ("finished", "finished", 2)
    assert [one.t_s for one in lonely.records] == [3.0, 4.0, 5.0]


def test_only_rounds_and_only_while_it_works_are_a_task_s_rounds(lonely):
    lonely.answers(state="ready", records=[done_round(1.0)])
    lonely.works()
    lonely.answers(records=[Event(2.0, "oom", "pc1/gpu0", "3 GiB wanted", "sustained", FIRST)])
    assert (lonely.slot().first_round_s, lonely.slot().last_round_s) == (None, None)
    lonely.answers(progress=1, records=[done_round(3.0)], state="finished")
    lonely.answers(state="finished", records=[done_round(9.0)])
    assert (lonely.slot().first_round_s, lonely.slot().last_round_s) == (3.0, 3.0)
    assert len(lonely.records) == 3  # all are passed on


def test_another_step_of_load_is_noted_once(lonely):
    lonely.works()
    later = dataclasses.replace(done_round(4.0), labels={"precision": "fp16"})
    lonely.answers(progress=1, records=[done_round(3.0), done_round(3.5), later])
    first, second = lonely.steps
    assert first[:2] == second[:2] == ("pc1", FIRST)
    assert ("bf16" in first[2], "fp16" in second[2]) == (True, True)
    lonely.answers(progress=2, state="finished", records=[later])
    lonely.works(begin_s=9.0)
    lonely.answers(progress=1, records=[later])  # of another task: reported again
    assert lonely.steps[2:] == [second]


def test_a_task_that_ended_without_a_round_ended_when_it_was_seen(lonely):
    lonely.works()
    lonely.now_s = 7.0
    lonely.answers(state="finished")
    assert (lonely.slot().finished_s, lonely.slot().first_round_s) == (7.0, None)


def test_a_new_task_forgets_the_rounds_of_the_one_before(lonely):
    lonely.works()
    lonely.answers(progress=1, state="finished", records=[done_round(3.0)])
    lonely.works(begin_s=9.0)
    slot = lonely.slot()
    assert (slot.first_round_s, slot.last_round_s, slot.finished_s, slot.outcome) == (
        None,
        None,
        None,
        "none",
    )


def test_the_end_of_an_earlier_task_is_not_that_of_this_one(lonely):
    lonely.works()
    lonely.answers(state="finished", progress=4, task=0)
    assert (lonely.slot().state, lonely.slot().progress) == ("working", 0)


def test_only_those_at_work_are_told_to_stop(staff):
    staff.works(FIRST)
    staff.answers(SECOND, "ready")
    staff.workers.stop_tasks()
    first, second, cpu = (actor.calls for *_, actor in staff.made)
    assert ("stop",) in first
    assert [method for method, *_ in second + cpu] == ["become", "become"]


def test_memory_that_ran_out_is_reported_with_who_holds_it(lonely):
    lonely.works()
    lonely.answers(records=[Event(2.0, "oom", "pc1/gpu0", "3 GiB wanted", "sustained", FIRST)])
    assert [event.message for event in lonely.events] == ["3 GiB wanted, held on pc1"]
