"""The driver's beat: a silent head is reported once, and a stalled driver blames no one else."""

import pytest

from rigproof.cluster.driver import stage_loop
from rigproof.cluster.driver.ground import Driving
from rigproof.cluster.driver.stage_loop import FETCH_S, PAUSE_S, TICK_S, Polling
from rigproof.profiles.tables.rig import Timeouts

STALL_S = 10.0


class Members:
    """Agents or workers: counts what is asked of them."""

    def __init__(self, **pollers):
        self.checks = self.anew = 0
        self.own, self.taken, self.lost_nodes = pollers, [], []

    def take(self, name, answer):
        self.taken.append((name, answer))

    def lost(self, *arguments):
        self.lost_nodes.append(arguments)

    def pollers(self):
        return self.own

    def starting(self):
        return False

    def check_silence(self):
        self.checks += 1

    check_progress = check_silence

    def begin_anew(self, now_s):
        self.anew += 1

    def tell_steps(self):
        pass


class Watch:
    """The head's listings."""

    def __init__(self):
        self.answered_s, self.lost, self.looks = 0.0, {}, []

    def news(self):
        return self.lost

    def look(self, timeout_s):
        self.looks.append(timeout_s)

    def silent_s(self, now_s):
        return now_s - self.answered_s

    def begin_anew(self, now_s):
        self.answered_s = now_s


@pytest.fixture
def driver():
    """Polling on a clock that is set by hand."""

    class Driver:
        def __init__(self):
            self.now_s, self.events = 0.0, []
            self.agents, self.workers, self.watch = Members(), Members(), Watch()

    found = Driver()
    timeouts = Timeouts(stall_s=STALL_S, task_s=60.0, start_s=60.0, stop_s=10.0)
    found.polling = Polling(
        Driving("run", timeouts, found.events.append, lambda: found.now_s, None),
        found.agents,
        found.workers,
        found.watch,
        pause=lambda *_: None,
        next_step=lambda node: f"start {node}",
    )
    return found


def beat_at(driver, now_s, *, head=False):
    driver.now_s = now_s
    if head:
        driver.watch.answered_s = now_s
    driver.polling.beat()


def test_a_silent_head_is_reported_once(driver):
    for now_s in (0.5, 4, 8):
        beat_at(driver, now_s)
    assert driver.events == []
    for now_s in (11, 14):
        beat_at(driver, now_s)
    (event,) = driver.events
    assert (event.kind, event.subject, event.data) == ("timeout", "rig", {"limit_s": STALL_S})
    assert "Ray's GCS" in event.message


def test_a_driver_that_stood_still_blames_nobody(driver):
    beat_at(driver, 1, head=True)
    beat_at(driver, 31)
    (event,) = driver.events
    assert (event.kind, event.subject) == ("paused", "rig")
    assert 25 < event.data["paused_s"] < 30
    assert driver.polling.paused_s == event.data["paused_s"]
    assert (driver.agents.checks, driver.agents.anew) == (1, 1)
    assert (driver.workers.checks, driver.workers.anew) == (1, 1)
    assert driver.watch.answered_s == 31

    for now_s in (33, 36, 39, 42):  # from there on everybody has the full limit
        beat_at(driver, now_s)
    assert [one.kind for one in driver.events] == ["paused", "timeout"]


def test_between_two_stages_nobody_waits(driver):
    beat_at(driver, 1, head=True)
    driver.polling.rest()
    beat_at(driver, 31, head=True)
    assert driver.events == []


def test_the_first_beat_of_a_stage_may_be_the_one_that_stalls(driver):
    """As where others take the CPU as soon as the load begins."""
    driver.polling.rest()
    driver.now_s = 30.0

    def pollers():
        driver.now_s += 45.0
        return {}

    driver.agents.pollers = pollers
    driver.polling.beat()
    (event,) = driver.events
    assert event.data["paused_s"] == pytest.approx(45.0 - TICK_S - FETCH_S)
    assert (driver.workers.checks, driver.workers.anew) == (0, 1)


def test_a_beat_is_late_only_where_it_could_not_have_come_by_itself(driver):
    beat_at(driver, 1, head=True)
    due_s = driver.polling._due_s
    assert due_s == pytest.approx(1 + TICK_S + TICK_S + FETCH_S + PAUSE_S, abs=0.3)  # and what it really took
    beat_at(driver, due_s, head=True)
    assert driver.events == []
    due_s = driver.polling._due_s
    beat_at(driver, due_s + 1.0, head=True)
    (event,) = driver.events
    assert event.data["paused_s"] == driver.polling.paused_s == pytest.approx(1.0 + PAUSE_S)
    assert event.message.startswith("the driver itself stalled for about 3 s;")


def test_all_pauses_of_a_run_are_counted(driver):
    for now_s in (1, 31, 61):
        beat_at(driver, now_s, head=True)
    first, second = driver.events
    assert driver.polling.paused_s == first.data["paused_s"] + second.data["paused_s"]


def test_a_head_may_be_silent_for_as_long_as_a_stall(driver):
    for now_s in (4, 8, 10):
        beat_at(driver, now_s)
    assert driver.events == []


def test_a_lost_node_is_reported_to_agents_and_workers(driver):
    driver.watch.lost = {"pc2": "no heartbeat"}
    beat_at(driver, 1, head=True)
    (event,) = driver.events
    assert (event.kind, event.subject, event.t_s) == ("node_lost", "pc2", 1)
    assert event.message == "the node is gone: no heartbeat"
    assert event.data == {"next_step": "start pc2"}
    assert driver.agents.lost_nodes == [("pc2",)]
    assert driver.workers.lost_nodes == [("pc2", "no heartbeat")]


def test_a_node_that_is_found_lost_at_a_second_look_is_reported_too(driver):
    driver.watch.lost = {"pc2": "no heartbeat"}
    driver.polling.look_again(1.5)
    assert driver.watch.looks == [1.5]
    assert [event.subject for event in driver.events] == ["pc2"]


def test_answers_go_to_whom_they_belong(driver, monkeypatch):
    asked = []

    def answered(pollers, timeout_s, now_s):
        asked.append((pollers, timeout_s, now_s))
        return {"pc1": "a", "pc1/gpu0#0": "w"}

    monkeypatch.setattr(stage_loop, "collect", answered)
    driver.agents.own, driver.workers.own = {"pc1": "one"}, {"pc1/gpu0#0": "other"}
    driver.now_s = 3.0
    driver.polling.gather(0.25)
    assert asked == [({"pc1": "one", "pc1/gpu0#0": "other"}, 0.25, 3.0)]
    assert driver.agents.taken == [("pc1", "a")]
    assert driver.workers.taken == [("pc1/gpu0#0", "w")]
