"""Workers without progress: the driver's deadlines on a clock set by hand."""

from support.driven_workers import CPU, FIRST, PLANS, SECOND, STALL_S, START_S, Staff


def test_before_the_first_round_a_task_has_the_limit_of_a_start(lonely):
    lonely.works()
    lonely.check_at(START_S)
    assert lonely.events == []
    lonely.check_at(START_S + 0.1)
    (event,) = lonely.events
    assert (event.kind, event.message) == ("worker_hung", "no finished round for 60 s; rigproof ended it")
    assert (event.data["limit_s"], event.data["pid"], event.data["generation"]) == (START_S, 100, 0)
    assert event.stage == "sustained"


def test_after_a_round_the_next_one_has_the_limit_of_a_stall(lonely):
    lonely.works()
    lonely.now_s = 20.0
    lonely.answers(progress=1)
    lonely.check_at(20.0 + STALL_S)
    assert lonely.events == []
    lonely.check_at(20.0 + STALL_S + 0.1)
    (event,) = lonely.events
    assert (event.kind, event.data["limit_s"]) == ("worker_hung", STALL_S)


def test_signs_of_life_are_progress_and_no_rounds(lonely):
    lonely.works()
    for number in range(1, 5):
        lonely.now_s = number * STALL_S
        lonely.answers(progress=number)
        lonely.check_at(lonely.now_s + STALL_S)
    assert lonely.events == []
    assert (lonely.slot().progress, lonely.slot().first_round_s) == (4, None)


def test_where_a_stall_may_be_longer_than_a_start_it_is_the_limit_of_the_first_round_too():
    staff = Staff(PLANS[:1], start_s=5.0, stall_s=STALL_S)
    staff.works()
    staff.check_at(STALL_S)
    assert staff.events == []
    staff.check_at(STALL_S + 0.1)
    assert staff.events[0].data["limit_s"] == STALL_S


def test_an_answer_without_a_new_round_is_no_progress(lonely):
    lonely.works()
    lonely.now_s = 5.0
    lonely.answers(progress=1)
    lonely.now_s = 14.0
    lonely.answers(progress=1)
    lonely.check_at(15.1)
    assert lonely.kinds() == ["worker_hung"]


def test_a_task_counts_from_its_begin_and_not_from_the_one_before(lonely):
    lonely.works()
    lonely.answers(progress=3, state="finished")
    lonely.now_s = 100.0
    lonely.works(begin_s=100.5)
    assert lonely.slot().progress == 0
    lonely.check_at(160.5)
    assert lonely.events == []
    lonely.check_at(160.6)
    assert lonely.kinds() == ["worker_hung"]


def test_a_worker_that_owes_an_answer_is_killed_whatever_it_does(lonely):
    lonely.answers(state="ready")
    lonely.slot().poller.send(1.0)
    lonely.check_at(1.0 + STALL_S)
    assert lonely.events == []
    lonely.check_at(1.0 + STALL_S + 0.1)
    (event,) = lonely.events
    assert (event.kind, event.message) == ("worker_hung", "no answer for 10 s; rigproof ended it")
    assert event.data["limit_s"] == STALL_S


def test_who_has_no_task_may_be_without_rounds_for_ever(lonely):
    lonely.answers(state="ready")
    lonely.check_at(1000.0)
    lonely.works(begin_s=1000.0)
    lonely.answers(state="finished", progress=1)
    lonely.check_at(2000.0)
    assert lonely.events == []


def test_a_driver_that_stood_still_gives_everybody_the_full_limit_again(staff):
    staff.works()
    staff.works(CPU, begin_s=90.0)
    staff.now_s = 50.0
    staff.workers.begin_anew(50.0)
    assert (staff.slot().progress_s, staff.slot(SECOND).since_s) == (50.0, 50.0)
    assert staff.slot(CPU).progress_s == 90.0  # it only begins then
    staff.check_at(50.0 + START_S)
    assert staff.events == []
    staff.check_at(50.0 + START_S + 0.1)
    assert [(event.kind, event.worker) for event in staff.events] == [
        ("worker_hung", FIRST),
        ("gpu_taken", SECOND),
    ]


def test_a_driver_that_stood_still_forgets_that_an_answer_is_owed(lonely):
    lonely.answers(state="ready")
    lonely.slot().poller.send(1.0)
    lonely.workers.begin_anew(30.0)
    lonely.check_at(35.0)
    assert lonely.events == []
