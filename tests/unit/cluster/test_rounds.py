"""The driver's beat: a head that is silent is told once, and a driver that stood still blames nobody."""

import pytest

from rigproof.cluster.stage_loop import Rounds
from rigproof.profiles.models import Timeouts

STALL_S = 10.0


class Members:
    """Agents or workers: counts what is asked of them."""

    def __init__(self):
        self.checks = self.anew = 0

    def lines(self):
        return []

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

    answered_s = 0.0

    def news(self):
        return {}

    def silent_s(self, now_s):
        return now_s - self.answered_s

    def begin_anew(self, now_s):
        self.answered_s = now_s


@pytest.fixture
def driver():
    """Rounds on a clock that is set by hand."""

    class Driver:
        now_s = 0.0
        events = []  # noqa: RUF012 - one driver a test
        agents, workers, watch = Members(), Members(), Watch()

    found = Driver()
    found.events = []
    found.rounds = Rounds(
        found.agents,
        found.workers,
        found.watch,
        sink=found.events.append,
        now_s=lambda: found.now_s,
        timeouts=Timeouts(stall_s=STALL_S),
        pause=lambda *_: None,
    )
    return found


def beat_at(driver, now_s, *, head=False):
    driver.now_s = now_s
    if head:
        driver.watch.answered_s = now_s
    driver.rounds.beat()


def test_a_silent_head_is_told_once(driver):
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
    assert driver.rounds.paused_s == event.data["paused_s"]
    assert (driver.agents.checks, driver.agents.anew) == (1, 1)
    assert (driver.workers.checks, driver.workers.anew) == (1, 1)

    for now_s in (33, 36, 39, 42):  # from there on everybody has the full limit
        beat_at(driver, now_s)
    assert [one.kind for one in driver.events] == ["paused", "timeout"]


def test_between_two_stages_nobody_waits(driver):
    beat_at(driver, 1, head=True)
    driver.rounds.rest()
    beat_at(driver, 31, head=True)
    assert driver.events == []
