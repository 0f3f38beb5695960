from rigproof.cluster.driver.stage_loop import loaded_window
from rigproof.cluster.driver.workers import Slot
from rigproof.profiles.planning.plan import WorkerPlan


def slot(first_s, finished_s, outcome="finished"):
    plan = WorkerPlan("n/cpu0#0", "n/cpu0", "n", "cpu", 0, 1, 8, 256)
    return Slot(plan, first_round_s=first_s, finished_s=finished_s, outcome=outcome)


def test_loaded_is_from_the_slowest_start_to_the_first_end():
    assert loaded_window([slot(1.0, 9.0), slot(2.5, 8.0)]) == (2.5, 8.0)


def test_a_worker_that_failed_does_not_shorten_the_window_of_the_others():
    assert loaded_window([slot(1.0, 9.0), slot(7.0, None, "failed")]) == (1.0, 9.0)


def test_without_a_finished_worker_there_is_no_window():
    assert loaded_window([]) == (None, None)
    assert loaded_window([slot(1.0, None, "failed")]) == (None, None)
    assert loaded_window([slot(None, 5.0)]) == (None, None)


def test_workers_that_never_worked_together_have_no_window():
    assert loaded_window([slot(1.0, 2.0), slot(3.0, 4.0)]) == (None, None)
