"""Workers that do not come up, fail or end: the driver's deadlines on a clock set by hand."""

import signal

import pytest

from rigproof.cluster.driver.workers import FIND_KILLER, INSTALL, NEVER_UP
from rigproof.cluster.ray.calls import Gone
from rigproof.host.processes import ProcessId
from support.driven_workers import CPU, FIRST, PLANS, SECOND, STALL_S, START_S, Calls, Staff

# Starting


def test_each_worker_is_started_in_its_place(staff):
    assert [name for name, *_ in staff.made] == [f"run-worker-{one}-0" for one in (FIRST, SECOND, CPU)]
    (_, place, actor), _, (_, cpu_place, _) = staff.made
    ((method, setup),) = actor.calls
    assert (method, setup.plan, setup.generation) == ("become", PLANS[0], 0)
    assert (place.node.node_id, place.group, place.gpu_share, place.cpus) == ("id-pc1", "group", 0.5, 2.0)
    assert (cpu_place.node.node_id, cpu_place.group, cpu_place.cpus) == ("id-pc2", None, 3.0)
    assert (place.device, cpu_place.device) == ("cuda", "cpu")
    assert staff.workers.starting()


def test_a_process_that_was_there_before_fills_a_slot_and_the_others_are_started():
    there = Calls()
    staff = Staff(early=[PLANS[2]], first={"pc1/gpu0": there})
    assert [name for name, *_ in staff.made] == [f"run-worker-{CPU}-0", f"run-worker-{SECOND}-0"]
    assert [setup.plan.worker for _, setup in there.calls] == [FIRST]
    assert [setup.plan.worker for *_, actor in staff.made for _, setup in actor.calls] == [CPU, SECOND]
    staff.workers.pollers()
    assert len(there.calls) == 1  # told once
    assert staff.killed == []


def test_a_process_that_was_there_before_in_vain_is_killed():
    staff = Staff(PLANS[:1], early=[PLANS[2]])
    staff.driving.wait_kills(60.0)
    assert staff.killed == [staff.made[0][2]]
    assert [slot.plan.worker for slot in staff.workers.slots.values()] == [FIRST]


def test_a_replacement_is_a_new_process_in_the_workers_place():
    there = Calls()
    staff = Staff(PLANS[:1], first={"pc1/gpu0": there})
    staff.answers(FIRST, "ready")
    staff.workers.hung(staff.slot(), "no answer", STALL_S)
    staff.workers.pollers()
    ((name, place, actor),) = staff.made
    assert (name, place.gpu_share) == (f"run-worker-{FIRST}-1", 0.5)
    ((method, setup),) = actor.calls
    assert (method, setup.plan, setup.generation) == ("become", PLANS[0], 1)


@pytest.mark.parametrize(("reserved", "each"), [(3.0, 1.5), (8.0, 2.0), (1.0, 0.5)])
def test_workers_of_a_gpu_share_the_cpus_that_were_reserved_with_it(reserved, each):
    staff = Staff(PLANS[:2], cpus=reserved)
    assert [place.cpus for _, place, _ in staff.made] == [each, each]


def test_a_worker_alone_on_its_gpu_has_all_that_was_reserved():
    assert [place.cpus for _, place, _ in Staff(PLANS[:1], cpus=1.5).made] == [1.5]


def test_a_worker_that_ray_finds_no_room_for_is_given_up_at_the_limit(lonely):
    lonely.check_at(START_S)
    assert lonely.events == []
    lonely.check_at(START_S + 0.1)
    (event,) = lonely.events
    assert (event.kind, event.subject, event.worker) == ("gpu_taken", "pc1/gpu0", FIRST)
    assert event.message == "Ray found no room for pc1/gpu0#0 (2 CPUs) in 60 s"
    assert event.data["limit_s"] == START_S
    assert (lonely.slot().state, lonely.slot().poller, len(lonely.made)) == ("vacant", None, 1)
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


def test_a_process_is_adopted_once_and_remembered_where_it_runs_on_this_host(staff):
    for worker, pid in ((FIRST, 11), (FIRST, 11), (CPU, 22)):
        staff.answers(worker, "ready", pid=pid)
    first, cpu = ProcessId(11, 1), ProcessId(22, 1)
    assert staff.agent_calls == [("adopt", "pc1", first), ("adopt", "pc2", cpu)]
    assert staff.workers.ever == {first}
    assert (staff.slot().pid, staff.slot(SECOND).pid) == (11, None)


# Replacing


def test_a_worker_is_replaced_once_in_a_stage_and_then_given_up(lonely):
    lonely.works()
    lonely.check_at(START_S + 1)
    assert [name for name, *_ in lonely.made] == [f"run-worker-{FIRST}-0", f"run-worker-{FIRST}-1"]
    lonely.workers.pollers()
    assert lonely.made[1][2].calls[0][1].generation == 1
    lonely.answers(state="ready")
    (_, replaced) = lonely.events
    assert (replaced.kind, replaced.data["pid"], replaced.data["generation"]) == ("worker_replaced", 101, 1)
    assert replaced.message == "a new process took over: no finished round for 61 s"
    lonely.answers(state="ready")  # reported once
    assert len(lonely.events) == 2

    lonely.slot().poller.send(70.0)
    lonely.check_at(90.0)
    assert lonely.kinds()[2:] == ["worker_hung"]
    assert (lonely.slot().state, len(lonely.made)) == ("vacant", 2)


def test_before_the_first_stage_a_worker_is_replaced_once_too(lonely):
    for _ in range(2):
        lonely.workers.take(FIRST, Gone("exit code 1"))
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


def test_a_process_that_is_gone_died_or_never_came_up(staff):
    staff.workers.pollers()
    staff.answers(FIRST, "ready", pid=11)
    for worker in (FIRST, SECOND):
        staff.workers.take(worker, Gone("exit code 9"))
    assert [(event.kind, event.message) for event in staff.events] == [
        ("worker_died", "the process is gone: exit code 9"),
        ("worker_failed", "the process is gone: exit code 9"),
    ]
    assert (staff.events[0].data["error"], staff.events[0].data["pid"]) == ("exit code 9", 11)
    assert [event.data.get("disturbed") for event in staff.events] == [None, NEVER_UP]
    assert len(staff.made) == 5
    assert staff.slot().replacing == "the process was gone"


def test_a_process_that_rays_memory_monitor_killed_is_not_the_rigs_loss(lonely):
    lonely.works()
    lonely.workers.take(FIRST, Gone("Ray's memory monitor killed it", "free some"))
    (event,) = lonely.events
    assert (event.kind, event.data["disturbed"]) == ("worker_died", "free some")


@pytest.mark.parametrize(
    ("error", "remedy"), [("ModuleNotFoundError: No module named 'torch'", INSTALL), ("CUDA error 802", None)]
)
def test_a_process_that_cannot_load_torch_says_nothing_about_its_card(lonely, error, remedy):
    lonely.answers(state="broken", error=error)
    assert lonely.events[0].data.get("disturbed") == remedy


def test_a_process_that_goes_while_it_opens_its_device_died(lonely):
    lonely.answers(state="opening")
    lonely.workers.take(FIRST, Gone("exit code 1"))
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


@pytest.mark.parametrize(
    ("how", "remedy"),
    [
        (f"{-signal.SIGKILL:d}", FIND_KILLER),
        (f"{-signal.SIGSEGV:d}", None),
        ("1", None),
        ("1: RuntimeError: CUDA error 719", None),
        ("1: ModuleNotFoundError: No module named 'rigproof.stages'", INSTALL),
        ("1: SyntaxError: '(' was never closed", INSTALL),
        (f"{-signal.SIGSEGV:d}: ImportError: no tqdm, so no bar is shown", None),  # a warning, then a crash
    ],
)
def test_a_task_whose_own_process_was_killed_or_not_loaded_is_not_the_rigs_failure(lonely, how, remedy):
    lonely.works()
    lonely.answers(state="failed", error=f"RuntimeError: the memory test ended with status {how}")
    assert lonely.events[0].data.get("disturbed") == remedy


def test_workers_of_a_node_that_is_gone_are_given_up_and_no_others(staff):
    staff.works()
    staff.answers(CPU, "ready", pid=22)
    staff.workers.lost("pc1", "no heartbeat")
    assert [(event.kind, event.worker, event.message) for event in staff.events] == [
        ("worker_died", FIRST, "its node is gone: no heartbeat"),
        ("worker_died", SECOND, "its node is gone: no heartbeat"),
    ]
    assert [staff.slot(name).state for name in (FIRST, SECOND, CPU)] == ["vacant", "vacant", "ready"]
    assert len(staff.made) == 3
    staff.workers.lost("pc1", "no heartbeat")  # of whom nobody is left
    assert len(staff.events) == 2


# Ending


def test_at_the_end_everybody_is_killed_and_nobody_is_left(staff):
    staff.answers(FIRST, "ready", pid=11)
    staff.workers.end()
    staff.driving.wait_kills(60.0)
    assert ("kill", "pc1", ProcessId(11, 1)) in staff.agent_calls
    assert {id(actor) for actor in staff.killed} == {id(actor) for *_, actor in staff.made}
    assert {slot.state for slot in staff.workers.slots.values()} == {"vacant"}
    assert staff.workers.pollers() == {}


def test_a_worker_that_hangs_is_killed_by_its_agent_and_by_ray(lonely):
    lonely.answers(state="ready", pid=11)
    lonely.workers.hung(lonely.slot(), "no answer", STALL_S)
    lonely.driving.wait_kills(60.0)
    assert lonely.agent_calls[-1] == ("kill", "pc1", ProcessId(11, 1))
    assert lonely.killed == [lonely.made[0][2]]
