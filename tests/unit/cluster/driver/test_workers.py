"""Workers that do not come up, hang, fail or end: the driver's deadlines on a clock set by hand."""

import dataclasses
from types import SimpleNamespace

import pytest

from rigproof.cluster.actors.messages import WorkerReply
from rigproof.cluster.driver.agent_link import AgentLink
from rigproof.cluster.driver.workers import Workers
from rigproof.cluster.ray.calls import Gone
from rigproof.cluster.ray.matching import FoundNode
from rigproof.host.processes import ProcessId
from rigproof.profiles.planning.plan import WorkerPlan
from rigproof.profiles.tables.rig import Timeouts
from rigproof.records.crews import Member
from rigproof.records.measurements import TFLOP, Event, Round
from rigproof.stages.registry import KINDS

START_S, STALL_S = 60.0, 10.0
FIRST, SECOND, CPU = "pc1/gpu0#0", "pc1/gpu0#1", "pc2/cpu0#0"
PLANS = [
    WorkerPlan(FIRST, "pc1/gpu0", "pc1", "cuda", 0.5, 2.0, 64.0, 256),
    WorkerPlan(SECOND, "pc1/gpu0", "pc1", "cuda", 0.5, 2.0, 64.0, 256),
    WorkerPlan(CPU, "pc2/cpu0", "pc2", "cpu", 0.0, 3.0, 64.0, 256),
]


class Calls:
    """Stands for an actor: notes every call that it is sent; `poll` is never answered by itself."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, method):
        return SimpleNamespace(remote=lambda *arguments: self.calls.append((method, *arguments)) or object())


class Crew:
    """All workers of PLANS, on a clock that is set by hand, with agents and actors that only take notes."""

    def __init__(self, plans=PLANS, start_s=START_S, stall_s=STALL_S, cpus=4.0, early=(), first=None):
        self.now_s = 0.0
        self.events, self.records, self.made, self.killed, self.agent_calls = [], [], [], [], []
        self.steps = []
        links = {
            name: AgentLink(
                name, FoundNode(f"id-{name}", name, "10.0.0.1", name, 8, 1, here=name == "pc1"), None
            )
            for name in ("pc1", "pc2")
        }
        calls = self.agent_calls
        agents = SimpleNamespace(
            links=links,
            adopt=lambda node, process: calls.append(("adopt", node, process)),
            kill=lambda node, process: calls.append(("kill", node, process)),
            note=lambda node, worker, step: self.steps.append((node, worker, step)),
        )
        self.workers = Workers(
            "run",
            Timeouts(start_s=start_s, stall_s=stall_s, task_s=60.0, stop_s=10.0),
            agents,
            lambda record: (self.records if isinstance(record, Round) else self.events).append(record),
            lambda: self.now_s,
            actors=SimpleNamespace(worker=self._make, kill=self.killed.append),
            kinds=KINDS,
        )
        self.workers.stage = "sustained"
        self.workers.begin_start(early)
        self.workers.start(plans, {"pc1/gpu0": "group"}, {"pc1/gpu0": cpus}, first or {})

    def _make(self, name, place):
        actor = Calls()
        self.made.append((name, place, actor))
        return actor

    def slot(self, worker=FIRST):
        return self.workers.slots[worker]

    def answers(self, worker=FIRST, state="working", progress=0, records=(), error=None, task=None, pid=None):
        """One answer of a worker to a poll."""
        slot = self.slot(worker)
        self.workers.lines()
        process = ProcessId(pid or 100 + slot.generation, 1)
        number = slot.task if task is None else task
        reply = WorkerReply(process, state, number, progress, tuple(records), error)
        return self.workers.take(slot.line, slot.line.take(reply, self.now_s))

    def works(self, worker=FIRST, begin_s=0.0):
        """It is up, and has its task."""
        self.answers(worker, "ready")
        assert self.workers.ready(worker)
        self.workers.begin(worker, "spec", begin_s, Member(self.slot(worker).plan.subject))

    def check_at(self, now_s):
        self.now_s = now_s
        self.workers.check_progress()

    def kinds(self):
        return [event.kind for event in self.events]


@pytest.fixture
def crew():
    """Started at 0 s."""
    return Crew()


@pytest.fixture
def lonely():
    """The first worker alone."""
    return Crew(PLANS[:1])


def done_round(t_s, worker=FIRST):
    return Round(
        t_s,
        "sustained",
        worker,
        "pc1/gpu0",
        "measure",
        0.5,
        1.0,
        TFLOP,
        True,
        {"precision": "bf16", "size": 256},
    )


# Starting


def test_each_worker_is_started_in_its_place(crew):
    assert [name for name, *_ in crew.made] == [f"run-worker-{one}-0" for one in (FIRST, SECOND, CPU)]
    (_, place, actor), _, (_, cpu_place, _) = crew.made
    ((method, setup),) = actor.calls
    assert (method, setup.plan, setup.generation) == ("become", PLANS[0], 0)
    assert (place.node.node_id, place.group, place.gpu_share, place.cpus) == ("id-pc1", "group", 0.5, 2.0)
    assert (cpu_place.node.node_id, cpu_place.group, cpu_place.cpus) == ("id-pc2", None, 3.0)
    assert (place.device, cpu_place.device) == ("cuda", "cpu")
    assert crew.workers.starting()


def test_a_process_that_was_there_before_fills_a_slot_and_the_others_are_started():
    there = Calls()
    crew = Crew(early=[PLANS[2]], first={"pc1/gpu0": there})
    assert [name for name, *_ in crew.made] == [f"run-worker-{CPU}-0", f"run-worker-{SECOND}-0"]
    assert [setup.plan.worker for _, setup in there.calls] == [FIRST]
    assert [setup.plan.worker for *_, actor in crew.made for _, setup in actor.calls] == [CPU, SECOND]
    crew.workers.lines()
    assert len(there.calls) == 1  # told once
    assert crew.killed == []


def test_a_process_that_was_there_before_in_vain_is_killed():
    crew = Crew(PLANS[:1], early=[PLANS[2]])
    crew.workers.wait_kills(60.0)
    assert crew.killed == [crew.made[0][2]]
    assert [slot.plan.worker for slot in crew.workers.slots.values()] == [FIRST]


def test_a_replacement_is_a_new_process_in_the_workers_place():
    there = Calls()
    crew = Crew(PLANS[:1], first={"pc1/gpu0": there})
    crew.answers(FIRST, "ready")
    crew.workers.hung(crew.slot(), "no answer", STALL_S)
    crew.workers.lines()
    ((name, place, actor),) = crew.made
    assert (name, place.gpu_share) == (f"run-worker-{FIRST}-1", 0.5)
    ((method, setup),) = actor.calls
    assert (method, setup.plan, setup.generation) == ("become", PLANS[0], 1)


@pytest.mark.parametrize(("reserved", "each"), [(3.0, 1.5), (8.0, 2.0), (1.0, 0.5)])
def test_workers_of_a_gpu_share_the_cpus_that_were_reserved_with_it(reserved, each):
    crew = Crew(PLANS[:2], cpus=reserved)
    assert [place.cpus for _, place, _ in crew.made] == [each, each]


def test_a_worker_alone_on_its_gpu_has_all_that_was_reserved():
    assert [place.cpus for _, place, _ in Crew(PLANS[:1], cpus=1.5).made] == [1.5]


def test_a_worker_that_ray_finds_no_room_for_is_given_up_at_the_limit(lonely):
    lonely.check_at(START_S)
    assert lonely.events == []
    lonely.check_at(START_S + 0.1)
    (event,) = lonely.events
    assert (event.kind, event.subject, event.worker) == ("gpu_taken", "pc1/gpu0", FIRST)
    assert event.message == "Ray found no room for pc1/gpu0#0 (2 CPUs) in 60 s"
    assert event.data["limit_s"] == START_S
    assert (lonely.slot().state, lonely.slot().line, len(lonely.made)) == ("vacant", None, 1)
    assert not lonely.workers.starting()


def test_a_process_that_is_there_and_does_not_open_its_device_hangs(lonely):
    lonely.answers(state="opening")
    assert lonely.workers.starting()
    lonely.check_at(START_S + 0.1)
    (event,) = lonely.events
    assert (event.kind, event.message) == ("worker_hung", "did not start in 60 s")
    assert (event.data["setting"], event.data["limit_s"]) == ("timeouts.start_s", START_S)
    assert len(lonely.made) == 1
    assert lonely.agent_calls[-1] == ("kill", "pc1", ProcessId(100, 1))


def test_the_limit_of_a_replacement_counts_from_its_own_start(lonely):
    lonely.works()
    lonely.check_at(START_S + 1)  # it never finished a round
    assert lonely.slot().state == "starting"
    lonely.check_at(2 * START_S + 1)
    assert lonely.slot().state == "starting"
    lonely.check_at(2 * START_S + 1.1)
    assert lonely.kinds() == ["worker_hung", "worker_hung"]
    assert lonely.events[-1].data["setting"] == "timeouts.start_s"


def test_a_device_that_does_not_open_is_reported_and_not_tried_again(lonely):
    lonely.answers(state="broken", error="CUDA error 802")
    (event,) = lonely.events
    assert (event.kind, event.message) == ("worker_failed", "its device did not open: CUDA error 802")
    assert event.data["error"] == "CUDA error 802"
    assert (lonely.slot().state, len(lonely.made)) == ("vacant", 1)


def test_a_process_is_adopted_once_and_remembered_where_it_runs_on_this_host(crew):
    for worker, pid in ((FIRST, 11), (FIRST, 11), (CPU, 22)):
        crew.answers(worker, "ready", pid=pid)
    first, cpu = ProcessId(11, 1), ProcessId(22, 1)
    assert crew.agent_calls == [("adopt", "pc1", first), ("adopt", "pc2", cpu)]
    assert crew.workers.ever == {first}
    assert crew.workers.pids() == {11, 22}
    assert (crew.slot().pid, crew.slot(SECOND).pid) == (11, None)


# Progress


def test_before_the_first_round_a_task_has_the_limit_of_a_start(lonely):
    lonely.works()
    lonely.check_at(START_S)
    assert lonely.events == []
    lonely.check_at(START_S + 0.1)
    (event,) = lonely.events
    assert (event.kind, event.message) == ("worker_hung", "killed: no finished round for 60 s")
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
    crew = Crew(PLANS[:1], start_s=5.0, stall_s=STALL_S)
    crew.works()
    crew.check_at(STALL_S)
    assert crew.events == []
    crew.check_at(STALL_S + 0.1)
    assert crew.events[0].data["limit_s"] == STALL_S


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
    lonely.slot().line.send(1.0)
    lonely.check_at(1.0 + STALL_S)
    assert lonely.events == []
    lonely.check_at(1.0 + STALL_S + 0.1)
    (event,) = lonely.events
    assert (event.kind, event.message) == ("worker_hung", "killed: no answer for 10 s")
    assert event.data["limit_s"] == STALL_S


def test_who_has_no_task_may_be_without_rounds_for_ever(lonely):
    lonely.answers(state="ready")
    lonely.check_at(1000.0)
    lonely.works(begin_s=1000.0)
    lonely.answers(state="finished", progress=1)
    lonely.check_at(2000.0)
    assert lonely.events == []


def test_a_driver_that_stood_still_gives_everybody_the_full_limit_again(crew):
    crew.works()
    crew.works(CPU, begin_s=90.0)
    crew.now_s = 50.0
    crew.workers.begin_anew(50.0)
    assert (crew.slot().progress_s, crew.slot(SECOND).since_s) == (50.0, 50.0)
    assert crew.slot(CPU).progress_s == 90.0  # it only begins then
    crew.check_at(50.0 + START_S)
    assert crew.events == []
    crew.check_at(50.0 + START_S + 0.1)
    assert [(event.kind, event.worker) for event in crew.events] == [
        ("worker_hung", FIRST),
        ("gpu_taken", SECOND),
    ]


def test_a_driver_that_stood_still_forgets_that_an_answer_is_owed(lonely):
    lonely.answers(state="ready")
    lonely.slot().line.send(1.0)
    lonely.workers.begin_anew(30.0)
    lonely.check_at(35.0)
    assert lonely.events == []


# Replacing


def test_a_worker_is_replaced_once_in_a_stage_and_then_given_up(lonely):
    lonely.works()
    lonely.check_at(START_S + 1)
    assert [name for name, *_ in lonely.made] == [f"run-worker-{FIRST}-0", f"run-worker-{FIRST}-1"]
    lonely.workers.lines()
    assert lonely.made[1][2].calls[0][1].generation == 1
    lonely.answers(state="ready")
    (_, replaced) = lonely.events
    assert (replaced.kind, replaced.data["pid"], replaced.data["generation"]) == ("worker_replaced", 101, 1)
    assert replaced.message == "a new process took over: no finished round for 61 s"
    lonely.answers(state="ready")  # reported once
    assert len(lonely.events) == 2

    lonely.slot().line.send(70.0)
    lonely.check_at(90.0)
    assert lonely.kinds()[2:] == ["worker_hung"]
    assert (lonely.slot().state, len(lonely.made)) == ("vacant", 2)


def test_before_the_first_stage_a_worker_is_replaced_once_too(lonely):
    for _ in range(2):
        lonely.workers.lines()
        assert lonely.workers.take(lonely.slot().line, Gone("exit code 1"))
    assert (lonely.slot().state, len(lonely.made)) == ("vacant", 2)


def test_each_stage_has_a_replacement_of_its_own(lonely):
    lonely.works()
    lonely.check_at(START_S + 1)
    lonely.workers.begin_stage("training")
    lonely.works(begin_s=70.0)
    lonely.check_at(70.0 + START_S + 1)
    assert len(lonely.made) == 3
    assert lonely.slot().state == "starting"


def test_the_task_of_a_worker_that_was_replaced_has_failed(lonely):
    lonely.works()
    lonely.check_at(START_S + 1)
    assert lonely.slot().outcome == "failed"
    lonely.answers(state="ready")
    assert lonely.slot().outcome == "failed"


def test_a_process_that_is_gone_died_or_never_came_up(crew):
    crew.workers.lines()
    crew.answers(FIRST, "ready", pid=11)
    for worker in (FIRST, SECOND):
        assert crew.workers.take(crew.slot(worker).line, Gone("exit code 9"))
    assert [(event.kind, event.message) for event in crew.events] == [
        ("worker_died", "the process is gone: exit code 9"),
        ("worker_failed", "the process is gone: exit code 9"),
    ]
    assert (crew.events[0].data["error"], crew.events[0].data["pid"]) == ("exit code 9", 11)
    assert len(crew.made) == 5
    assert crew.slot().replacing == "the process was gone"


def test_a_process_that_goes_while_it_opens_its_device_died(lonely):
    lonely.answers(state="opening")
    assert lonely.workers.take(lonely.slot().line, Gone("exit code 1"))
    assert lonely.kinds() == ["worker_died"]


def test_a_task_that_failed_is_reported_and_its_process_replaced(lonely):
    lonely.works()
    lonely.answers(state="failed", error="CUDA out of memory")
    (event,) = lonely.events
    assert (event.kind, event.message) == ("worker_failed", "its task failed: CUDA out of memory")
    assert event.data["error"] == "CUDA out of memory"
    assert lonely.slot().outcome == "failed"
    assert lonely.slot().replacing == "its task had failed"
    assert len(lonely.made) == 2


def test_workers_of_a_node_that_is_gone_are_given_up_and_no_others(crew):
    crew.works()
    crew.answers(CPU, "ready", pid=22)
    crew.workers.lost("pc1", "no heartbeat")
    assert [(event.kind, event.worker, event.message) for event in crew.events] == [
        ("worker_died", FIRST, "its node is gone: no heartbeat"),
        ("worker_died", SECOND, "its node is gone: no heartbeat"),
    ]
    assert [crew.slot(name).state for name in (FIRST, SECOND, CPU)] == ["vacant", "vacant", "ready"]
    assert len(crew.made) == 3
    crew.workers.lost("pc1", "no heartbeat")  # of whom nobody is left
    assert len(crew.events) == 2


# Tasks


def test_a_task_is_given_to_who_is_ready_for_it(crew):
    alone = Member("pc1/gpu0")
    assert not crew.workers.ready("pc9/gpu0#0")
    assert not crew.workers.ready(FIRST)  # still starting
    crew.answers(FIRST, "ready")
    assert crew.workers.ready(FIRST)
    crew.workers.begin(FIRST, "spec", 1.5, alone)
    assert crew.made[0][2].calls[1:] == [("start", 1, "spec", 1.5, alone)]
    assert not crew.workers.ready(FIRST)  # at work
    crew.answers(FIRST, "finished", progress=1)
    assert crew.workers.ready(FIRST)
    crew.workers.begin(FIRST, "other", 3.0, alone)
    assert crew.made[0][2].calls[-1] == ("start", 2, "other", 3.0, alone)
    crew.workers.lost("pc1", "off")
    assert not crew.workers.ready(FIRST)


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


def test_only_those_at_work_are_told_to_stop(crew):
    crew.works(FIRST)
    crew.answers(SECOND, "ready")
    crew.workers.stop_tasks()
    first, second, cpu = (actor.calls for *_, actor in crew.made)
    assert ("stop",) in first
    assert [method for method, *_ in second + cpu] == ["become", "become"]


def test_an_answer_on_a_line_that_is_none_of_theirs_is_not_taken(lonely):
    reply = WorkerReply(ProcessId(1, 1), "ready", 0, 0, ())
    assert not lonely.workers.take(object(), reply)
    lonely.answers(state="ready")
    old = lonely.slot().line
    lonely.workers.hung(lonely.slot(), "no answer", STALL_S)  # another line by now
    assert not lonely.workers.take(old, reply)


# Ending


def test_at_the_end_everybody_is_killed_and_nobody_is_left(crew):
    crew.answers(FIRST, "ready", pid=11)
    crew.workers.end()
    crew.workers.wait_kills(60.0)
    assert ("kill", "pc1", ProcessId(11, 1)) in crew.agent_calls
    assert {id(actor) for actor in crew.killed} == {id(actor) for *_, actor in crew.made}
    assert {slot.state for slot in crew.workers.slots.values()} == {"vacant"}
    assert crew.workers.lines() == []


def test_a_worker_that_hangs_is_killed_by_its_agent_and_by_ray(lonely):
    lonely.answers(state="ready", pid=11)
    lonely.workers.hung(lonely.slot(), "no answer", STALL_S)
    lonely.workers.wait_kills(60.0)
    assert lonely.agent_calls[-1] == ("kill", "pc1", ProcessId(11, 1))
    assert lonely.killed == [lonely.made[0][2]]


@pytest.mark.parametrize(("plans", "each_s"), [(PLANS[:1], 6.0), (PLANS, 2.0)])
def test_kills_share_the_time_that_is_left_for_them(monkeypatch, plans, each_s):
    waits = []
    order = SimpleNamespace(done=waits.append)
    monkeypatch.setattr("rigproof.cluster.driver.workers.Background", lambda kill, name: order)
    crew = Crew(plans)
    crew.workers.end()
    crew.workers.wait_kills(6.0)
    assert waits == [each_s] * len(plans)
