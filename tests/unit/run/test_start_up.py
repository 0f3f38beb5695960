"""When the parts of a start ended."""

import time

from rigproof.host import processes
from rigproof.run.start_up import StartUp


def test_a_process_is_as_old_as_its_first_clock_tick_says():
    first_s = processes.age_s()
    assert 0 < first_s <= processes.age_s()


def test_the_parts_are_told_in_run_time_in_the_order_in_which_they_ended():
    start_up = StartUp()
    start_up.ended("imports")
    origin_s = time.monotonic()
    start_up.ended("ray")
    event = start_up.event(origin_s)
    assert (event.kind, event.subject) == ("start_up", "rig")
    ended_s = event.data["ended_s"]
    assert list(ended_s) == ["imports", "ray"]
    assert event.data["process_s"] < ended_s["imports"] <= 0 <= ended_s["ray"] <= event.t_s + 0.001
