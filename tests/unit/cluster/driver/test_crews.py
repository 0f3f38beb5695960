"""Crews that meet, lose a member, and end: on a clock set by hand."""

from types import SimpleNamespace

import pytest

from rigproof.cluster.driver.crews import LOOPBACK, CrewAtWork, begin_turn, rendezvous
from rigproof.cluster.driver.ground import Driving
from rigproof.cluster.driver.workers import Slot
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.profiles.tables.rig import Timeouts
from rigproof.records.crews import Crew, Member

STOP_S = 4.0
NODES = {"pc1": "10.0.0.1", "pc2": "10.0.0.2"}
NAMES = ("pc1/gpu0#0", "pc1/gpu1#0", "pc2/gpu0#0", "pc2/gpu1#0")
ACROSS, HERE = Crew("across", (NAMES[0], NAMES[2])), Crew("here", (NAMES[0], NAMES[1]))


class Rig:
    """Four workers, and agents that report free ports from 1 on, unless their host is silent."""

    def __init__(self, *, gone=(), silent=()):
        plans = [WorkerPlan(one, one[:-2], one[:3], "cuda", 1.0, 1.0, 64.0, 256) for one in NAMES]
        self.slots = {plan.worker: Slot(plan) for plan in plans}
        self.links = {
            name: SimpleNamespace(found=SimpleNamespace(address=address)) for name, address in NODES.items()
        }
        self.stage = "exchange"
        self.calls, self.events, self.asked_for = [], [], {}
        self._gone, self._silent = gone, silent

    def free_ports(self, wanted):
        self.asked_for = dict(wanted)
        return {
            place: tuple(range(1, count + 1))
            for place, count in wanted.items()
            if place[0] not in self._silent
        }

    def ready(self, name):
        return name not in self._gone

    def begin(self, name, spec, start_at_s, member, *, ahead):
        self.calls.append((name, spec, start_at_s, member))

    def stop_tasks(self, slots):
        self.calls.append(("stop", *(slot.plan.worker for slot in slots)))

    def hung(self, slot, why, limit_s):
        self.calls.append(("hung", slot.plan.worker, why, limit_s))
        slot.outcome = "failed"

    def begins(self, *crews):
        specs = {name: f"spec of {name}" for name in NAMES}
        timeouts = Timeouts(stop_s=2 * STOP_S, start_s=60.0, stall_s=30.0, task_s=60.0)
        driving = Driving("run", timeouts, self.events.append, lambda: 10.0, None)
        return begin_turn(crews, specs, self, self, driving, head_start_s=0.5)

    def at_work(self, crew=ACROSS):
        return CrewAtWork(crew, self, STOP_S)


@pytest.fixture
def rig():
    """Everybody is there."""
    return Rig()


# Meeting


def test_on_one_host_a_crew_meets_on_loopback_and_else_where_the_others_reach_it(rig):
    assert rendezvous([HERE, ACROSS], rig.slots, rig) == {HERE: (LOOPBACK, 1), ACROSS: ("10.0.0.1", 1)}


def test_two_nodes_of_one_address_are_one_host(rig):
    rig.links["pc2"].found.address = "10.0.0.1"
    assert rendezvous([ACROSS], rig.slots, rig) == {ACROSS: (LOOPBACK, 1)}


def test_crews_of_one_host_have_ports_of_their_own(rig):
    other = Crew("other", (NAMES[1], NAMES[3]))
    assert rendezvous([ACROSS, other], rig.slots, rig) == {ACROSS: ("10.0.0.1", 1), other: ("10.0.0.1", 2)}
    assert rig.asked_for == {("pc1", "10.0.0.1"): 2}


def test_who_works_alone_meets_nobody(rig):
    start_at_s, begun = rig.begins(Crew("pc1/gpu0", NAMES[:1]))
    assert (start_at_s, rig.asked_for) == (10.5, {})
    assert rig.calls == [
        (NAMES[0], f"spec of {NAMES[0]}", 10.5, Member("pc1/gpu0", 0, 1, None, 10.5, NAMES[:1]))
    ]
    assert [one.crew.subject for one in begun] == ["pc1/gpu0"]


def test_each_member_is_told_its_rank_the_same_place_and_the_same_moment(rig):
    rig.begins(ACROSS)
    place = ("10.0.0.1", 1)
    assert [(name, member) for name, _, _, member in rig.calls] == [
        (NAMES[0], Member("across", 0, 2, place, 10.5, ACROSS.workers)),
        (NAMES[2], Member("across", 1, 2, place, 10.5, ACROSS.workers)),
    ]


def test_a_crew_without_one_of_its_members_does_not_begin_and_an_event_says_so():
    rig = Rig(gone={NAMES[2]})
    _, begun = rig.begins(ACROSS, Crew("pc2/gpu0", (NAMES[2],)), Crew("pc1/gpu1", (NAMES[1],)))
    assert [one.crew.subject for one in begun] == ["pc1/gpu1"]
    (event,) = rig.events  # of a worker that is not there alone, its own events say so
    assert (event.kind, event.subject, event.stage) == ("crew_failed", "across", "exchange")
    assert event.message == "it did not begin: there is no process of pc2/gpu0#0"
    assert event.data == {"workers": [NAMES[2]], "size": 2}


def test_a_host_that_reports_no_port_has_no_crew():
    rig = Rig(silent={"pc1"})
    assert rig.begins(ACROSS)[1] == []
    assert rig.events[0].message == "it did not begin: the host of its rank 0 reported no free port"


# Ending


def test_a_crew_is_finished_where_all_of_it_is(rig):
    crew = rig.at_work()
    first, second = crew.slots
    first.outcome = "finished"
    assert (crew.working, crew.finished) == (True, False)
    second.outcome = "finished"
    assert (crew.working, crew.finished, crew.check(1.0)) == (False, True, None)


def test_where_one_is_lost_the_others_are_told_to_stop_once(rig):
    crew = rig.at_work(Crew("all", NAMES))
    crew.slots[1].outcome = "failed"
    event = crew.check(20.0)
    assert event.message == "it lost pc1/gpu1#0; the others were told to stop"
    assert rig.calls == [("stop", NAMES[0], NAMES[2], NAMES[3])]
    assert crew.check(20.5) is None
    for slot in crew.slots:
        slot.outcome = "finished" if slot.outcome == "none" else slot.outcome
    assert (crew.working, crew.finished, len(rig.calls)) == (False, False, 1)


def test_one_that_is_lost_last_had_left_the_others_alone(rig):
    """They ended by deadlines of their own before its host was known to be gone."""
    crew = rig.at_work()
    crew.slots[0].outcome = "finished"
    assert crew.check(10.0) is None
    crew.slots[1].outcome = "failed"
    event = crew.check(20.0)
    assert (event.message, event.data) == ("it lost pc2/gpu0#0", {"workers": [NAMES[2]], "size": 2})
    assert crew.check(30.0) is None
    assert not crew.finished


def test_who_is_replaced_later_does_not_make_a_crew_that_lost_it_whole(rig):
    crew = rig.at_work()
    crew.slots[0].outcome = "failed"
    crew.check(20.0)
    for slot in crew.slots:
        slot.outcome = "finished"
    assert not crew.finished


def test_who_does_not_stop_in_time_is_killed(rig):
    crew = rig.at_work()
    crew.slots[0].outcome = "failed"
    crew.check(20.0)
    crew.check(20.0 + STOP_S)
    assert crew.working
    crew.check(20.0 + STOP_S + 0.1)
    why = "its crew across ended, and it did not stop for 4 s"
    assert rig.calls[1:] == [("hung", NAMES[2], why, STOP_S)]
    assert not crew.working


def test_a_driver_that_stood_still_gives_them_all_their_time_again(rig):
    crew = rig.at_work()
    crew.begin_anew(5.0)  # nothing was waited for
    crew.slots[0].outcome = "failed"
    crew.check(20.0)
    crew.begin_anew(60.0)
    crew.check(60.0 + STOP_S)
    assert crew.working
