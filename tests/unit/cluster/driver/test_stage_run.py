"""One stage from begin to end, with workers that do what a test says, on a clock that a beat moves on."""

import dataclasses
from types import SimpleNamespace

import pytest

from rigproof.cluster.driver import stage_loop
from rigproof.cluster.driver.ground import Driving
from rigproof.cluster.driver.stage_loop import HEAD_START_S, LAST_CALL_S, TICK_S, StageRun, loaded_window
from rigproof.cluster.driver.workers import Slot
from rigproof.host.cpu_band import HostLoad
from rigproof.profiles.kinds.stages import StagePlan
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.profiles.tables.rig import Timeouts
from rigproof.records.crews import Crew
from rigproof.records.measurements import Event
from rigproof.stages.sustained.stage import SustainedSpec

EXPECTED_S, TASK_S, STOP_S = 100.0, 20.0, 8.0
DEADLINE_S = HEAD_START_S + EXPECTED_S + TASK_S
PLAN = StagePlan("sustained", EXPECTED_S, 5.0, 95.0, 0.5)
SPEC = SustainedSpec("sustained", 256, 64.0, EXPECTED_S, 5.0, 0.5)
LOADS = {"pc1": HostLoad(6, 1, 77.5)}
FIRST, SECOND = "pc1/gpu0#0", "pc1/gpu0#1"
EACH = ((Crew("pc1/gpu0", (FIRST,)), Crew("pc1/gpu0", (SECOND,))),)


class Team:
    """Two workers. Each beat takes a second, and does what `at` has for its number."""

    def __init__(self, refuse=()):
        self.now_s, self.beats, self.at, self.calls, self.recorded = 0.0, 0, {}, [], []
        self.to_be_waited_for = []  # by beat
        self.lengths_s = []  # likewise
        self.paused_s = 0.0
        self.stage = None
        plans = [WorkerPlan(name, "pc1/gpu0", "pc1", "cuda", 0.5, 1.0, 64.0, 256) for name in (FIRST, SECOND)]
        self.slots = {plan.worker: Slot(plan) for plan in plans}
        self.links = {"pc1": SimpleNamespace(found=SimpleNamespace(address="10.0.0.1"))}
        self.members = []
        self._refuse = refuse
        self.workers = self.agents = self  # what both are asked for goes by other names
        self.driving = Driving(
            "run",
            Timeouts(task_s=TASK_S, stop_s=STOP_S, start_s=60.0, stall_s=30.0),
            lambda stage: self.recorded.append((stage, self.stage)),
            lambda: self.now_s,
            None,
        )

    # the beat

    def beat(self, length_s=TICK_S, working=lambda: True):
        self.beats += 1
        self.lengths_s.append(length_s)
        self.now_s += 1.0
        self.at.get(self.beats, lambda: None)()
        self.to_be_waited_for.append(working())

    def rest(self):
        self.calls.append("rest")

    def until_up(self, on_tick):
        while self.starting():
            self.beat()

    def gather(self, timeout_s):
        self.calls.append(("gather", timeout_s))

    def look_again(self, timeout_s):
        self.calls.append(("look_again", timeout_s))

    # workers and agents

    def mark(self, stage):
        self.calls.append(("mark", stage))

    def unmark(self):
        self.calls.append("unmark")

    def begin_stage(self, name):
        self.stage = name

    def ready(self, name):
        return name not in self._refuse

    def begin(self, name, spec, start_at_s, member, *, ahead):
        self.calls.append(("begin", name, start_at_s))
        self.members.append(member)
        self.slots[name].outcome = "none"

    def starting(self):
        return False

    def free_ports(self, wanted):
        return {place: tuple(range(1, count + 1)) for place, count in wanted.items()}

    def stop_tasks(self, slots=None):
        named = [slot.plan.worker for slot in slots or ()]
        self.calls.append(("stop_tasks", *named) if slots is not None else "stop_tasks")

    def event(self, kind, slot, message, **data):
        self.calls.append((kind, slot.plan.worker, message, data))

    def hung(self, slot, why, limit_s):
        self.calls.append(("hung", slot.plan.worker, why, limit_s))
        slot.outcome = "failed"

    def start_host_load(self, loads):
        self.calls.append(("start_host_load", dict(loads)))

    def stop_host_load(self):
        self.calls.append("stop_host_load")

    # a test's part

    def ends(self, name, outcome="finished"):
        slot = self.slots[name]
        slot.outcome, slot.first_round_s, slot.finished_s = outcome, 2.0, self.now_s

    def all_end(self):
        for name in (FIRST, SECOND):
            self.ends(name)

    def run(self, on_tick=None, should_stop=None, turns=EACH, expected_s=EXPECTED_S):
        stage_run = StageRun(
            self,
            dataclasses.replace(PLAN, turns=len(turns), expected_s=expected_s),
            dict.fromkeys(self.slots, SPEC),
            turns,
            LOADS,
        )
        return stage_run.run(on_tick, should_stop)

    def calls_of(self, kind):
        return [one for one in self.calls if one == kind or one[0] == kind]


@pytest.fixture
def team():
    """Two workers that take their tasks."""
    return Team()


@pytest.mark.parametrize(("expected_s", "beat_s"), [(100.0, 0.5), (10.0, 0.5), (4.0, 0.2), (0.5, 0.1)])
def test_the_end_of_a_short_turn_is_not_noticed_late(team, expected_s, beat_s):
    team.at = {2: team.all_end}
    team.run(expected_s=expected_s)
    assert team.lengths_s == pytest.approx([beat_s] * 2)


def test_a_stage_is_recorded_at_its_begin_and_at_its_end(team):
    team.at = {3: lambda: team.ends(FIRST), 5: lambda: team.ends(SECOND)}
    stage = team.run()
    (begun, _), (ended, during) = team.recorded
    assert (begun.start_s, begun.status, begun.end_s) == (HEAD_START_S, "running", None)
    assert begun.workers == (FIRST, SECOND)
    assert ended == stage
    assert (stage.status, stage.end_s, stage.loaded_from_s, stage.loaded_to_s) == ("finished", 5.0, 2.0, 3.0)
    assert (during, team.stage) == ("sustained", None)  # events belong to it until it is recorded
    assert stage.settings["expected_s"] == EXPECTED_S
    assert stage.settings["specs"][FIRST]["vram_mib"] == 64.0
    assert stage.settings["host_load"]["pc1"]["target_percent"] == 77.5


def test_all_begin_together_a_little_later(team):
    team.now_s = 50.0
    team.at = {1: team.all_end}
    team.run()
    assert team.calls_of("begin") == [("begin", name, 50.0 + HEAD_START_S) for name in (FIRST, SECOND)]


def test_the_cpu_load_lasts_as_long_as_the_stage(team):
    team.at = {1: team.all_end}
    team.run()
    assert team.calls_of("start_host_load") == [("start_host_load", LOADS)]
    assert team.calls[-4:] == ["stop_tasks", "stop_host_load", "unmark", ("gather", LAST_CALL_S)]


def test_every_node_notes_the_stage_before_anything_of_it_begins(team):
    team.at = {1: team.all_end}
    team.run()
    assert team.calls[0] == ("mark", "sustained")


def test_who_works_past_the_deadline_is_killed_and_the_stage_is_partial(team):
    team.at = {3: lambda: team.ends(FIRST)}
    stage = team.run()
    assert stage.status == "partial"
    assert team.beats == 121  # 120.1 s have passed for the first time
    message = "sustained did not end within 120 s"
    assert team.calls_of("timeout") == [("timeout", SECOND, message, {"limit_s": EXPECTED_S + TASK_S})]
    assert team.calls_of("hung") == [("hung", SECOND, message, EXPECTED_S + TASK_S)]


def test_the_deadline_is_the_planned_end_and_the_task_s_own_time(team, monkeypatch):
    monkeypatch.setattr(stage_loop, "HEAD_START_S", 0.0)  # so that a beat ends exactly there
    team.run()
    assert team.now_s == EXPECTED_S + TASK_S


def test_what_the_driver_stood_still_during_the_stage_is_added_to_the_deadline(team):
    def stand_still():
        team.paused_s += 30.0
        team.now_s += 30.0

    team.paused_s = 7.0  # before the stage: of no matter to it
    team.at = {10: stand_still}
    team.run()
    assert team.now_s == pytest.approx(DEADLINE_S + 30.0, abs=1.0)
    assert team.now_s >= DEADLINE_S + 30.0


def test_where_nobody_finished_the_stage_has_failed_and_the_nodes_are_looked_at_again(team):
    team.at = {2: lambda: [team.ends(name, "failed") for name in (FIRST, SECOND)]}
    stage = team.run()
    assert (stage.status, stage.loaded_from_s) == ("failed", None)
    assert team.calls_of("look_again") == [("look_again", STOP_S / 8)]


def test_a_stage_that_all_finished_needs_no_second_look(team):
    team.at = {1: team.all_end}
    team.run()
    assert team.calls_of("look_again") == []


def test_a_worker_that_did_not_begin_makes_the_stage_partial_and_is_not_waited_for():
    team = Team(refuse={SECOND})
    team.at = {1: lambda: team.ends(FIRST)}
    stage = team.run()
    assert (stage.status, stage.workers, team.beats) == ("partial", (FIRST,), 1)


def test_a_stage_that_nobody_began_has_failed_without_a_beat():
    team = Team(refuse={FIRST, SECOND})
    assert team.run().status == "failed"
    assert (team.beats, team.calls_of("start_host_load")) == (0, [])
    assert team.calls_of("gather")


def test_every_beat_is_reported(team):
    ticks = []
    team.at = {3: team.all_end}
    team.run(on_tick=lambda: ticks.append(team.beats))
    assert ticks == [1, 2, 3]


def test_a_stage_that_is_stopped_lets_its_tasks_end_and_is_interrupted(team):
    team.at = {3: lambda: team.ends(FIRST), 5: lambda: team.ends(SECOND)}
    stage = team.run(should_stop=lambda: team.beats >= 2)
    assert (stage.status, team.beats) == ("interrupted", 5)  # the slower one's end
    assert len(team.calls_of("stop_tasks")) == 2  # then, and at the stage's end as ever
    assert team.calls_of("gather") == []  # nobody waits for a last answer
    assert team.calls_of("look_again") == []


def test_tasks_that_do_not_end_hold_up_the_stop_for_half_its_limit(team):
    team.run(should_stop=lambda: True)
    assert team.beats == 1 + STOP_S / 2


def test_an_exception_ends_the_stage_as_interrupted(team):
    def fail():
        raise KeyboardInterrupt

    team.at = {2: fail}
    with pytest.raises(KeyboardInterrupt):
        team.run()
    stage, _ = team.recorded[-1]
    assert (stage.status, stage.end_s) == ("interrupted", 2.0)
    assert "stop_tasks" in team.calls
    assert "stop_host_load" in team.calls


def test_the_first_beat_of_a_stage_may_come_late(team):
    team.at = {1: team.all_end}
    team.run()
    assert team.calls_of("rest") == ["rest"]


def test_a_beat_that_took_long_gives_the_next_one_as_long(monkeypatch):
    """Its next one is due after as much time again, and a pause says how much is spent."""
    clock = SimpleNamespace(now_s=0.0)
    monkeypatch.setattr(stage_loop.time, "monotonic", lambda: clock.now_s)
    monkeypatch.setattr(stage_loop, "collect", lambda *_: setattr(clock, "now_s", clock.now_s + 4.0) or {})
    members = SimpleNamespace(
        pollers=dict,
        check_silence=lambda: None,
        check_progress=lambda: None,
        begin_anew=lambda _: None,
        starting=lambda: True,
        tell_steps=lambda: None,
    )
    watch = SimpleNamespace(news=dict, silent_s=lambda _: 0.0, begin_anew=lambda _: None)
    pauses, events = [], []
    timeouts = Timeouts(stall_s=10.0, task_s=60.0, start_s=60.0, stop_s=10.0)
    polling = stage_loop.Polling(
        Driving("run", timeouts, events.append, lambda: clock.now_s, None),
        members,
        members,
        watch,
        pause=lambda *arguments: pauses.append(arguments),
        next_step=lambda node: f"start {node}",
    )
    polling.beat(0.5)
    assert pauses == [(0.5, 4.0, True)]
    assert polling._due_s == 4.0 + 4.0 + 0.5 + stage_loop.FETCH_S + stage_loop.PAUSE_S
    assert events == []
    polling.beat(0.5, working=lambda: True)
    polling.beat(0.5, working=lambda: False)
    assert pauses == 2 * [(0.5, 4.0, True)]


def test_a_stage_ends_in_the_beat_in_which_its_last_task_ends(team):
    team.at = {2: lambda: team.ends(FIRST), 4: lambda: team.ends(SECOND)}
    team.run()
    assert team.to_be_waited_for == [True, True, True, False]


def test_one_that_is_aborted_waits_for_its_tasks_and_no_longer(team):
    team.at = {2: team.all_end}
    team.run(should_stop=lambda: True)
    assert team.to_be_waited_for == [True, False]


# Turns


BOTH = Crew("pair", (FIRST, SECOND))
TWICE = ((BOTH,), (Crew("other", (FIRST, SECOND)),))


def test_turns_come_one_after_the_other_and_count_as_one_stage(team):
    team.at = {2: team.all_end, 5: team.all_end}
    stage = team.run(turns=TWICE)
    assert [(member.subject, member.rank) for member in team.members] == [
        ("pair", 0),
        ("pair", 1),
        ("other", 0),
        ("other", 1),
    ]
    assert (stage.status, stage.workers, team.beats) == ("finished", (FIRST, SECOND), 5)
    assert (stage.loaded_from_s, stage.loaded_to_s) == (2.0, 5.0)
    assert len(team.calls_of("start_host_load")) == 1


def test_each_turn_has_a_deadline_of_its_own(team):
    team.at = {3: lambda: team.ends(FIRST)}
    team.run(turns=TWICE)
    turn_s = EXPECTED_S / 2 + TASK_S
    late = [one for one in team.calls if one[0] == "timeout"]
    assert [one[3]["limit_s"] for one in late] == [turn_s] * len(late)
    assert team.now_s == pytest.approx(2 * turn_s, abs=5)


def test_a_crew_that_is_lost_costs_its_turn_alone(team):
    team.at = {2: lambda: team.ends(FIRST, "failed"), 3: lambda: team.ends(SECOND), 5: team.all_end}
    stage = team.run(turns=TWICE)
    assert (stage.status, team.beats) == ("partial", 5)
    assert team.calls_of("stop_tasks")[0] == ("stop_tasks", SECOND)
    (event,) = (one for one, _ in team.recorded if isinstance(one, Event))
    assert (event.kind, event.subject, event.stage) == ("crew_failed", "pair", "sustained")


def test_the_next_turn_waits_for_who_takes_another_s_place(team):
    coming = iter([True, True, False])
    team.starting = lambda: next(coming)
    team.at = {1: team.all_end, 4: team.all_end}
    assert team.run(turns=TWICE).status == "finished"
    assert team.beats == 4


def test_a_stage_that_is_stopped_begins_no_other_turn(team):
    team.at = {2: team.all_end}
    stage = team.run(should_stop=lambda: team.beats == 1, turns=TWICE)
    assert (stage.status, len(team.members)) == ("interrupted", 2)


def test_a_stage_of_which_no_crew_could_begin_has_failed():
    team = Team(refuse={SECOND})
    stage = team.run(turns=TWICE)
    assert (stage.status, stage.workers, team.beats) == ("failed", (), 0)
    assert [one.subject for one, _ in team.recorded if isinstance(one, Event)] == ["pair", "other"]


@pytest.mark.parametrize("stalled_s", [0.0, 30.0])
def test_who_is_left_of_a_crew_gets_its_time_again_after_the_driver_stalled(team, stalled_s):
    def stall():
        team.paused_s += stalled_s
        team.now_s += stalled_s

    team.at = {2: lambda: team.ends(FIRST, "failed"), 4: stall}
    team.run(turns=((BOTH,),))
    assert team.calls_of("hung")[0][1] == SECOND
    assert team.now_s == (4.0 + stalled_s if stalled_s else 2.0) + STOP_S / 2 + 1.0


# The window of common load


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
